// The engine of chained elements under Verilator against the functional model, bit by bit, and against the cycle model, word by word.
//
//   cosimulation_pe_chain_lstm --cases 100     random layers, samples, chunks of time and pauses: forward, back, each in two passes
//   cosimulation_pe_chain_lstm --cycles 50     without pauses: when every word leaves, to the cycle
//   ... --seed 7; --table-bit 1: an entry of the hardware's table is off; --untransposed 1: U stays as it is for the way back, of a layer
//   that projects its projection
//
// What is built is compiled in (CMakeLists.txt); everything else is drawn. Ends with 1 at the first difference, saying where.
#include <fmt/core.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "core/base/error.h"
#include "fpga/pe_chain/arithmetic/fixed_steps.h"
#include "fpga/pe_chain/rtl/engine_hardware.h"
#include "fpga/pe_chain/rtl/pass_words.h"
#include "fpga/recurrence/rtl/rtl_modules.h"
#include "tests/fpga/pe_chain/rtl/chain_bench.h"

namespace millrace {
namespace {

constexpr GateForms kForms{static_cast<SigmoidForm>(MILLRACE_SIGMOID), static_cast<TanhForm>(MILLRACE_TANH)};

FixedRecurrent layer_of(Dice& dice, int64_t units, int64_t projection) {
  FixedRecurrent layer{
      .cell = kCell,
      .inputs = 0,
      .hidden = units,
      .projection = projection,
      .formats = {.hidden = static_cast<int>(kCell == CellKind::kVanillaRelu ? dice.from_to(9, 13) : dice.from_to(12, 15))},
      .forms = kForms,
      .input_weight = {},
      .hidden_weight = {},
      .bias = {},
      .hidden_bias = {},
      .projection_weight = {}};
  const int64_t most = dice.from_to(0, 9) == 0 ? 32767 : 4000;
  layer.formats.projection = static_cast<int>(dice.from_to(10, 15));
  layer.hidden_weight = dice.elements(layer.rows() * layer.features(), most);
  layer.projection_weight = dice.elements(projection * units, 2 * most > 32767 ? 32767 : 2 * most);
  for (int64_t row = 0; row < layer.rows(); ++row) layer.bias.push_back(static_cast<int32_t>(dice.from_to(-(1 << 27), 1 << 27)));
  if (kCell == CellKind::kGru)
    for (int64_t unit = 0; unit < units; ++unit) layer.hidden_bias.push_back(static_cast<int32_t>(dice.from_to(-(1 << 26), 1 << 26)));
  return layer;
}

int16_t record_word(const UnitRecord& record, int64_t at) {
  return at < 4 ? record.sums[static_cast<size_t>(at)] : kCell == CellKind::kLstm ? record.cell : record.before;
}

struct Trial {
  int64_t units = 1, projection = 0, samples = 1;
  bool divides = true;
  FixedRecurrent layer;

