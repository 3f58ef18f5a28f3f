// One way to build the engine of blocked columns, and how a batch goes through it.
//
//   const SbeConfig paper{.shape = {1792, 256, 4}, .row_lanes = 1024, .block_chunks = 128, .streams = 1, .steps = 64};
//   paper.multipliers();          // 1,024
//   blocks_of(paper).size();      // 16
//
// A cycle multiplies `columns` elements of [x, h] with `row_lanes` rows of their columns of weights; a CHUNK is so many columns, of x
// or of h, never of both. Chunks form BLOCKS, x first, h last, equal but for the last one. A block is on the chip while all vectors of a
// batch, streams x steps, use it; `slots` blocks are there at once, so that one is loaded while another is used. Que et al., JSPS 92
// (2020), do this with one stream, two slots and no pinned weights.
#pragma once

#include <cstdint>
#include <vector>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/recurrence/gate_matrix.h"

namespace millrace {

// Which weights stay on the chip.
enum class Pinned {
  kNone,    // every block is streamed
  kHidden,  // columns of h stay, those of x are streamed
  kAll,     // nothing is streamed
};

inline constexpr int64_t kLeastOutputDepth = 512;  // words of h on their way out; half a block of memory holds as many
inline constexpr int64_t kMostSlots = 8;
inline constexpr int64_t kProjectionLatency = 6;  // from the last unit to the first feature, as built (unit_projection.sv)

struct SbeConfig {
  GateMatrix shape;
  int64_t row_lanes = 0;     // a multiple of the gates, at most the rows
  int64_t columns = 1;       // k
  int64_t tail_units = 4;    // U
  int64_t latency = 25;      // L, from a unit's last product to its h at the multipliers
  int64_t block_chunks = 0;  // of a streamed block; unused where all is pinned
  int64_t slots = 2;         // 2 or more
  Pinned pinned = Pinned::kNone;
  int64_t words_per_cycle = 16;   // Nt, 16 bits each, from the memory outside
  bool inputs_share_bus = true;   // x comes and h goes over the memory's bus, else over streams of their own
  bool one_weight_memory = true;  // one memory with a port for loading holds all slots; else one memory for each
  bool sums_arrive = false;       // x W is made elsewhere and comes as sums of 32 bits; no inputs then, and all is pinned
  int64_t streams = 1;            // S sequences side by side
  int64_t steps = 1;              // K of each

  int64_t multipliers() const { return row_lanes * columns; }
  int64_t projection_multipliers() const { return shape.projection * tail_units; }  // keep up with the tail
  int64_t groups() const { return divided_up(shape.rows(), row_lanes); }            // G
  int64_t units_per_group() const { return divided_up(row_lanes, shape.gates); }
  int64_t input_chunks() const { return divided_up(shape.inputs, columns); }       // Cx
  int64_t hidden_chunks() const { return divided_up(shape.features(), columns); }  // Ch
  int64_t vectors() const { return streams * steps; }                              // of a batch
};

struct ColumnBlock {
  int64_t chunks = 0;
  int64_t hidden = 0;  // of these, of h: the last ones
};

// Those that are streamed, in order.
inline std::vector<ColumnBlock> blocks_of(const SbeConfig& config) {
  std::vector<ColumnBlock> blocks;
  if (config.pinned == Pinned::kAll) return blocks;
  const int64_t inputs = config.input_chunks();
  const int64_t all = inputs + (config.pinned == Pinned::kNone ? config.hidden_chunks() : 0);
  for (int64_t first = 0; first < all; first += config.block_chunks) {
    const int64_t chunks = config.block_chunks < all - first ? config.block_chunks : all - first;
    const int64_t of_x = inputs - first;
    blocks.push_back({chunks, of_x >= chunks ? 0 : of_x <= 0 ? chunks : chunks - of_x});
  }
  return blocks;
}

// Fails with kUsage, naming the number, on what cannot be built.
void check(const SbeConfig& config);

}  // namespace millrace
