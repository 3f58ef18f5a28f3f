// What drives a Verilated engine of chained elements: weights, biases and states in, passes with pauses, what comes out and when. One
// engine per program, compiled in as MILLRACE_* (CMakeLists.txt); a Word is a number of its streams, of 16 bits or the 32 of a float.
#pragma once

#include MILLRACE_MODEL_HEADER

#include <fmt/core.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "fpga/pe_chain/rtl/engine_hardware.h"

namespace millrace {

using Model = MILLRACE_MODEL;
constexpr auto kCell = static_cast<CellKind>(MILLRACE_CELL);
constexpr int64_t kElement = MILLRACE_ELEMENT;
using Word = std::conditional_t<kElement == 32, uint32_t, int16_t>;
constexpr PeChainHardware kBuilt{.cell = kCell,
                                 .chains = MILLRACE_CHAINS,
                                 .per_chain = MILLRACE_PER_CHAIN,
                                 .words = 256,
                                 .element_bits = kElement,
                                 .projects = MILLRACE_PROJECTS != 0};
constexpr int64_t kGates = kCell == CellKind::kLstm ? 4 : kCell == CellKind::kGru ? 3 : 1;
constexpr int64_t kBiases = kGates == 1 ? 1 : 4;
constexpr int64_t kRecord = kGates == 1 ? 1 : kElement == 32 && kGates == 4 ? 6 : 5;
constexpr int64_t kBefore = kCell == CellKind::kLstm && kElement == 16 ? 1 : 0;
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
template <typename Word, typename Port>
Word word_of(const Port& port, size_t at) {
  if constexpr (sizeof(Word) == 4)
    return static_cast<uint16_t>(word_of<int16_t>(port, 2 * at)) |
           (static_cast<uint32_t>(static_cast<uint16_t>(word_of<int16_t>(port, 2 * at + 1))) << 16);
  else if constexpr (std::is_integral_v<Port>)
    return static_cast<int16_t>(uint64_t{port} >> (16 * at));
  else
    return static_cast<int16_t>(port[at / 2] >> (16 * (at % 2)));
}
// The same of words of 32 bits.
template <typename Port>
void set_word(Port& port, size_t at, uint32_t value) {
  set_word(port, 2 * at, static_cast<int16_t>(value & 0xffff));
  set_word(port, 2 * at + 1, static_cast<int16_t>(value >> 16));
}

struct Pass {
  bool back = false, continues = false;
  int64_t samples = 1, steps = 1;
  std::vector<std::vector<Word>> inputs;  // a word each
  double source_pause = 0, sink_pause = 0;
};
struct Outcome {
  bool finished = false;
  std::vector<std::vector<Word>> outputs;
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

  void load(std::span<const WeightBeatOf<Word>> beats) {
    Model& m = *model_;
    m.load_write = 1;
    for (const WeightBeatOf<Word>& beat : beats) {
      m.load_unit = static_cast<uint8_t>(beat.unit);
      m.load_depth = static_cast<uint8_t>(beat.depth);
      m.load_address = static_cast<uint8_t>(beat.address);
      for (size_t chain = 0; chain < beat.weights.size(); ++chain) set_word(m.load_data, chain, beat.weights[chain]);
      cycle();
    }
    m.load_write = 0;
  }
  // Biases as bias_image has them.
  void load_biases(const auto& biases) {
    Model& m = *model_;
    m.bias_write = 1;
    const auto each = static_cast<size_t>(kBiases * kBuilt.chains);
    for (size_t word = 0; word < biases.size() / each; ++word) {
      m.bias_address = static_cast<uint16_t>(word);
      for (size_t i = 0; i < each; ++i) set_word(m.bias_data, i, static_cast<uint32_t>(biases[word * each + i]));
      cycle();
    }
    m.bias_write = 0;
  }
  // A word of the state, in both halves: what the recurrent product takes, [gate][chain], and what units keep.
  void write_state(bool back, int64_t word, std::span<const Word> taken, std::span<const uint32_t> kept) {
    Model& m = *model_;
    m.back = back;
    m.state_write = 1;
    m.state_keeps = 1;
    m.state_address = static_cast<uint16_t>(word);
    for (size_t i = 0; i < taken.size(); ++i) set_word(m.state_taken, i, taken[i]);
    for (size_t i = 0; i < kept.size(); ++i) set_word(m.state_kept, i, kept[i]);
    for (const int half : {0, 1}) {
      m.state_half = half == 1;
      cycle();
    }
    m.state_write = 0;
  }

