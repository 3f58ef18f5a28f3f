// The engine of chained elements under Verilator against the functional model, bit by bit, and against the cycle model, word by word.
//
//   cosimulation_pe_chain_lstm --cases 100     random layers, samples, chunks of time and pauses: forward, back, each in two passes
//   cosimulation_pe_chain_lstm --cycles 50     without pauses: when every word leaves, to the cycle
//   ... --seed 7; --table-bit 1: an entry of the hardware's table is off; --untransposed 1: U stays as it is for the way back
//
// What is built is compiled in (CMakeLists.txt); everything else is drawn. Ends with 1 at the first difference, saying where.
#include <fmt/core.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/pe_chain/arithmetic/fixed_steps.h"
#include "fpga/pe_chain/rtl/engine_hardware.h"
#include "fpga/recurrence/rtl/rtl_modules.h"
#include "tests/fpga/pe_chain/rtl/chain_bench.h"

namespace millrace {
namespace {

constexpr GateForms kForms{static_cast<SigmoidForm>(MILLRACE_SIGMOID), static_cast<TanhForm>(MILLRACE_TANH)};

FixedRecurrent layer_of(Dice& dice, int64_t units) {
  FixedRecurrent layer{
      .cell = kCell,
      .inputs = 0,
      .hidden = units,
      .projection = 0,
      .formats = {.hidden = static_cast<int>(kCell == CellKind::kVanillaRelu ? dice.from_to(9, 13) : dice.from_to(12, 15))},
      .forms = kForms,
      .input_weight = {},
      .hidden_weight = {},
      .bias = {},
      .hidden_bias = {},
      .projection_weight = {}};
  const int64_t most = dice.from_to(0, 9) == 0 ? 32767 : 4000;
  layer.hidden_weight = dice.elements(layer.rows() * units, most);
  for (int64_t row = 0; row < layer.rows(); ++row) layer.bias.push_back(static_cast<int32_t>(dice.from_to(-(1 << 27), 1 << 27)));
  if (kCell == CellKind::kGru)
    for (int64_t unit = 0; unit < units; ++unit) layer.hidden_bias.push_back(static_cast<int32_t>(dice.from_to(-(1 << 26), 1 << 26)));
  return layer;
}

int16_t record_word(const UnitRecord& record, int64_t at) {
  return at < 4 ? record.sums[static_cast<size_t>(at)] : kCell == CellKind::kLstm ? record.cell : record.before;
}

Shifts shifts_of(const FixedRecurrent& layer) {
  return {layer.formats.sum_shift(kCell), layer.formats.hidden_weight(), kGateFraction - layer.formats.hidden};
}

struct Trial {
  int64_t units = 1, samples = 1;
  PassSettings settings;
  FixedRecurrent layer;
};
Trial trial_of(Dice& dice) {
  Trial trial;
  const int64_t elements = kBuilt.chains * kBuilt.per_chain;
  for (;;) {
    trial.units = dice.from_to(1, 3 * elements + kBuilt.chains);
    trial.samples = dice.from_to(1, 4);
    const int64_t words = divided_up(trial.units, kBuilt.chains);
    if (words * trial.samples > kBuilt.state_words || divided_up(trial.units, elements) * trial.units > kBuilt.words) continue;
    trial.settings = pass_settings(kBuilt, trial.units, trial.samples, dice.from_to(0, 3) > 0);
    trial.layer = layer_of(dice, trial.units);
    return trial;
  }
}

// Words of a pass, in the order of its steps; `value` gives element `part` of a unit.
template <typename Value>
std::vector<std::vector<int16_t>> words_of(const Trial& trial, int64_t steps, bool back, int64_t parts, const Value& value) {
  std::vector<std::vector<int16_t>> words;
  for (int64_t i = 0; i < steps; ++i)
    for (int64_t sample = 0; sample < trial.samples; ++sample)
      for (int64_t word = 0; word < trial.settings.words; ++word) {
        std::vector<int16_t>& made = words.emplace_back();
        for (int64_t part = 0; part < parts; ++part)
          for (int64_t lane = 0; lane < kBuilt.chains; ++lane) {
            const int64_t unit = word * kBuilt.chains + lane;
            made.push_back(unit < trial.units ? value(sample, back ? steps - 1 - i : i, unit, part) : int16_t{0});
          }
      }
  return words;
}

bool compare(Dice& dice, Bench& bench, Seen& seen, bool transposes) {
  const Trial trial = trial_of(dice);
  const int64_t units = trial.units, samples = trial.samples, rows = trial.layer.rows();
  const FixedSteps model(trial.layer, {{0, units}}, {.elements = kBuilt.chains * kBuilt.per_chain}, 12);
  const bool pauses = dice.from_to(0, 3) > 0;
  const auto pause = [&] { return pauses ? 0.1 * static_cast<double>(dice.from_to(0, 8)) : 0.0; };
  const int64_t lengths[2] = {dice.from_to(1, 6), dice.from_to(1, 6)};
  FixedKept kept[2];
  RecurrentState state = zero_state(trial.layer, samples);
  FixedBackState back_state = model.zero_back_state(samples);
  RecurrentCounters counters;
  ArithmeticCounters back_counters;
  for (int phase = 0; phase < 4; ++phase) {
    const bool back = phase >= 2;
    const int chunk = back ? 3 - phase : phase;  // the later chunk goes back first
    const int64_t steps = lengths[chunk];
    const RecurrentRun run{.streams = samples, .steps = steps, .first_step = 0, .lengths = {}};
    Pass pass{.back = back,
              .continues = phase % 2 == 1,
              .samples = samples,
              .steps = steps,
              .inputs = {},
              .source_pause = pause(),
              .sink_pause = pause()};
    std::vector<std::vector<int16_t>> expected;
    const auto at = [&](int64_t sample, int64_t step, int64_t unit) { return static_cast<size_t>((sample * steps + step) * units + unit); };
    if (!back) {
      const std::vector<int16_t> sums = dice.elements(samples * steps * rows, 20000);
      const std::vector<int16_t> h = model.forward(sums, run, state, kept[chunk], counters);
      pass.inputs = words_of(trial, steps, false, kGates, [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
        return sums[at(sample, step, unit) * static_cast<size_t>(kGates) + static_cast<size_t>(part)];
      });
      expected = words_of(trial, steps, false, kOutWords, [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
        return part == 0 ? h[at(sample, step, unit)] : record_word(kept[chunk].records[at(sample, step, unit)], part - 1);
      });
    } else {
      const std::vector<int16_t> errors = dice.elements(samples * steps * units, 8000);
      const FixedErrors result = model.back(errors, run, kept[chunk], back_state, back_counters);
      pass.inputs = words_of(trial, steps, true, kInWords, [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
        const UnitRecord& record = kept[chunk].records[at(sample, step, unit)];
        return part == 0 ? errors[at(sample, step, unit)] : part == 6 ? record.before : record_word(record, part - 1);
      });
      const int64_t parts = kGates + (kCell == CellKind::kGru ? 1 : 0);
      expected = words_of(trial, steps, true, parts, [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
        return part < kGates ? result.sums[at(sample, step, unit) * static_cast<size_t>(kGates) + static_cast<size_t>(part)]
                             : result.candidates[at(sample, step, unit)];
      });
    }
    if (phase == 0) bench.load_biases(bias_image(kBuilt, trial.settings, trial.layer));
    if (phase == 0 || phase == 2) bench.load(weight_beats(kBuilt, trial.settings, trial.layer, back && transposes));
    const Outcome outcome = bench.run(trial.settings, shifts_of(trial.layer), pass, dice);
    const auto fails = [&](const std::string& why) {
      fmt::print("case {}, {} pass {}: {}\n  {} units, {} samples x {} steps, {} slices{}\n", seen.cases, back ? "back" : "forward",
                 phase % 2, why, units, samples, steps, trial.settings.full_slices, trial.settings.divided ? " and a divided one" : "");
      return false;
    };
    if (!outcome.finished || outcome.outputs.size() != expected.size())
      return fails(fmt::format("does not end: {} of {} words", outcome.outputs.size(), expected.size()));
    for (size_t word = 0; word < expected.size(); ++word)
      for (size_t i = 0; i < expected[word].size(); ++i) {
        const int64_t unit = static_cast<int64_t>(word) % trial.settings.words * kBuilt.chains + static_cast<int64_t>(i) % kBuilt.chains;
        if (unit < units && outcome.outputs[word][i] != expected[word][i])
          return fails(fmt::format("word {}, part {}, unit {}: {}, expected {}", word, i / static_cast<size_t>(kBuilt.chains), unit,
                                   outcome.outputs[word][i], expected[word][i]));
        seen.values += unit < units ? 1 : 0;
      }
    ++seen.passes;
  }
  ++seen.cases;
  ++seen.slices[trial.settings.full_slices];
  ++seen.samples[samples];
  ++seen.divided[trial.settings.divided];
  return true;
}

bool compare_cycles(Dice& dice, Bench& bench, Seen& seen) {
  const Trial trial = trial_of(dice);
  const bool back = dice.from_to(0, 1) == 1;
  const Pass pass{.back = back, .continues = false, .samples = trial.samples, .steps = dice.from_to(3, 8), .inputs = {}};
  Pass made = pass;
  made.inputs = words_of(trial, pass.steps, back, kInWords,
                         [&](int64_t, int64_t, int64_t, int64_t) { return static_cast<int16_t>(dice.from_to(-9000, 9000)); });
  bench.load_biases(bias_image(kBuilt, trial.settings, trial.layer));
  bench.load(weight_beats(kBuilt, trial.settings, trial.layer, back));
  return times_match(trial.settings, made, bench.run(trial.settings, shifts_of(trial.layer), made, dice), trial.units, seen);
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
    if (!compare(dice, bench, seen, given["--untransposed"] == 0)) return 1;
  for (int64_t i = 0; i < given["--cycles"]; ++i)
    if (!compare_cycles(dice, bench, seen)) return 1;
  fmt::print("{}\n", line_of(seen));
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::main_of(argc, argv); }
