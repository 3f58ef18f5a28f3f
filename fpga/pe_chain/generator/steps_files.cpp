#include "fpga/pe_chain/generator/steps_files.h"

#include <fmt/format.h>

#include <bit>
#include <random>

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
        hardware_(hardware),
        layer_(layer),
        bench_(bench),
        settings_(pass_settings(hardware, layer.hidden, bench.samples)),
        parts_(word_parts_of(layer.cell)),
        random_(bench.seed) {
    hardware_.cell = layer.cell;
  }

  void write() {
    for (const char* part : {"rtl", "images", "vectors"}) make_folders(folder_ / part);
    write_modules();
    const auto beats = static_cast<int64_t>(write_images());
    write_vectors();
    write_top();
    write_testbench(beats);
  }

 private:
  void put(const std::string& file, std::string_view text) const { write_atomically(folder_ / file, text); }
  static int64_t bits_for(int64_t value) { return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(value))); }
  static std::string number(int64_t value) { return fmt::format("{}", value); }

  void write_modules() const {
    for (const RtlModule& module : pe_chain_engine_modules()) put(fmt::format("rtl/{}", module.file), module.text);
  }

  size_t write_images() const {
    std::string places;
    size_t beats = 0;
    for (const bool back : {false, true}) {
      std::vector<int16_t> words;
      for (const WeightBeat& beat : weight_beats(hardware_, settings_, layer_, back)) {
        words.insert(words.end(), beat.weights.begin(), beat.weights.end());
        if (!back) places += fmt::format("{:02x}{:02x}{:04x}\n", beat.unit, beat.depth, beat.address);
        beats += back ? 0 : 1;
      }
      put(back ? "images/weights_back.hex" : "images/weights_forward.hex", hex_words<int16_t>(words, hardware_.chains));
    }
    put("images/places.hex", places);
    const std::vector<int32_t> biases = bias_image(hardware_, settings_, layer_);
    put("images/biases.hex", hex_words<int32_t>(biases, hardware_.chains * parts_.biases));
    put(fmt::format("images/{}", kGateTableFile), gate_table_text());
    return beats;
  }

  // Words of a pass in the order of its steps; `value` gives a part of a unit, and `mask` gets ones where there is a unit.
  template <typename Value>
  std::vector<int16_t> words_of(bool back, int64_t parts, int64_t width, const Value& value, std::vector<int16_t>* mask = nullptr) const {
    const PassShape shape{.samples = bench_.samples, .steps = bench_.steps};
    if (mask != nullptr)
      *mask = pass_words(hardware_, settings_, shape, layer_.hidden, back, parts, width,
                         [](int64_t, int64_t, int64_t, int64_t) { return int16_t{-1}; });
    return pass_words(hardware_, settings_, shape, layer_.hidden, back, parts, width, value);
  }
  std::vector<int16_t> drawn(int64_t count, int most) {
    std::uniform_int_distribution<int> draw(-most, most);
    std::vector<int16_t> values(static_cast<size_t>(count));
    for (int16_t& value : values) value = static_cast<int16_t>(draw(random_));
    return values;
  }

  void write_vectors() {
    const int64_t units = layer_.hidden, samples = bench_.samples, steps = bench_.steps;
    const FixedSteps model(layer_, {{0, units}}, {.elements = hardware_.chains * hardware_.per_chain}, /*error_fraction=*/12);
    const RecurrentRun run{.streams = samples, .steps = steps, .first_step = 0, .lengths = {}};
    const auto at = [&](int64_t sample, int64_t step, int64_t unit) { return static_cast<size_t>((sample * steps + step) * units + unit); };
    const std::vector<int16_t> sums = drawn(samples * steps * layer_.rows(), 20000), errors = drawn(samples * steps * units, 8000);
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
    const auto write = [&](const std::string& file, const std::vector<int16_t>& words, int64_t parts) {
      put(file, hex_words<int16_t>(words, parts * hardware_.chains));
    };
    write("vectors/forward_in.hex",
          words_of(false, parts_.gates, parts_.in(),
                   [&](int64_t sample, int64_t step, int64_t unit, int64_t part) { return gate(sums, sample, step, unit, part); }),
          parts_.in());
    std::vector<int16_t> mask;
    write("vectors/forward_out.hex",
          words_of(
              false, parts_.out(), parts_.out(),
              [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
                return part == 0 ? h[at(sample, step, unit)] : record_word(kept.records[at(sample, step, unit)], layer_.cell, part - 1);
              },
              &mask),
          parts_.out());
    write("vectors/forward_out.hex.mask", mask, parts_.out());
    write("vectors/back_in.hex",
          words_of(true, parts_.in(), parts_.in(),
                   [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
                     const UnitRecord& record = kept.records[at(sample, step, unit)];
                     return part == 0   ? errors[at(sample, step, unit)]
                            : part == 6 ? record.before
                                        : record_word(record, layer_.cell, part - 1);
                   }),
          parts_.in());
    const int64_t given = parts_.gates + (layer_.cell == CellKind::kGru ? 1 : 0);
    write("vectors/back_out.hex",
          words_of(
              true, given, parts_.out(),
              [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
                return part < parts_.gates ? gate(made.sums, sample, step, unit, part) : made.candidates[at(sample, step, unit)];
              },
              &mask),
          parts_.out());
    write("vectors/back_out.hex.mask", mask, parts_.out());
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
    const auto set = [&](const char* name, int bits, int64_t value) { settings += fmt::format("      .{}({}'d{}),\n", name, bits, value); };
    set("full_slices", 8, settings_.full_slices);
    set("has_last", 1, settings_.has_last ? 1 : 0);
    set("divided", 1, settings_.divided ? 1 : 0);
    set("feeds", 16, settings_.feeds);
    set("feeds_last", 16, settings_.feeds_last);
    set("depths_last", 8, settings_.depths_last);
    set("words_last", 8, settings_.words_last);
    set("words", 16, settings_.words);
    set("sum_shift", 5, layer_.formats.sum_shift(layer_.cell));
    set("weight_shift", 5, layer_.formats.hidden_weight());
    set("hidden_shift", 4, kGateFraction - layer_.formats.hidden);
    TemplateValues values = sizes();
    values["WHAT"] = fmt::format("{} hidden units on {} units of {} x {} elements, {} weights in the fullest.", layer_.hidden, parts_.gates,
                                 hardware_.chains, hardware_.per_chain, settings_.fullest());
    values["PARAMETERS"] = parameters;
    values["SETTINGS"] = settings;
    put("rtl/millrace_pe_chain.sv", filled(kStepsTop, values));
  }

  void write_testbench(int64_t beats) const {
    const int64_t words = bench_.steps * bench_.samples * settings_.words;
    TemplateValues values = sizes();
    values["MODULES"] = std::string(kTestbenchModules);
    values["STEPS"] = number(bench_.steps);
    values["SAMPLES"] = number(bench_.samples);
    values["SEED"] = number(static_cast<int64_t>(bench_.seed % 1000000));
    values["BIAS_WORDS"] = number(settings_.words);
    values["RESET_CYCLES"] = number(4 * hardware_.per_chain + 64);
    values["BEATS"] = number(beats);
    values["WORDS"] = number(words);
    values["MOST_CYCLES"] = number(4 * beats + 40 * (words + bench_.steps * bench_.samples * settings_.fullest()) + 5000);
    put("testbench.sv", filled(kStepsTestbenchText, values));
  }

  std::filesystem::path folder_;
  PeChainHardware hardware_;
  const FixedRecurrent& layer_;
  StepsTestbench bench_;
  PassSettings settings_;
  WordParts parts_;
  std::mt19937_64 random_;
};

}  // namespace

void write_steps_engine(const std::filesystem::path& folder, const PeChainHardware& hardware, const FixedRecurrent& layer,
                        const StepsTestbench& testbench) {
  StepsFiles(folder, hardware, layer, testbench).write();
}

}  // namespace millrace
