#include "fpga/pe_chain/generator/steps_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/common/generator/testbench_modules.h"
#include "fpga/common/generator/text_template.h"
#include "fpga/pe_chain/generator/steps_templates.h"
#include "fpga/pe_chain/generator/steps_vectors.h"
#include "fpga/recurrence/rtl/rtl_modules.h"

namespace millrace {
namespace {

class StepsFiles {
 public:
  StepsFiles(const std::filesystem::path& folder, const PeChainHardware& hardware, const std::vector<ServedSteps>& served,
             const StepsTestbench& bench)
      : folder_(folder),
        hardware_(of_cell(hardware, served.front().layer->cell)),
        served_(served),
        bench_(bench),
        parts_(word_parts_of(hardware_.cell)) {
    for (const ServedSteps& other : served)
      if (other.layer->cell != hardware_.cell || !(other.layer->forms == served.front().layer->forms))
        fail(ErrorCode::kUsage, "\"{}\" and \"{}\" are of cells that one engine does not serve", served.front().name, other.name);
  }

  void write() {
    for (const char* const part : {"rtl", "images", "vectors"}) make_folders(folder_ / part);
    write_modules();
    put(fmt::format("images/{}", kGateTableFile), gate_table_text());
    for (size_t p = 0; p < served_.size(); ++p) {
      const std::string prefix = served_.size() == 1 ? "" : fmt::format("place{}_", p);
      StepsTestbench bench = bench_;
      bench.seed += p;
      if (served_[p].steps > 0) bench.steps = served_[p].steps;
      const FixedRecurrent& layer = *served_[p].layer;
      places_.push_back(
          write_steps_vectors(folder_, prefix, hardware_, layer, bench, served_[p].board.value_or(UnitRange{0, layer.hidden})));
    }
    write_top();
    write_testbench();
  }

 private:
  static PeChainHardware of_cell(PeChainHardware hardware, CellKind cell) {
    hardware.cell = cell;
    return hardware;
  }
  void put(const std::string& file, std::string_view text) const { write_atomically(folder_ / file, text); }
  static int64_t bits_for(int64_t value) { return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(value))); }
  static std::string number(int64_t value) { return fmt::format("{}", value); }
  // Passes of some place are of one product of a step.
  bool told_part() const {
    return std::ranges::any_of(places_, [](const StepsPlace& place) { return !place.whole && place.settings[0].projects; });
  }
  bool whole() const { return std::ranges::all_of(places_, &StepsPlace::whole); }

  void write_modules() const {
    for (const RtlModule& module : pe_chain_engine_modules()) put(fmt::format("rtl/{}", module.file), module.text);
  }

  TemplateValues sizes() const {
    return {{"ADDRESS_BITS", number(std::max<int64_t>(1, bits_for(hardware_.words - 1)))},
            {"LOAD_BITS", number(16 * hardware_.chains)},
            {"BIAS_BITS", number(32 * hardware_.chains * parts_.biases)},
            {"TAKEN_BITS", number(16 * hardware_.chains * parts_.gates)},
            {"KEPT_BITS", number(32 * hardware_.chains)},
            {"IN_BITS", number(16 * hardware_.chains * parts_.in())},
            {"OUT_BITS", number(16 * hardware_.chains * parts_.out())}};
  }

  // Of every place, and told by the way that is gone where it depends on that.
  std::string chosen(int bits, const std::function<int64_t(const StepsPlace&, bool)>& value_of) const {
    std::string text;
    for (size_t p = places_.size(); p-- > 0;) {
      const int64_t forward = value_of(places_[p], false), of_back = value_of(places_[p], true);
      const std::string here =
          forward == of_back ? fmt::format("{}'d{}", bits, forward) : fmt::format("back ? {0}'d{1} : {0}'d{2}", bits, of_back, forward);
      if (text.empty() || text == here)
        text = here;
      else
        text = fmt::format("place == 8'd{} ? ({}) : ({})", p, here, text);
    }
    return text;
  }

