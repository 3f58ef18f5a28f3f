// The engine of chained elements in single precision under Verilator against RealSteps<float>, bit by bit, and the cycle model, word by
// word.
//
//   cosimulation_pe_chain_fp32_lstm --cases 100    random layers, samples, chunks of time, pauses; one in three on a board of several
//   cosimulation_pe_chain_fp32_lstm --cycles 50    without pauses: when every word leaves, to the cycle
//   ... --seed 7; --piece-bit 1: a piece of the hardware's tangent is off; --untransposed 1: U stays as it is for the way back,
//   of a layer that projects its projection
//
// On a board of several a pass is one step: the state of all units is written before it, as others' rows come. Numbers are drawn about one,
// in one layer of ten so large or so small that sums overflow or vanish, and in another so that most of its weights are not normalised
// where what they meet is large; what is no number on one side has to be none on the other.
// Ends with 1 at the first difference, saying where.
#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "core/base/error.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/pe_chain/arithmetic/real_functions.h"
#include "fpga/pe_chain/rtl/pass_words.h"
#include "tests/fpga/pe_chain/rtl/chain_bench.h"

namespace millrace {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }
uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

std::vector<float> numbers(Dice& dice, int64_t count, double most) {
  std::vector<float> made(at(count));
  for (float& value : made)
    value = dice.chance(0.05) ? 0.0F : static_cast<float>(most * static_cast<double>(dice.from_to(-1000000000, 1000000000)) * 1e-9);
  return made;
}

struct Trial {
  int64_t samples = 1;
  UnitRange board;
  bool divides = true;
  int64_t part = 0;  // of a step, as a board of several takes it
  double given = 2;  // what comes in
  RealLayer<float> layer;

  int64_t units() const { return layer.hidden; }
  bool whole() const { return board.count() == layer.hidden; }
  StepSettings settings(bool back) const {
    if (layer.projection > 0) {
      StepSettings made = step_settings(kBuilt, {units(), layer.projection}, back, samples, divides);
      made.part = part;
      return made;
    }
    return {.recurrent = pass_settings(kBuilt, board.count(), samples, divides, units()), .projection = {}};
  }
};
Trial trial_of(Dice& dice, bool several) {
  Trial trial;
  const int64_t elements = kBuilt.chains * kBuilt.per_chain;
  for (;;) {
    const int64_t units = dice.from_to(1, 3 * elements + kBuilt.chains);
    trial.board = {0, units};
    trial.given = 2;
    if (several) {
      trial.board.begin = dice.from_to(0, units - 1);
      trial.board.end = dice.from_to(trial.board.begin + 1, units);
    }
    trial.samples = several ? 1 : dice.from_to(1, 4);
    trial.divides = dice.from_to(0, 3) > 0;
    // More features than units too: the engine does not mind.
    const int64_t projection = kBuilt.projects ? dice.from_to(1, dice.chance(0.2) ? 2 * units : units) : 0;
    double scale = !dice.chance(0.1) ? 1 : dice.chance(0.5) ? 1e19 : 1e-19;
    if (dice.chance(0.1)) {
      scale = 3e-38;
      trial.given = 1e30;
    }
    trial.layer = {.cell = kCell,
                   .hidden = units,
                   .projection = projection,
                   .hidden_weight = {},
                   .bias = {},
                   .hidden_bias = {},
                   .projection_weight = {}};
    try {
      for (const bool back : {false, true}) trial.settings(back);
    } catch (const Error&) {
      continue;
    }
    trial.layer.hidden_weight = numbers(dice, kGates * units * trial.layer.features(), 0.6 * scale);
    trial.layer.bias = numbers(dice, kGates * units, scale);
    trial.layer.hidden_bias = numbers(dice, units, 1);
    trial.layer.projection_weight = numbers(dice, projection * units, scale);
    return trial;
  }
}

// Of one sample, between two chunks of time.
struct Sample {
  RealState<float> state;
  RealBackState<float> back_state;
};

