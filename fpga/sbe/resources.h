// What the engine of blocked columns takes of a board, its memories counted as they are reached and not in bits.
//
//   const SbeUse use = sbe_use(config, board);
//   use.bram36;                     // halves count
//   use.lacks(board);               // {{"bram36", 559.5, 545}}: all of which there is too little; empty: it fits
//
// Memories, each packed alone:
//   weights     banks one beat of the memory's bus wide, so that a beat is written whole while another is read: as many as all
//               multipliers' weights of a cycle need, and as deep as all slots and what is pinned
//   inputs      two halves of a block's inputs of all vectors
//   hidden      h of all streams, twice: the step that is walked, and the one that is made
//   cells       c of 32 bits of all streams, a word per cycle of the tail
//   outputs     two batches of h on their way out: in beats where they cross the memory's bus, else as the tail makes them
//   sums        an accumulator of 32 bits per vector, group and lane, between two blocks: LUTRAM where it is shallow
//   projection  the second matrix of a layer that projects, a word for each cycle of the tail
// A slice multiplies and accumulates; the tail takes four for each unit (f c: two, for c has 32 bits; i u; o tanh c), and one for
// each feature that a layer projects to. What exceeds the
// slices is built of LUTs. LUTs are projected: 256 for a multiplier, 32 for its accumulator, 512 for a tail unit, 900 of control, and
// a share of the board's that place and route can use.
#pragma once

#include <array>
#include <compare>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "fpga/common/cost/packed_blocks.h"
#include "fpga/sbe/engine_config.h"

namespace millrace {

// What there is of everything, and what may be asked of it.
struct SbeBoard {
  std::string name;
  double dsp = 0;
  double lut = 0;
  double lutram_lut = 0;
  double bram36 = 0;
  double uram = 0;
  double bytes_per_second = 0;  // of the memory outside, usable
  double clock_hz = 0;
  int64_t bus_bits = 256;

  auto operator<=>(const SbeBoard&) const = default;

  // Nt: what the bus and the memory behind it give.
  int64_t words_per_cycle() const;
};

inline constexpr double kUsableBandwidth = 0.85;             // of a memory's peak: projected
inline constexpr double kUsableLuts = 0.8;                   // projected
inline constexpr double kLutsOfFabricMultiplier = 256 + 32;  // and its accumulator: projected

struct Lack {
  std::string resource;
  double wanted = 0;
  double there = 0;
};

struct SbeUse {
  double bram36 = 0;
  double uram = 0;
  double lutram_lut = 0;
  double lut = 0;  // LUTRAM included
  double dsp = 0;
  int64_t fabric_multipliers = 0;  // which found no slice
  // Blocks of each memory, halves of a BRAM36.
  double weights = 0, inputs = 0, hidden = 0, cells = 0, outputs = 0, sums = 0, projection = 0;

  bool fits(const SbeBoard& board) const;
  std::vector<Lack> lacks(const SbeBoard& board) const;
};

SbeUse sbe_use(const SbeConfig& config, const SbeBoard& board);

// The same for many configurations in turn: remembers how each memory was packed the last time, for neighbours share most of them.
class UseCounter {
 public:
  explicit UseCounter(const SbeBoard& board) : board_(board) {}
  SbeUse use_of(const SbeConfig& config);

 private:
  enum Memory : size_t { kWeights, kPinnedWeights, kInputs, kHidden, kCells, kOutputs, kSums, kProjection, kMemories };
  struct Packed {
    MemoryShape shape;
    PackedBlocks blocks;
  };
  const PackedBlocks& packed(Memory memory, const MemoryShape& shape);

  const SbeBoard& board_;
  std::array<Packed, kMemories> last_{};
};

// With their origin.
std::vector<Constant> sbe_constants();

}  // namespace millrace