  void write_top() const {
    std::string parameters, settings;
    for (const auto& [name, value] : parameters_of(hardware_, served_.front().layer->forms))
      parameters += fmt::format("      .{}({}),\n", name, value);
    const auto set = [&](const std::string& name, int bits, const auto& value_of) {
      settings += fmt::format("      .{}({}),\n", name, chosen(bits, value_of));
    };
    const auto set_product = [&](const std::string& prefix, PassSettings StepSettings::*product) {
      const auto set_one = [&](const char* name, int bits, const auto& of) {
        set(prefix + name, bits, [&](const StepsPlace& place, bool back) { return int64_t{of(place.settings[back].*product)}; });
      };
      set_one("full_slices", 8, [](const PassSettings& s) { return s.full_slices; });
      set_one("has_last", 1, [](const PassSettings& s) { return s.has_last ? 1 : 0; });
      set_one("divided", 1, [](const PassSettings& s) { return s.divided ? 1 : 0; });
      set_one("feeds", 16, [](const PassSettings& s) { return s.feeds; });
      set_one("feeds_last", 16, [](const PassSettings& s) { return s.feeds_last; });
      set_one("depths_last", 8, [](const PassSettings& s) { return s.depths_last; });
      set_one("words_last", 8, [](const PassSettings& s) { return s.words_last; });
      set_one("words", 16, [](const PassSettings& s) { return s.words; });
      set_one("taken_words", 16, [](const PassSettings& s) { return s.taken_words; });
    };
    set_product("", &StepSettings::recurrent);
    set_product("projection_", &StepSettings::projection);
    set("projection_address", 16, [](const StepsPlace& place, bool back) { return place.settings[back].first_address; });
    set("projection_units", 3, [](const StepsPlace& place, bool back) { return place.settings[back].units_of_last; });
    set("sum_shift", 5, [](const StepsPlace& place, bool back) { return place.shifts[back].sum; });
    set("weight_shift", 5, [](const StepsPlace& place, bool back) { return place.shifts[back].weight; });
    set("hidden_shift", 4, [](const StepsPlace& place, bool back) { return place.shifts[back].hidden; });
    set("projected_shift", 5, [](const StepsPlace& place, bool back) { return place.shifts[back].projected; });
    settings += told_part() ? "      .part,\n" : "      .part(2'd0),\n";
    TemplateValues values = sizes();
    values["PLACE_PORT"] = places_.size() > 1 ? "    input  logic [ 7:0] place,  // whose settings: stands still while busy\n" : "";
    values["PART_PORT"] = told_part() ? "    input  logic [ 1:0] part,  // of a step: 1 the recurrent product, 2 the projection\n" : "";
    std::string what;
    for (size_t p = 0; p < places_.size(); ++p)
      what += fmt::format("{}{}{}", p == 0 ? "" : "\n// ", places_.size() > 1 ? fmt::format("Place {}, {}: ", p, served_[p].name) : "",
                          what_of(p));
    values["WHAT"] = what;
    values["PARAMETERS"] = parameters;
    values["SETTINGS"] = settings;
    put("rtl/millrace_pe_chain.sv", filled(kStepsTop, values));
  }
  std::string what_of(size_t p) const {
    const FixedRecurrent& layer = *served_[p].layer;
    const StepsPlace& place = places_[p];
    return fmt::format("{}{} hidden units{} on {} units of {} x {} elements, {} weights in the fullest.",
                       place.whole ? "" : fmt::format("Units {} to {} of ", served_[p].board->begin, served_[p].board->end - 1),
                       layer.hidden, layer.projection > 0 ? fmt::format(", projected to {},", layer.projection) : "", parts_.gates,
                       hardware_.chains, hardware_.per_chain, std::max(place.settings[0].fullest(), place.settings[1].fullest()));
  }

  void write_testbench() const {
    int64_t cycles = 5000;
    for (const StepsPlace& place : places_) {
      cycles += 2 * (place.beats[0] + place.beats[1]);
      for (const StepsPass& pass : place.passes) cycles += 20 * pass.out + 2 * pass.state_words;
      cycles += 20 * place.steps * bench_.samples * (place.settings[0].fullest() + place.settings[1].fullest());
    }
    TemplateValues values = sizes();
    values["MODULES"] = std::string(kTestbenchModules);
    values["SAMPLES"] = number(bench_.samples);
    values["RESET_CYCLES"] = number(4 * hardware_.per_chain + 64);
    const std::string each = places_.size() > 1 ? "Of every place in turn " : "";
    values["PASSES"] = whole() ? each + (each.empty() ? "A" : "a") + " pass forward and a pass back"
                               : each + (each.empty() ? "Two" : "two") + " steps forward and two back, each product a pass,";
    values["STATES"] = whole() ? "" : " and its state";
    values["PORTS"] = std::string(places_.size() > 1 ? ".place, " : "") + (told_part() ? ".part, " : "");
    std::string weights;
    for (const StepsPlace& place : places_) {
      TemplateValues own = sizes();
      own["NAME"] = place.prefix;
      own["BIAS_WORDS"] = number(place.settings[0].gated(false).words);
      own["FORWARD_BEATS"] = number(place.beats[0]);
      own["BACK_BEATS"] = number(place.beats[1]);
      weights += filled(kStepsWeights, named_in(kStepsWeights, own));
    }
    values["WEIGHTS"] = weights;
    add_passes(values);
    values["MOST_CYCLES"] = number(cycles);
    put("testbench.sv", filled(kStepsTestbenchText, values));
  }