// One pass, and what has to leave: words of the board's units, and where in them there is something.
struct Chunk {
  Pass pass;
  std::vector<std::vector<Word>> expected, there;
};

// Words of a pass, a vector each. `value` is of a sample, a step, a unit of the layer and a part, `plain` of a feature.
std::vector<std::vector<Word>> words_of(const Trial& trial, const PassShape& shape, bool back, int64_t width, int64_t parts,
                                        const auto& value, int64_t plain_parts, const auto& plain) {
  const std::vector<Word> all = step_words(
      kBuilt, trial.settings(back), shape, back, width, {trial.board.count(), parts},
      [&](int64_t sample, int64_t step, int64_t unit, int64_t part) { return bits(value(sample, step, trial.board.begin + unit, part)); },
      {trial.layer.features(), plain_parts},
      [&](int64_t sample, int64_t step, int64_t feature, int64_t) { return bits(plain(sample, step, feature)); });
  std::vector<std::vector<Word>> words;
  const int64_t each = width * kBuilt.chains;
  for (auto from = all.begin(); from != all.end(); from += each) words.emplace_back(from, from + each);
  return words;
}

// What the model makes of `steps` steps, forward into `kept` or back from it; states go on.
Chunk chunk_of(Dice& dice, const Trial& trial, bool back, int64_t steps, std::vector<Sample>& samples, std::vector<RealKept<float>>& kept) {
  const int64_t units = trial.units(), features = trial.layer.features();
  const bool projects = trial.layer.projection > 0;
  const RealSteps<float> model(trial.layer, {{0, units}}, {.elements = kBuilt.chains * kBuilt.per_chain});
  const auto place = [&](int64_t step, int64_t unit) { return step * units + unit; };
  Chunk chunk{
      .pass = {.back = back, .continues = false, .samples = trial.samples, .steps = steps, .inputs = {}}, .expected = {}, .there = {}};
  std::vector<std::vector<float>> given, made;
  std::vector<RealErrors<float>> errors;
  for (int64_t sample = 0; sample < trial.samples; ++sample) {
    given.push_back(numbers(dice, steps * (back ? features : units * kGates), trial.given));
    if (back)
      errors.push_back(model.back(given.back(), steps, kept[at(sample)], samples[at(sample)].back_state));
    else
      made.push_back(model.forward(given.back(), steps, samples[at(sample)].state, kept[at(sample)]));
  }
  const PassShape shape{.samples = trial.samples, .steps = steps};
  const auto of_features = [&](const std::vector<std::vector<float>>& values) {
    return [&values, features](int64_t sample, int64_t step, int64_t feature) { return values[at(sample)][at(step * features + feature)]; };
  };
  const auto record = [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
    return record_word(kept[at(sample)], kCell, place(step, unit), part);
  };
  const auto one = [](int64_t, int64_t, int64_t, int64_t) { return 1.0F; };
  const auto plain_one = [](int64_t, int64_t, int64_t) { return 1.0F; };
  if (!back) {
    chunk.pass.inputs = words_of(
        trial, shape, false, kInWords, kGates,
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          return given[at(sample)][at((step * kGates + part) * units + unit)];
        },
        0, of_features(given));
    chunk.expected = words_of(
        trial, shape, false, kOutWords, kOutWords,
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          if (part > 0) return record(sample, step, unit, part - 1);
          return projects ? kept[at(sample)].units[at(place(step, unit))] : made[at(sample)][at(place(step, unit))];
        },
        1, of_features(made));
    chunk.there = words_of(trial, shape, false, kOutWords, kOutWords, one, 1, plain_one);
  } else {
    chunk.pass.inputs = words_of(
        trial, shape, true, kInWords, kInWords,
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          if (part > 0) return record(sample, step, unit, part - 1);
          return projects ? 0.0F : given[at(sample)][at(place(step, unit))];
        },
        1, of_features(given));
    const int64_t parts = kGates + (kCell == CellKind::kGru ? 1 : 0);
    chunk.expected = words_of(
        trial, shape, true, kOutWords, parts,
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          const RealErrors<float>& of = errors[at(sample)];
          return part < kGates ? of.sums[at((step * kGates + part) * units + unit)] : of.candidates[at(place(step, unit))];
        },
        1, [&](int64_t sample, int64_t step, int64_t feature) { return errors[at(sample)].features[at(step * features + feature)]; });
    chunk.there = words_of(trial, shape, true, kOutWords, parts, one, 1, plain_one);
  }
  return chunk;
}

