// A memory whose words wait in the board's own memory instead of on the chip (outside_fifo.sv): its port, and what is left on the chip.
//
//   const OutsideRoom room = outside_room(/*samples=*/9, /*sample_words=*/3136, /*word_bits=*/64, /*period_cycles=*/250'000);
//   room.bytes_per_sample(3136, 64);       // there and back
//   outside_blocks(room.beat_bits);        // of the bursts that come and go
//
// A word is written once and read once, packed without gaps. Pure functions.
#pragma once

#include <cstdint>

#include "fpga/common/cost/fabric_costs.h"
#include "fpga/conv_ce/rtl/weight_streams.h"

namespace millrace {

// Beside those that wait: one that is not all there yet, and one that is not all gone.
inline constexpr int64_t kSamplesOnTheirWay = 2;

// Room for so many samples, behind a port of so many bits.
struct OutsideRoom {
  int64_t samples = 0;  // 0: it is on the chip
  int64_t beat_bits = kLeastBeatBits;

  bool is_outside() const { return samples > 0; }
  // Of a sample that has so many words.
  int64_t beats(int64_t words, int64_t word_bits) const;
  double bytes_per_sample(int64_t words, int64_t word_bits) const;
  // Cycles of the port for so many words, either way; a writer rests behind every burst.
  int64_t cycles(int64_t words, int64_t word_bits) const;
  // Whether a sample passes, there and back, in the engines' period; 0: any.
  bool keeps_up(int64_t words, int64_t word_bits, int64_t period_cycles) const;
  bool operator==(const OutsideRoom&) const = default;
};

// With the narrowest port that keeps up, else the widest.
OutsideRoom outside_room(int64_t samples, int64_t words, int64_t word_bits, int64_t period_cycles);

// Halves of a BRAM36.
int64_t outside_blocks(int64_t beat_bits);
// With memories that are made of LUTs.
FabricUse outside_fabric(int64_t word_bits, int64_t beat_bits);

}  // namespace millrace
