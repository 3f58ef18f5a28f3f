#include "fpga/pe_chain/generator/steps_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/files.h"
#include "fpga/common/generator/memory_images.h"
#include "fpga/common/generator/testbench_modules.h"
#include "fpga/common/generator/text_template.h"
#include "fpga/pe_chain/arithmetic/fixed_steps.h"
#include "fpga/pe_chain/generator/steps_templates.h"
#include "fpga/pe_chain/rtl/pass_words.h"
#include "fpga/recurrence/rtl/rtl_modules.h"

namespace millrace {
namespace {

class StepsFiles {
 public:
  StepsFiles(const std::filesystem::path& folder, const PeChainHardware& hardware, const FixedRecurrent& layer, const StepsTestbench& bench)
      : folder_(folder),
        hardware_(of_cell(hardware, layer.cell)),
        layer_(layer),
        bench_(bench),
        settings_{settings_for(false), settings_for(true)},
        shifts_{shifts_of(layer, false), shifts_of(layer, true)},
        parts_(word_parts_of(layer.cell)),
        random_(bench.seed) {}

  void write() {
    for (const char* part : {"rtl", "images", "vectors"}) make_folders(folder_ / part);
    write_modules();
    write_images();
    write_vectors();
    write_top();
    write_testbench();
  }

 private:
  static PeChainHardware of_cell(PeChainHardware hardware, CellKind cell) {
    hardware.cell = cell;
    return hardware;
  }
  StepSettings settings_for(bool back) const { return step_settings(hardware_, {layer_.hidden, layer_.projection}, back, bench_.samples); }
  void put(const std::string& file, std::string_view text) const { write_atomically(folder_ / file, text); }
  static int64_t bits_for(int64_t value) { return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(value))); }
  static std::string number(int64_t value) { return fmt::format("{}", value); }

  void write_modules() const {
    for (const RtlModule& module : pe_chain_engine_modules()) put(fmt::format("rtl/{}", module.file), module.text);
  }

  void write_images() {
    for (const bool back : {false, true}) {
      std::vector<int16_t> words;
      std::string places;
      for (const WeightBeat& beat : weight_beats(hardware_, settings_[back], layer_, back)) {
        words.insert(words.end(), beat.weights.begin(), beat.weights.end());
        places += fmt::format("{:02x}{:02x}{:04x}\n", beat.unit, beat.depth, beat.address);
        ++beats_[back];
      }
      put(back ? "images/weights_back.hex" : "images/weights_forward.hex", hex_words<int16_t>(words, hardware_.chains));
      put(back ? "images/places_back.hex" : "images/places_forward.hex", places);
    }
    put("images/biases.hex", hex_words<int32_t>(bias_image(hardware_, layer_), hardware_.chains * parts_.biases));
    put(fmt::format("images/{}", kGateTableFile), gate_table_text());
  }

  // Words of a pass in the order of its steps: of the product that the gates follow, and of the other one of a layer that projects.
  template <typename Value, typename Plain>
  std::vector<int16_t> words_of(bool back, int64_t width, int64_t parts, const Value& value, int64_t plain_parts,
                                const Plain& plain) const {
    return step_words(hardware_, settings_[back], {.samples = bench_.samples, .steps = bench_.steps}, back, width, {layer_.hidden, parts},
                      value, {layer_.features(), plain_parts}, plain);
  }
  void put_words(const std::string& file, const std::vector<int16_t>& words, int64_t width) {
    words_[file] = static_cast<int64_t>(words.size()) / (width * hardware_.chains);
    put("vectors/" + file, hex_words<int16_t>(words, width * hardware_.chains));
  }
  // What has to leave, and where in it there is something.
  template <typename Value, typename Plain>
  void put_expected(const std::string& file, bool back, int64_t parts, const Value& value, const Plain& plain) {
    const auto there = [](int64_t, int64_t, int64_t, int64_t) { return int16_t{-1}; };
    put_words(file, words_of(back, parts_.out(), parts, value, 1, plain), parts_.out());
    put_words(file + ".mask", words_of(back, parts_.out(), parts, there, 1, there), parts_.out());
  }
  std::vector<int16_t> drawn(int64_t count, int most) {
    std::uniform_int_distribution<int> draw(-most, most);
    std::vector<int16_t> values(static_cast<size_t>(count));
    for (int16_t& value : values) value = static_cast<int16_t>(draw(random_));
    return values;
  }