// As they are loaded, or with what is wrong on purpose.
std::vector<WeightBeatOf<Word>> weights_of(const Trial& trial, bool back, bool transposes) {
  const RealLayer<float>& layer = trial.layer;
  const StepSettings settings = trial.settings(back);
  const bool wrong = back && !transposes;
  if (!wrong || !kBuilt.projects) return weight_beats(kBuilt, settings, layer, trial.board, back && transposes);
  // The projection as it is, where its columns belong.
  RealLayer<float> other = layer;
  for (int64_t feature = 0; feature < layer.projection; ++feature)
    for (int64_t unit = 0; unit < layer.hidden; ++unit)
      other.projection_weight[at(feature * layer.hidden + unit)] = layer.projection_weight[at(unit * layer.projection + feature)];
  return weight_beats(kBuilt, settings, other, trial.board, true);
}

// The state that a step on one board of several goes on from: all units' rows, its own units' c, h or dc.
void write_state(Bench& bench, const Trial& trial, bool back, const Sample& sample) {
  const int64_t units = trial.units(), gates = back ? kGates : 1;
  const std::vector<float>& taken = back ? sample.back_state.errors : sample.state.hidden;
  const std::vector<float>& kept = back ? sample.back_state.carried : kCell == CellKind::kGru ? sample.state.hidden : sample.state.cell;
  for (int64_t word = 0; word < divided_up(units, kBuilt.chains); ++word) {
    std::vector<Word> of_all(at(kGates * kBuilt.chains)), of_own(at(kBuilt.chains));
    for (int64_t lane = 0; lane < kBuilt.chains; ++lane) {
      const int64_t unit = word * kBuilt.chains + lane, own = trial.board.begin + unit;
      for (int64_t gate = 0; gate < gates && unit < units; ++gate)
        of_all[at(gate * kBuilt.chains + lane)] = bits(taken[at(gate * units + unit)]);
      if (own < trial.board.end) of_own[at(lane)] = bits(kept[at(own)]);
    }
    bench.write_state(back, word, of_all, of_own);
  }
}

bool same(Word made, Word expected) {
  const float a = std::bit_cast<float>(made), b = std::bit_cast<float>(expected);
  return std::isnan(b) ? std::isnan(a) : made == expected;
}

bool matches(const Trial& trial, const Chunk& chunk, const Outcome& outcome, Seen& seen, int64_t pass) {
  const PassSettings settings = trial.settings(chunk.pass.back).recurrent;
  const auto fails = [&](const std::string& why) {
    fmt::print("case {}, {} pass {}: {}\n  units [{}, {}) of {} to {}, {} samples x {} steps, {} slices{}\n", seen.cases,
               chunk.pass.back ? "back" : "forward", pass, why, trial.board.begin, trial.board.end, trial.units(), trial.layer.features(),
               trial.samples, chunk.pass.steps, settings.full_slices, settings.divided ? " and a divided one" : "");
    return false;
  };
  const std::vector<std::vector<Word>>& expected = chunk.expected;
  if (!outcome.finished || outcome.outputs.size() != expected.size())
    return fails(fmt::format("does not end: {} of {} words", outcome.outputs.size(), expected.size()));
  for (size_t word = 0; word < expected.size(); ++word)
    for (size_t i = 0; i < expected[word].size(); ++i) {
      if (chunk.there[word][i] == 0) continue;
      if (!same(outcome.outputs[word][i], expected[word][i]))
        return fails(fmt::format("word {}, part {}, unit {}: {}, expected {}", word, i / at(kBuilt.chains), i % at(kBuilt.chains),
                                 static_cast<int32_t>(outcome.outputs[word][i]), static_cast<int32_t>(expected[word][i])));
      ++seen.values;
    }
  ++seen.passes;
  return true;
}