  Outcome run(const StepSettings& settings, const PassShifts& shifts, const Pass& pass, Dice& dice) {
    Model& m = *model_;
    const PassSettings &s = settings.recurrent, &p = settings.projection;
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
    set(m.taken_words, s.taken_words);
    set(m.projection_full_slices, p.full_slices);
    set(m.projection_has_last, p.has_last);
    set(m.projection_divided, p.divided);
    set(m.projection_feeds, p.feeds);
    set(m.projection_feeds_last, p.feeds_last);
    set(m.projection_depths_last, p.depths_last);
    set(m.projection_words_last, p.words_last);
    set(m.projection_words, p.words);
    set(m.projection_taken_words, p.taken_words);
    set(m.part, settings.part);
    set(m.projection_address, settings.first_address);
    set(m.projection_units, settings.units_of_last);
    set(m.sum_shift, shifts.sum);
    set(m.weight_shift, shifts.weight);
    set(m.hidden_shift, shifts.hidden);
    set(m.projected_shift, shifts.projected);
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
        std::vector<Word>& word = outcome.outputs.emplace_back();
        for (int64_t i = 0; i < kOutWords * kBuilt.chains; ++i) word.push_back(word_of<Word>(m.out_tdata, static_cast<size_t>(i)));
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

struct Seen {
  int64_t cases = 0, boards = 0, values = 0, passes = 0, cycle_engines = 0, words_timed = 0, waiting = 0;
  std::map<int64_t, int64_t> slices, samples, divided, projected_slices;

  void count(const StepSettings& settings, int64_t of_samples) {
    ++cases;
    ++slices[settings.recurrent.full_slices];
    ++samples[of_samples];
    ++divided[settings.recurrent.divided + (settings.projects && settings.projection.divided ? 1 : 0)];
    if (settings.projects) ++projected_slices[settings.projection.full_slices];
  }
};

inline std::string text_of(const std::map<int64_t, int64_t>& counts) {
  std::string text;
  for (const auto& [key, count] : counts) text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key, count);
  return text;
}

// When every word of a pass without pauses left, against the cycle model.
inline bool times_match(const StepSettings& settings, const Pass& pass, const Outcome& outcome, int64_t units, Seen& seen) {
  const std::vector<int64_t> modelled = emission_cycles(kBuilt, settings, {pass.samples, pass.steps}, pass.back);
  if (!outcome.finished || outcome.cycles.size() != modelled.size()) {
    fmt::print("cycles {}: does not end\n", seen.cycle_engines);
    return false;
  }
  for (size_t word = 0; word < modelled.size(); ++word)
    if (outcome.cycles[word] - outcome.cycles[0] != modelled[word] - modelled[0]) {
      fmt::print("cycles {}: word {} of {} leaves {} cycles behind the first, modelled {}\n  {}, {} units, {} samples, {} slices{}\n",
                 seen.cycle_engines, word, modelled.size(), outcome.cycles[word] - outcome.cycles[0], modelled[word] - modelled[0],
                 pass.back ? "back" : "forward", units, pass.samples, settings.recurrent.full_slices,
                 settings.recurrent.divided ? " and a divided one" : "");
      return false;
    }
  const int64_t step = settings.part > 0 ? 0 : steady_step_cycles(kBuilt, settings, pass.samples, pass.back);
  seen.waiting += step > pass.samples * settings.fullest() ? 1 : 0;
  seen.words_timed += static_cast<int64_t>(modelled.size());
  ++seen.cycle_engines;
  return true;
}

inline std::string line_of(const Seen& seen) {
  return fmt::format(
      "{{\"engine\": \"{}\", \"cases\": {}, \"on_one_board_of_several\": {}, \"passes\": {}, \"values\": {}, \"full_slices\": {{{}}}, "
      "\"samples\": {{{}}}, \"divided\": {{{}}}, {}\"timed_engines\": {}, \"of_which_wait\": {}, \"words_timed\": {}}}",
      MILLRACE_NAME, seen.cases, seen.boards, seen.passes, seen.values, text_of(seen.slices), text_of(seen.samples), text_of(seen.divided),
      kBuilt.projects ? fmt::format("\"full_slices_of_projections\": {{{}}}, ", text_of(seen.projected_slices)) : "", seen.cycle_engines,
      seen.waiting, seen.words_timed);
}

}  // namespace millrace
