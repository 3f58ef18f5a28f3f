// The engine of chained elements under Verilator against the functional model, bit by bit, and against the cycle model, word by word.
//
//   cosimulation_pe_chain_lstm --cases 100     random layers, samples, chunks of time and pauses: forward, back, each in two passes
//   cosimulation_pe_chain_lstm --cycles 50     without pauses: when every word leaves, to the cycle
//   ... --seed 7; --table-bit 1: an entry of the hardware's table is off; --untransposed 1: U stays as it is for the way back
//
// What is built is compiled in (CMakeLists.txt); everything else is drawn. Ends with 1 at the first difference, saying where.
#include MILLRACE_MODEL_HEADER

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

namespace millrace {
namespace {

using Model = MILLRACE_MODEL;
constexpr auto kCell = static_cast<CellKind>(MILLRACE_CELL);
constexpr GateForms kForms{static_cast<SigmoidForm>(MILLRACE_SIGMOID), static_cast<TanhForm>(MILLRACE_TANH)};
constexpr PeChainHardware kBuilt{.cell = kCell, .chains = MILLRACE_CHAINS, .per_chain = MILLRACE_PER_CHAIN, .words = 256};
constexpr int64_t kGates = kCell == CellKind::kLstm ? 4 : kCell == CellKind::kGru ? 3 : 1;
constexpr int64_t kBiases = kGates == 1 ? 1 : 4;
constexpr int64_t kRecord = kGates == 1 ? 1 : 5, kBefore = kCell == CellKind::kLstm ? 1 : 0;
constexpr int64_t kInWords = 1 + kRecord + kBefore, kOutWords = 1 + kRecord;

class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}
  int64_t from_to(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  bool chance(double often) { return often > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < often; }
  std::vector<int16_t> elements(int64_t count, int64_t most) {
    std::vector<int16_t> made(static_cast<size_t>(count));
    for (int16_t& value : made) value = static_cast<int16_t>(from_to(-most, most));
    return made;
  }

 private:
  std::mt19937 random_;
};

// Ports of up to 64 bits are integers, wider ones arrays of 32 bits.
template <typename Port>
void set_word(Port& port, size_t at, int16_t value) {
  const uint32_t word = static_cast<uint16_t>(value);
  if constexpr (std::is_integral_v<Port>) {
    const uint64_t mask = uint64_t{0xffff} << (16 * at);
    port = static_cast<Port>((uint64_t{port} & ~mask) | (uint64_t{word} << (16 * at)));
  } else {
    uint32_t part = port[at / 2];
    part = at % 2 == 0 ? (part & 0xffff0000U) | word : (part & 0xffffU) | (word << 16);
    port[at / 2] = part;
  }
}
template <typename Port>
int16_t word_of(const Port& port, size_t at) {
  if constexpr (std::is_integral_v<Port>)
    return static_cast<int16_t>(uint64_t{port} >> (16 * at));
  else
    return static_cast<int16_t>(port[at / 2] >> (16 * (at % 2)));
}
void set_bias(auto& port, size_t at, int32_t bias) {
  set_word(port, 2 * at, static_cast<int16_t>(bias & 0xffff));
  set_word(port, 2 * at + 1, static_cast<int16_t>(static_cast<uint32_t>(bias) >> 16));
}

struct Pass {
  bool back = false, continues = false;
  int64_t samples = 1, steps = 1;
  std::vector<std::vector<int16_t>> inputs;  // a word each
  double source_pause = 0, sink_pause = 0;
};
struct Outcome {
  bool finished = false;
  std::vector<std::vector<int16_t>> outputs;
  std::vector<int64_t> cycles;
};

class Bench {
 public:
  Bench() : model_(std::make_unique<Model>(&context_)) {
    model_->reset_n = 0;
    model_->start = model_->load_write = model_->bias_write = model_->in_tvalid = model_->out_tready = 0;
    for (int i = 0; i < 3; ++i) cycle();
    model_->reset_n = 1;
  }
  ~Bench() { model_->final(); }

  void load(const PassSettings& settings, const FixedRecurrent& layer, bool back) {
    Model& m = *model_;
    m.load_write = 1;
    for (const WeightBeat& beat : weight_beats(kBuilt, settings, layer, back)) {
      m.load_unit = static_cast<uint8_t>(beat.unit);
      m.load_depth = static_cast<uint8_t>(beat.depth);
      m.load_address = static_cast<uint8_t>(beat.address);
      for (size_t chain = 0; chain < beat.weights.size(); ++chain) set_word(m.load_data, chain, beat.weights[chain]);
      cycle();
    }
    m.load_write = 0;
  }
  void load_biases(const PassSettings& settings, const FixedRecurrent& layer) {
    Model& m = *model_;
    m.bias_write = 1;
    for (int64_t word = 0; word < settings.words; ++word) {
      m.bias_address = static_cast<uint16_t>(word);
      for (int64_t lane = 0; lane < kBuilt.chains; ++lane)
        for (int64_t bias = 0; bias < kBiases; ++bias) {
          const int64_t unit = word * kBuilt.chains + lane;
          const int32_t value = unit >= layer.hidden ? 0
                                : bias < kGates      ? layer.bias[static_cast<size_t>(unit * kGates + bias)]
                                                     : layer.hidden_bias[static_cast<size_t>(unit)];
          set_bias(m.bias_data, static_cast<size_t>(lane * kBiases + bias), value);
        }
      cycle();
    }
    m.bias_write = 0;
  }