bool compare(Dice& dice, Bench& bench, Seen& seen, bool transposes) {
  const bool several = !kBuilt.projects && dice.from_to(0, 2) == 0;
  const Trial trial = trial_of(dice, several);
  const int64_t units = trial.units();
  const bool pauses = dice.from_to(0, 3) > 0;
  const auto pause = [&] { return pauses ? 0.1 * static_cast<double>(dice.from_to(0, 8)) : 0.0; };
  const RealState<float> zero{std::vector<float>(at(trial.layer.features())), std::vector<float>(at(units))};
  const RealBackState<float> zero_back{std::vector<float>(at(kGates * units)), std::vector<float>(at(units))};
  std::vector<Sample> samples(at(trial.samples), Sample{zero, zero_back});
  // On one board of several as many passes as steps.
  std::vector<int64_t> lengths;
  for (int64_t i = 0, passes = several ? dice.from_to(2, 4) : 2; i < passes; ++i) lengths.push_back(several ? 1 : dice.from_to(1, 6));
  std::vector<std::vector<RealKept<float>>> kept(lengths.size(), std::vector<RealKept<float>>(at(trial.samples)));
  bench.load_biases(bias_image(kBuilt, trial.layer, trial.board));
  for (const bool back : {false, true}) {
    bench.load(weights_of(trial, back, transposes));
    for (size_t pass = 0; pass < lengths.size(); ++pass) {
      const size_t which = back ? lengths.size() - 1 - pass : pass;  // the later chunk goes back first
      if (several && pass > 0) write_state(bench, trial, back, samples[0]);
      Chunk chunk = chunk_of(dice, trial, back, lengths[which], samples, kept[which]);
      chunk.pass.continues = pass > 0;
      chunk.pass.source_pause = pause();
      chunk.pass.sink_pause = pause();
      const Outcome outcome = bench.run(trial.settings(back), {}, chunk.pass, dice);
      if (!matches(trial, chunk, outcome, seen, static_cast<int64_t>(pass))) return false;
    }
  }
  seen.count(trial.settings(false), trial.samples);
  seen.boards += several ? 1 : 0;
  return true;
}

bool compare_cycles(Dice& dice, Bench& bench, Seen& seen) {
  Trial trial = trial_of(dice, false);
  const bool back = dice.from_to(0, 1) == 1;
  if (kBuilt.projects && dice.chance(0.4)) trial.part = dice.from_to(1, 2);
  Pass pass{.back = back, .continues = false, .samples = trial.samples, .steps = trial.part > 0 ? 1 : dice.from_to(3, 8), .inputs = {}};
  const auto quarter = [](int64_t, int64_t, int64_t, int64_t) { return 0.25F; };
  pass.inputs = words_of(trial, {.samples = pass.samples, .steps = pass.steps}, back, kInWords, kInWords, quarter, back ? 1 : 0,
                         [](int64_t, int64_t, int64_t) { return 0.25F; });
  bench.load_biases(bias_image(kBuilt, trial.layer, trial.board));
  bench.load(weights_of(trial, back, true));
  const StepSettings settings = trial.settings(back);
  return times_match(settings, pass, bench.run(settings, {}, pass, dice), trial.units(), seen);
}

int main_of(int argc, char** argv) {
  std::map<std::string, int64_t> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = std::atoll(argv[i + 1]);
  std::string tangents = tangent_pieces_text();
  if (given["--piece-bit"] > 0) tangents[25 * 20 + 7] = tangents[25 * 20 + 7] == '0' ? '1' : '0';  // off, in the hardware alone
  std::ofstream{std::string(kSigmoidPiecesFile)} << sigmoid_pieces_text();
  std::ofstream{std::string(kTangentPiecesFile)} << tangents;
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
