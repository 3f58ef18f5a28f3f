// Random engines and boards for the tests of fpga/sbe.
#pragma once

#include <algorithm>
#include <random>

#include "fpga/sbe/engine_config.h"

namespace millrace::testing_support {

class Dice {
 public:
  explicit Dice(uint32_t seed) : generator_(seed) {}
  int64_t from_to(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(generator_); }
  template <typename Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[from_to(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937 generator_;
};

inline SbeConfig random_engine(Dice& dice) {
  SbeConfig config;
  config.shape = {.inputs = dice.from_to(1, 200), .hidden = dice.from_to(1, 64), .gates = dice.one_of<int64_t>({1, 3, 4})};
  if (config.shape.gates == 4 && dice.from_to(0, 3) == 0) config.shape.projection = dice.from_to(1, config.shape.hidden);
  config.row_lanes = divided_up(config.shape.hidden, dice.from_to(1, std::min<int64_t>(4, config.shape.hidden))) * config.shape.gates;
  config.columns = dice.from_to(1, 4);
  config.tail_units = dice.from_to(1, 8);
  config.latency = dice.from_to(0, 60);
  config.slots = dice.from_to(2, 4);
  config.pinned = dice.one_of({Pinned::kNone, Pinned::kNone, Pinned::kHidden, Pinned::kAll});
  config.words_per_cycle = dice.one_of<int64_t>({1, 4, 8, 16, 32});
  config.inputs_share_bus = dice.from_to(0, 1) == 1;
  config.streams = dice.from_to(1, 4);
  config.steps = dice.from_to(1, 16);
  if (config.pinned != Pinned::kAll) {
    const int64_t chunks = config.input_chunks() + (config.pinned == Pinned::kNone ? config.hidden_chunks() : 0);
    config.block_chunks = divided_up(chunks, dice.from_to(1, 12));
  }
  return config;
}

}  // namespace millrace::testing_support