  Outcome run(const PassSettings& s, const FixedRecurrent& layer, const Pass& pass, Dice& dice) {
    Model& m = *model_;
    const auto set = [](auto& port, int64_t value) { port = static_cast<std::remove_reference_t<decltype(port)>>(value); };
    set(m.back, pass.back);
    set(m.continues, pass.continues);
    set(m.steps, pass.steps);
    set(m.samples, pass.samples);
    set(m.full_slices, s.full_slices);
    set(m.has_last, s.has_last);
    set(m.divided, s.divided);
    set(m.feeds, s.feeds);
    set(m.feeds_last, s.feeds_last);
    set(m.depths_last, s.depths_last);
    set(m.words_last, s.words_last);
    set(m.words, s.words);
    set(m.sum_shift, layer.formats.sum_shift(kCell));
    set(m.weight_shift, layer.formats.hidden_weight());
    set(m.hidden_shift, kGateFraction - layer.formats.hidden);
    Outcome outcome;
    size_t next = 0;
    bool offers = false;
    const auto one = [&](bool first, int64_t now) {
      m.start = first;
      if (!offers) offers = next < pass.inputs.size() && !dice.chance(pass.source_pause);
      m.in_tvalid = offers;
      if (offers)
        for (size_t i = 0; i < pass.inputs[next].size(); ++i) set_word(m.in_tdata, i, pass.inputs[next][i]);
      m.out_tready = !dice.chance(pass.sink_pause);
      m.clock = 0;
      m.eval();
      if (offers && m.in_tready) {
        offers = false;
        ++next;
      }
      if (m.out_tvalid && m.out_tready) {
        std::vector<int16_t>& word = outcome.outputs.emplace_back();
        for (int64_t i = 0; i < kOutWords * kBuilt.chains; ++i) word.push_back(word_of(m.out_tdata, static_cast<size_t>(i)));
        outcome.cycles.push_back(now);
      }
      m.clock = 1;
      m.eval();
    };
    // The queue fills first, so that nothing waits for inputs where the source does not pause.
    for (int64_t i = 0; i < kBuilt.queue + 2; ++i) one(false, -1);
    for (int64_t now = 0; now < 400000; ++now) {
      one(now == 0, now);
      if (now > 1 && !m.busy) {
        outcome.finished = next == pass.inputs.size();
        break;
      }
    }
    m.start = 0;
    return outcome;
  }

 private:
  void cycle() {
    model_->clock = 0;
    model_->eval();
    model_->clock = 1;
    model_->eval();
  }
  VerilatedContext context_;
  std::unique_ptr<Model> model_;
};

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

struct Seen {
  int64_t cases = 0, values = 0, passes = 0, cycle_engines = 0, words_timed = 0, waiting = 0;
  std::map<int64_t, int64_t> slices, samples, divided;
};

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
    if (phase == 0) bench.load_biases(trial.settings, trial.layer);
    if (phase == 0 || phase == 2) bench.load(trial.settings, trial.layer, back && transposes);
    const Outcome outcome = bench.run(trial.settings, trial.layer, pass, dice);
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
  bench.load_biases(trial.settings, trial.layer);
  bench.load(trial.settings, trial.layer, back);
  const Outcome outcome = bench.run(trial.settings, trial.layer, made, dice);
  const std::vector<int64_t> modelled = emission_cycles(kBuilt, trial.settings, {trial.samples, pass.steps}, back);
  if (!outcome.finished || outcome.cycles.size() != modelled.size()) {
    fmt::print("cycles {}: does not end\n", seen.cycle_engines);
    return false;
  }
  for (size_t word = 0; word < modelled.size(); ++word)
    if (outcome.cycles[word] - outcome.cycles[0] != modelled[word] - modelled[0]) {
      fmt::print("cycles {}: word {} of {} leaves {} cycles behind the first, modelled {}\n  {}, {} units, {} samples, {} slices{}\n",
                 seen.cycle_engines, word, modelled.size(), outcome.cycles[word] - outcome.cycles[0], modelled[word] - modelled[0],
                 back ? "back" : "forward", trial.units, trial.samples, trial.settings.full_slices,
                 trial.settings.divided ? " and a divided one" : "");
      return false;
    }
  const auto words = static_cast<size_t>(trial.settings.words * trial.samples);
  const int64_t step = modelled[modelled.size() - 1] - modelled[modelled.size() - 1 - words];
  seen.waiting += step > trial.samples * trial.settings.fullest() ? 1 : 0;
  seen.words_timed += static_cast<int64_t>(modelled.size());
  ++seen.cycle_engines;
  return true;
}

std::string text_of(const std::map<int64_t, int64_t>& counts) {
  std::string text;
  for (const auto& [key, count] : counts) text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key, count);
  return text;
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
  fmt::print(
      "{{\"engine\": \"{}\", \"cases\": {}, \"passes\": {}, \"values\": {}, \"full_slices\": {{{}}}, \"samples\": {{{}}}, \"divided\": "
      "{{{}}}, "
      "\"timed_engines\": {}, \"of_which_wait\": {}, \"words_timed\": {}}}\n",
      MILLRACE_NAME, seen.cases, seen.passes, seen.values, text_of(seen.slices), text_of(seen.samples), text_of(seen.divided),
      seen.cycle_engines, seen.waiting, seen.words_timed);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::main_of(argc, argv); }