  void write_vectors() {
    const int64_t units = layer_.hidden, features = layer_.features(), samples = bench_.samples, steps = bench_.steps;
    const bool projects = layer_.projection > 0;
    const FixedSteps model(layer_, {{0, units}}, {.elements = hardware_.chains * hardware_.per_chain}, /*error_fraction=*/12);
    const RecurrentRun run{.streams = samples, .steps = steps, .first_step = 0, .lengths = {}};
    const auto at = [&](int64_t sample, int64_t step, int64_t unit) { return static_cast<size_t>((sample * steps + step) * units + unit); };
    const std::vector<int16_t> sums = drawn(samples * steps * layer_.rows(), 20000), errors = drawn(samples * steps * features, 8000);
    RecurrentState state = zero_state(layer_, samples);
    FixedKept kept;
    RecurrentCounters counters;
    const std::vector<int16_t> h = model.forward(sums, run, state, kept, counters);
    FixedBackState back_state = model.zero_back_state(samples);
    ArithmeticCounters back_counters;
    const FixedErrors made = model.back(errors, run, kept, back_state, back_counters);
    const auto gate = [&](const std::vector<int16_t>& values, int64_t sample, int64_t step, int64_t unit, int64_t part) {
      return values[at(sample, step, unit) * static_cast<size_t>(parts_.gates) + static_cast<size_t>(part)];
    };
    const auto of_features = [&](const std::vector<int16_t>& values) {
      return [&values, features, steps](int64_t sample, int64_t step, int64_t feature, int64_t) {
        return values[static_cast<size_t>((sample * steps + step) * features + feature)];
      };
    };
    put_words("forward_in.hex",
              words_of(
                  false, parts_.in(), parts_.gates,
                  [&](int64_t sample, int64_t step, int64_t unit, int64_t part) { return gate(sums, sample, step, unit, part); }, 0,
                  of_features(h)),
              parts_.in());
    put_expected(
        "forward_out.hex", false, parts_.out(),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          if (part > 0) return record_word(kept.records[at(sample, step, unit)], layer_.cell, part - 1);
          return (projects ? kept.units : h)[at(sample, step, unit)];
        },
        of_features(h));
    put_words("back_in.hex",
              words_of(
                  true, parts_.in(), parts_.in(),
                  [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
                    const UnitRecord& record = kept.records[at(sample, step, unit)];
                    if (part == 0) return projects ? int16_t{0} : errors[at(sample, step, unit)];
                    return part == 6 ? record.before : record_word(record, layer_.cell, part - 1);
                  },
                  1, of_features(errors)),
              parts_.in());
    put_expected(
        "back_out.hex", true, parts_.gates + (layer_.cell == CellKind::kGru ? 1 : 0),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          return part < parts_.gates ? gate(made.sums, sample, step, unit, part) : made.candidates[at(sample, step, unit)];
        },
        of_features(made.features));
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

  void write_top() const {
    std::string parameters, settings;
    for (const auto& [name, value] : parameters_of(hardware_, layer_.forms)) parameters += fmt::format("      .{}({}),\n", name, value);
    // Told by the way that is gone where it depends on that.
    const auto set = [&](const char* name, int bits, const auto& value_of) {
      const int64_t forward = value_of(false), of_back = value_of(true);
      settings += forward == of_back ? fmt::format("      .{}({}'d{}),\n", name, bits, forward)
                                     : fmt::format("      .{0}(back ? {1}'d{2} : {1}'d{3}),\n", name, bits, of_back, forward);
    };
    const auto set_product = [&](const std::string& prefix, PassSettings StepSettings::*product) {
      const auto set_one = [&](const char* name, int bits, const auto& of) {
        set((prefix + name).c_str(), bits, [&](bool back) { return int64_t{of(settings_[back].*product)}; });
      };
      set_one("full_slices", 8, [](const PassSettings& s) { return s.full_slices; });
      set_one("has_last", 1, [](const PassSettings& s) { return s.has_last ? 1 : 0; });
      set_one("divided", 1, [](const PassSettings& s) { return s.divided ? 1 : 0; });
      set_one("feeds", 16, [](const PassSettings& s) { return s.feeds; });
      set_one("feeds_last", 16, [](const PassSettings& s) { return s.feeds_last; });
      set_one("depths_last", 8, [](const PassSettings& s) { return s.depths_last; });
      set_one("words_last", 8, [](const PassSettings& s) { return s.words_last; });
      set_one("words", 16, [](const PassSettings& s) { return s.words; });
    };
    set_product("", &StepSettings::recurrent);
    set_product("projection_", &StepSettings::projection);
    set("projection_address", 16, [&](bool back) { return settings_[back].first_address; });
    set("projection_units", 3, [&](bool back) { return settings_[back].units_of_last; });
    set("sum_shift", 5, [&](bool back) { return shifts_[back].sum; });
    set("weight_shift", 5, [&](bool back) { return shifts_[back].weight; });
    set("hidden_shift", 4, [&](bool back) { return shifts_[back].hidden; });
    set("projected_shift", 5, [&](bool back) { return shifts_[back].projected; });
    TemplateValues values = sizes();
    values["WHAT"] = fmt::format("{} hidden units{} on {} units of {} x {} elements, {} weights in the fullest.", layer_.hidden,
                                 layer_.projection > 0 ? fmt::format(", projected to {},", layer_.projection) : "", parts_.gates,
                                 hardware_.chains, hardware_.per_chain, std::max(settings_[0].fullest(), settings_[1].fullest()));
    values["PARAMETERS"] = parameters;
    values["SETTINGS"] = settings;
    put("rtl/millrace_pe_chain.sv", filled(kStepsTop, values));
  }

  void write_testbench() const {
    const int64_t words = words_.at("forward_out.hex") + words_.at("back_out.hex"), beats = beats_[0] + beats_[1];
    TemplateValues values = sizes();
    values["MODULES"] = std::string(kTestbenchModules);
    values["STEPS"] = number(bench_.steps);
    values["SAMPLES"] = number(bench_.samples);
    values["SEED"] = number(static_cast<int64_t>(bench_.seed % 1000000));
    values["BIAS_WORDS"] = number(settings_[0].gated(false).words);
    values["RESET_CYCLES"] = number(4 * hardware_.per_chain + 64);
    values["FORWARD_BEATS"] = number(beats_[0]);
    values["BACK_BEATS"] = number(beats_[1]);
    values["FORWARD_IN"] = number(words_.at("forward_in.hex"));
    values["FORWARD_OUT"] = number(words_.at("forward_out.hex"));
    values["BACK_IN"] = number(words_.at("back_in.hex"));
    values["BACK_OUT"] = number(words_.at("back_out.hex"));
    values["MOST_CYCLES"] =
        number(2 * beats + 20 * words + 20 * bench_.steps * bench_.samples * (settings_[0].fullest() + settings_[1].fullest()) + 5000);
    put("testbench.sv", filled(kStepsTestbenchText, values));
  }

  std::filesystem::path folder_;
  PeChainHardware hardware_;
  const FixedRecurrent& layer_;
  StepsTestbench bench_;
  std::array<StepSettings, 2> settings_;  // forward, back
  std::array<PassShifts, 2> shifts_;
  WordParts parts_;
  std::mt19937_64 random_;
  std::array<int64_t, 2> beats_ = {0, 0};
  std::map<std::string, int64_t> words_;  // of a file
};

}  // namespace

void write_steps_engine(const std::filesystem::path& folder, const PeChainHardware& hardware, const FixedRecurrent& layer,
                        const StepsTestbench& testbench) {
  StepsFiles(folder, hardware, layer, testbench).write();
}

}  // namespace millrace