  // Their streams and states, the order in which they are run, and what they count.
  void add_passes(TemplateValues& values) const {
    std::string streams, sequence;
    std::array<std::string, 2> received, differences;
    std::array<int64_t, 2> out = {0, 0};
    std::string valid = "1'b0", ready = "1'b0", data = "'0";
    size_t count = 0, number_of_pass = 0;
    for (const StepsPlace& place : places_) count += place.passes.size();
    for (size_t p = places_.size(), left = count; p-- > 0;)
      for (size_t i = places_[p].passes.size(); i-- > 0;) {
        const std::string& name = places_[p].passes[i].name;
        --left;
        valid = fmt::format("now == {} ? {}_valid : {}", left, name, valid);
        ready = fmt::format("now == {} ? {}_ready : {}", left, name, ready);
        data = fmt::format("now == {} ? {}_data : {}", left, name, data);
      }
    for (size_t at = 0; at < places_.size(); ++at)
      for (size_t i = 0; i < places_[at].passes.size(); ++i) {
        const StepsPlace& place = places_[at];
        const StepsPass& pass = place.passes[i];
        const size_t p = number_of_pass++;
        const size_t way = pass.back ? 1 : 0;
        TemplateValues own = sizes();
        own["NAME"] = pass.name;
        own["PASS"] = number(static_cast<int64_t>(p));
        own["IN"] = number(pass.in);
        own["OUT"] = number(pass.out);
        own["STATE"] = number(pass.state_words);
        own["KEEPS"] = pass.keeps ? "1" : "0";
        own["IN_SEED"] = number(static_cast<int64_t>(bench_.seed % 1000000 + p));
        own["OUT_SEED"] = number(static_cast<int64_t>(bench_.seed % 1000000 + count + p));
        own["BACK"] = pass.back ? "1" : "0";
        own["PART"] = number(pass.part);
        own["PREFIX"] = place.prefix;
        own["PLACE"] = number(static_cast<int64_t>(at));
        own["STEPS"] = number(place.steps);
        own["CONTINUES"] = place.whole ? "0" : "1";
        const auto with = [&](std::string_view text) { return filled(text, named_in(text, own)); };
        streams += with(pass.in > 0 ? kStepsPlayer : kStepsNoPlayer) + with(kStepsChecker);
        if (pass.state_words > 0) streams += with(kStepsState);
        if (i == 0)
          sequence +=
              with("    place = 8'd$PLACE$;\n    steps = 16'd$STEPS$;\n    continues = 1'b$CONTINUES$;\n    load_$PREFIX$biases();\n");
        const bool loads = i == 0 || pass.back != place.passes[i - 1].back;
        if (loads) sequence += with("    back = 1'b$BACK$;\n    load_$PREFIX$weights(1'b$BACK$);\n");
        if (pass.state_words > 0) sequence += with("    part = 2'd$PART$;\n    load_$NAME$_state();\n");
        sequence += with("    now = $PASS$;\n    on = 1'b1;\n    pass();\n    on = 1'b0;\n");
        received[way] += fmt::format("{}{}_received", received[way].empty() ? "" : " + ", pass.name);
        differences[way] += fmt::format("{}{}_differences", differences[way].empty() ? "" : " + ", pass.name);
        out[way] += pass.out;
      }
    streams += fmt::format("  assign in_tvalid = {};\n  assign in_tdata = {};\n  assign out_tready = {};\n", valid, data, ready);
    values["STREAMS"] = streams;
    values["SEQUENCE"] = sequence;
    values["FORWARD_RECEIVED"] = "(" + received[0] + ")";
    values["BACK_RECEIVED"] = "(" + received[1] + ")";
    values["FORWARD_DIFFERENCES"] = "(" + differences[0] + ")";
    values["BACK_DIFFERENCES"] = "(" + differences[1] + ")";
    values["FORWARD_OUT"] = number(out[0]);
    values["BACK_OUT"] = number(out[1]);
  }

  // A text of one pass names some of what there is of it.
  static TemplateValues named_in(std::string_view text, const TemplateValues& values) {
    TemplateValues named;
    for (const auto& [name, value] : values)
      if (text.find("$" + name + "$") != std::string_view::npos) named[name] = value;
    return named;
  }

  std::filesystem::path folder_;
  PeChainHardware hardware_;
  const std::vector<ServedSteps>& served_;
  StepsTestbench bench_;
  WordParts parts_;
  std::vector<StepsPlace> places_;
};

}  // namespace

void write_steps_engine(const std::filesystem::path& folder, const PeChainHardware& hardware, const FixedRecurrent& layer,
                        const StepsTestbench& testbench, const std::optional<UnitRange>& board) {
  write_steps_engine(folder, hardware, {{.name = "", .layer = &layer, .board = board}}, testbench);
}

void write_steps_engine(const std::filesystem::path& folder, const PeChainHardware& hardware, const std::vector<ServedSteps>& served,
                        const StepsTestbench& testbench) {
  MILLRACE_CHECK(!served.empty() && served.size() < 256, "{} layers on an engine", served.size());
  StepsFiles(folder, hardware, served, testbench).write();
}

PeChainHardware engine_for_all(const PeChainHardware& one, const PeChainHardware& other) {
  PeChainHardware all = one;
  all.words = std::max(one.words, other.words);
  all.state_words = std::max(one.state_words, other.state_words);
  all.samples = std::max(one.samples, other.samples);
  all.queue = std::max(one.queue, other.queue);
  return all;
}

}  // namespace millrace