  StepSettings settings(bool back) const { return step_settings(kBuilt, {units, projection}, back, samples, divides); }
  std::string text() const {
    const StepSettings s = settings(false);
    return fmt::format("{} units{}, {} samples, {} slices{}", units, projection > 0 ? fmt::format(" to {}", projection) : "", samples,
                       s.recurrent.full_slices, s.recurrent.divided ? " and a divided one" : "");
  }
};
Trial trial_of(Dice& dice) {
  const int64_t elements = kBuilt.chains * kBuilt.per_chain;
  for (;;) {
    Trial trial;
    trial.units = dice.from_to(1, 3 * elements + kBuilt.chains);
    trial.samples = dice.from_to(1, 4);
    trial.divides = dice.from_to(0, 3) > 0;
    // More features than units too: the engine does not mind.
    if (kBuilt.projects) trial.projection = dice.from_to(1, dice.chance(0.2) ? 2 * trial.units : trial.units);
    try {
      for (const bool back : {false, true}) trial.settings(back);
    } catch (const Error&) {
      continue;
    }
    trial.layer = layer_of(dice, trial.units, trial.projection);
    return trial;
  }
}

// Words of a pass, a vector each.
std::vector<std::vector<int16_t>> apart(const std::vector<int16_t>& all, int64_t width) {
  std::vector<std::vector<int16_t>> words;
  const int64_t each = width * kBuilt.chains;
  for (auto from = all.begin(); from != all.end(); from += each) words.emplace_back(from, from + each);
  return words;
}

// What has to leave: words, and where in them there is something.
struct Expected {
  std::vector<std::vector<int16_t>> words, there;
};

// As they are loaded, or with what is wrong on purpose.
std::vector<WeightBeat> weights_of(const StepSettings& settings, const FixedRecurrent& layer, bool back,
                                   const std::map<std::string, int64_t>& given) {
  const bool wrong = back && given.contains("--untransposed") && given.at("--untransposed") > 0;
  const UnitRange all{0, layer.hidden};
  if (!wrong || !kBuilt.projects) return weight_beats(kBuilt, settings, layer, all, back && !wrong);
  // The projection as it is, where its columns belong.
  FixedRecurrent other = layer;
  for (int64_t feature = 0; feature < layer.projection; ++feature)
    for (int64_t unit = 0; unit < layer.hidden; ++unit)
      other.projection_weight[static_cast<size_t>(feature * layer.hidden + unit)] =
          layer.projection_weight[static_cast<size_t>(unit * layer.projection + feature)];
  return weight_beats(kBuilt, settings, other, all, true);
}

bool compare(Dice& dice, Bench& bench, Seen& seen, const std::map<std::string, int64_t>& wrong) {
  const Trial trial = trial_of(dice);
  const FixedRecurrent& layer = trial.layer;
  const int64_t units = trial.units, samples = trial.samples, features = layer.features();
  const FixedSteps model(layer, {{0, units}}, {.elements = kBuilt.chains * kBuilt.per_chain}, 12);
  const bool pauses = dice.from_to(0, 3) > 0;
  const auto pause = [&] { return pauses ? 0.1 * static_cast<double>(dice.from_to(0, 8)) : 0.0; };
  const int64_t lengths[2] = {dice.from_to(1, 6), dice.from_to(1, 6)};
  FixedKept kept[2];
  RecurrentState state = zero_state(layer, samples);
  FixedBackState back_state = model.zero_back_state(samples);
  RecurrentCounters counters;
  ArithmeticCounters back_counters;
  for (int phase = 0; phase < 4; ++phase) {
    const bool back = phase >= 2;
    const int chunk = back ? 3 - phase : phase;  // the later chunk goes back first
    const int64_t steps = lengths[chunk];
    const RecurrentRun run{.streams = samples, .steps = steps, .first_step = 0, .lengths = {}};
    const StepSettings settings = trial.settings(back);
    Pass pass{.back = back,
              .continues = phase % 2 == 1,
              .samples = samples,
              .steps = steps,
              .inputs = {},
              .source_pause = pause(),
              .sink_pause = pause()};
    Expected expected;
    const auto at = [&](int64_t sample, int64_t step, int64_t unit) { return static_cast<size_t>((sample * steps + step) * units + unit); };
    const auto feature_at = [&](int64_t sample, int64_t step, int64_t feature) {
      return static_cast<size_t>((sample * steps + step) * features + feature);
    };
    // `given` and `made`, of the product with gates, and of the other one of a layer that projects.
    const auto make_words = [&](const ProductParts& in, const auto& given, const ProductParts& in_other, const auto& given_other,
                                const ProductParts& out, const auto& made, const auto& made_other) {
      const PassShape shape{.samples = samples, .steps = steps};
      const auto one = [](int64_t, int64_t, int64_t, int64_t) { return int16_t{1}; };
      pass.inputs = apart(step_words(kBuilt, settings, shape, back, kInWords, in, given, in_other, given_other), kInWords);
      expected.words = apart(step_words(kBuilt, settings, shape, back, kOutWords, out, made, {features, 1}, made_other), kOutWords);
      expected.there = apart(step_words(kBuilt, settings, shape, back, kOutWords, out, one, {features, 1}, one), kOutWords);
    };
    const auto record = [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
      return record_word(kept[chunk].records[at(sample, step, unit)], part);
    };
    if (!back) {
      const std::vector<int16_t> sums = dice.elements(samples * steps * layer.rows(), 20000);
      const std::vector<int16_t> h = model.forward(sums, run, state, kept[chunk], counters);
      const auto state_of = [&](int64_t sample, int64_t step, int64_t feature, int64_t) { return h[feature_at(sample, step, feature)]; };
      make_words(
          {units, kGates},
          [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
            return sums[at(sample, step, unit) * static_cast<size_t>(kGates) + static_cast<size_t>(part)];
          },
          {}, state_of, {units, kOutWords},
          [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
            if (part > 0) return record(sample, step, unit, part - 1);
            return settings.projects ? kept[chunk].units[at(sample, step, unit)] : h[at(sample, step, unit)];
          },
          state_of);
    } else {
      const std::vector<int16_t> errors = dice.elements(samples * steps * features, 8000);
      const FixedErrors result = model.back(errors, run, kept[chunk], back_state, back_counters);
      const auto error = [&](int64_t sample, int64_t step, int64_t feature, int64_t) { return errors[feature_at(sample, step, feature)]; };
      make_words(
          {units, kInWords},
          [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
            if (part == 0) return settings.projects ? int16_t{0} : errors[at(sample, step, unit)];
            return part == 6 ? kept[chunk].records[at(sample, step, unit)].before : record(sample, step, unit, part - 1);
          },
          {features, 1}, error, {units, kGates + (kCell == CellKind::kGru ? 1 : 0)},
          [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
            return part < kGates ? result.sums[at(sample, step, unit) * static_cast<size_t>(kGates) + static_cast<size_t>(part)]
                                 : result.candidates[at(sample, step, unit)];
          },
          [&](int64_t sample, int64_t step, int64_t feature, int64_t) { return result.features[feature_at(sample, step, feature)]; });
    }
    if (phase == 0) bench.load_biases(bias_image(kBuilt, layer, {0, layer.hidden}));
    if (phase == 0 || phase == 2) bench.load(weights_of(settings, layer, back, wrong));
    const Outcome outcome = bench.run(settings, shifts_of(layer, back), pass, dice);
    const auto fails = [&](const std::string& why) {
      fmt::print("case {}, {} pass {}: {}\n  {}, {} steps\n", seen.cases, back ? "back" : "forward", phase % 2, why, trial.text(), steps);
      return false;
    };
    if (!outcome.finished || outcome.outputs.size() != expected.words.size())
      return fails(fmt::format("does not end: {} of {} words", outcome.outputs.size(), expected.words.size()));
    for (size_t word = 0; word < expected.words.size(); ++word)
      for (size_t i = 0; i < expected.words[word].size(); ++i) {
        if (expected.there[word][i] == 0) continue;
        if (outcome.outputs[word][i] != expected.words[word][i])
          return fails(fmt::format("word {}, part {}, unit {}: {}, expected {}", word, i / static_cast<size_t>(kBuilt.chains),
                                   i % static_cast<size_t>(kBuilt.chains), outcome.outputs[word][i], expected.words[word][i]));
        ++seen.values;
      }
    ++seen.passes;
  }
  seen.count(trial.settings(false), samples);
  return true;
}

bool compare_cycles(Dice& dice, Bench& bench, Seen& seen) {
  const Trial trial = trial_of(dice);
  const bool back = dice.from_to(0, 1) == 1;
  StepSettings settings = trial.settings(back);
  Pass pass{.back = back, .continues = false, .samples = trial.samples, .steps = dice.from_to(3, 8), .inputs = {}};
  // One product of a step, as a board of several takes it.
  if (kBuilt.projects && dice.chance(0.4)) {
    settings.part = dice.from_to(1, 2);
    pass.steps = 1;
  }
  const auto any = [&](int64_t, int64_t, int64_t, int64_t) { return static_cast<int16_t>(dice.from_to(-9000, 9000)); };
  const ProductParts other{trial.layer.features(), back ? int64_t{1} : int64_t{0}};
  pass.inputs = apart(step_words(kBuilt, settings, {.samples = pass.samples, .steps = pass.steps}, back, kInWords, {trial.units, kInWords},
                                 any, other, any),
                      kInWords);
  const UnitRange all{0, trial.layer.hidden};
  bench.load_biases(bias_image(kBuilt, trial.layer, all));
  bench.load(weight_beats(kBuilt, settings, trial.layer, all, back));
  return times_match(settings, pass, bench.run(settings, shifts_of(trial.layer, back), pass, dice), trial.units, seen);
}

int main_of(int argc, char** argv) {
  std::map<std::string, int64_t> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = std::atoll(argv[i + 1]);
  if (kForms.sigmoid == SigmoidForm::kTable || kForms.tanh == TanhForm::kTable) {
    std::ofstream table{std::string(kGateTableFile)};
    std::string text = gate_table_text();
    if (given["--table-bit"] > 0) text[5 * 700 + 3] = text[5 * 700 + 3] == '0' ? '1' : '0';  // an entry off, in the hardware alone
    table << text;
  }
  Dice dice(static_cast<uint32_t>(given.count("--seed") > 0 ? given["--seed"] : 1));
  Bench bench;
  Seen seen;
  for (int64_t i = 0; i < given["--cases"]; ++i)
    if (!compare(dice, bench, seen, given)) return 1;
  for (int64_t i = 0; i < given["--cycles"]; ++i)
    if (!compare_cycles(dice, bench, seen)) return 1;
  fmt::print("{}\n", line_of(seen));
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::main_of(argc, argv); }
