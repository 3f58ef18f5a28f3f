// What a shard's blocks come to in an engine's terms: kernels, rows, the channels held, the work of one row. Whose engine it is
// fills it: fpga/conv_ce/layer_geometry.h, fpga/recurrence/stationary_geometry.h.
//
//   ShardGeometry shard = geometry_without_engine(node);
//   set_channels(shard, blocks, 0);
//   shard.kernels;           // (input, output) pairs of the blocks
//
// An engine is an array of tiles; a tile does one kernel, the K_h x K_w products of one input channel for one output
// channel, at one output pixel per cycle. Dense and recurrent layers are kernels of one product.
// Nothing is allocated: cost models call this millions of times.
#pragma once

#include <cstdint>
#include <span>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

// One phase's walk over a sample: so many units (rows, steps), each of so many tile-cycles.
struct PhaseWork {
  int64_t units = 1;
  int64_t work = 0;
  bool operator==(const PhaseWork&) const = default;
};

// Where a layer's weights stay.
enum class WeightPlace {
  kOnChip,      // beside the engine, or on another board: convolutions
  kStationary,  // beside the engine and nowhere else: a recurrent layer needs them at every step
  kOffChip,     // in the board's own memory: dense layers and embeddings
};

struct ShardGeometry {
  StreamingUnit unit = StreamingUnit::kRow;
  PhaseWork forward;     // FP, and PG
  PhaseWork error_back;  // EB
  int64_t kernels = 0;   // (input channel, output channel) pairs
  int64_t tile = 1;      // products of one kernel: multipliers of one tile
  int64_t weights = 0;   // elements
  WeightPlace place = WeightPlace::kOnChip;

  int64_t inputs = 0;   // channels held: from the first input of any block to the last
  int64_t outputs = 0;  // channels touched, of the raw sum
  int64_t layer_inputs = 0;
  int64_t layer_outputs = 0;
  Shape input;               // of the whole layer
  Shape output;              // the raw sum of the whole layer
  int64_t reach = 1;         // rows of input that one output row needs
  int64_t vectors = 0;       // elements of the bias, on the owner
  int64_t state = 0;         // elements per step that a recurrent layer keeps for its way back, on the owner
  bool trained = false;      // gradients are made: PG exists
  bool error_comes = false;  // an error comes back to the layer: EB exists

  bool has_engine() const { return forward.work > 0; }
};

// Shapes and what is trained; rows pass as they come.
ShardGeometry geometry_without_engine(const Node& node);
// The channels that the blocks touch, the whole layer's without blocks, and their pairs. `inputs_per_output`: 0 where every output
// reads every input of its block.
void set_channels(ShardGeometry& shard, std::span<const Block> blocks, int64_t inputs_per_output);

}  // namespace millrace
