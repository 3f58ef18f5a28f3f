#include "fpga/conv_ce/rtl/outside_room.h"

#include <numeric>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/conv_ce/rtl/built_memory.h"

namespace millrace {

namespace {

// Of what reads and writes bursts: addresses, counts and comparisons, as Yosys makes them.
constexpr FabricUse kBursts{.luts = 1100, .flip_flops = 940};

}  // namespace

int64_t OutsideRoom::beats(int64_t words, int64_t word_bits) const { return divided_up(words * word_bits, beat_bits); }

double OutsideRoom::bytes_per_sample(int64_t words, int64_t word_bits) const {
  return 2 * static_cast<double>(beats(words, word_bits) * beat_bits / 8);
}

int64_t OutsideRoom::cycles(int64_t words, int64_t word_bits) const {
  const int64_t all = beats(words, word_bits);
  return all + divided_up(all, kBurstBeats);
}

bool OutsideRoom::keeps_up(int64_t words, int64_t word_bits, int64_t period_cycles) const {
  return period_cycles <= 0 || 2 * cycles(words, word_bits) <= period_cycles;
}

OutsideRoom outside_room(int64_t samples, int64_t words, int64_t word_bits, int64_t period_cycles) {
  OutsideRoom room{.samples = samples, .beat_bits = kLeastBeatBits};
  while (!room.keeps_up(words, word_bits, period_cycles) && room.beat_bits < kMostBeatBits) room.beat_bits *= 2;
  return room;
}

int64_t outside_blocks(int64_t beat_bits) {
  return bram18_of({.width = beat_bits, .depth = kStreamedBeats}) + bram18_of({.width = beat_bits, .depth = kWrittenBeats});
}

FabricUse outside_fabric(int64_t word_bits, int64_t beat_bits) {
  FabricUse use = kBursts;
  use.luts += 2 * packing_luts(word_bits, beat_bits, std::gcd(word_bits, kElementBits));
  use.flip_flops += static_cast<double>(2 * (word_bits + beat_bits));
  for (const int64_t depth : {kStreamedBeats, kWrittenBeats})
    if (depth <= kLutramDepth) use.luts += lutram_luts(depth, static_cast<double>(beat_bits));
  return use;
}

}  // namespace millrace
