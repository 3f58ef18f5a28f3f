// What one shard takes of a board: its engines, its memories and its words outside, before sums and limits are made of them. Internal to
// fpga/cost.
//
//   ShardUse use{.shard = geometry_of(node, blocks, /*owner=*/true)};
//   use.engines = engines_of(use.shard, /*cycles_per_sample=*/1e6);
//   use.engines.tiles() * tile_of(use);      // multipliers of all phases
//   cost.buffers = buffers_of(use);
//
// Fields that say "likewise" are of engines that are generated (generated_engines.h), and nothing without one. Values own what they hold.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/documents/plan.h"
#include "fpga/common/cost/fabric_costs.h"
#include "fpga/conv_ce/engine_timing.h"
#include "fpga/conv_ce/shard_buffers.h"
#include "fpga/cost/built_blocks.h"
#include "fpga/cost/generated_engines.h"
#include "fpga/cost/layer_geometry.h"

namespace millrace {

// FP, EB and PG walk over one row's work with engines of their own; FP and PG are the same size.
struct Engines {
  EngineSize forward;
  EngineSize error_back;
  EngineSize parameter_gradient;
  int64_t count = 0;

  bool keep_up() const { return forward.keeps_up && error_back.keeps_up; }
  int64_t tiles() const { return forward.tiles + error_back.tiles + parameter_gradient.tiles; }
};

// What a sample moves between the board and its memory, and how long the slowest of the shard's ports takes.
struct OffChipWords {
  double bytes = 0;
  double port_seconds = 0;
};

// The one answer that both demand_of and cost_of give.
struct ShardUse {
  ShardGeometry shard;
  Engines engines;
  std::optional<GeneratedEngine> built = {};  // in place of the paper's tiles
  int64_t steps_of_pass = 1;                  // of a dense layer in a plan for inference
  BufferSettings settings;
  ShardBuffers buffers;
  Buffer on_chip;
  std::optional<BuiltBlocks> blocks;             // of what is built, in place of the paper's memory
  int64_t port_cycles = 0;                       // likewise, of the slowest port that streams weights
  double streamed_bytes = 0;                     // likewise, a sample
  FabricUse streams;                             // likewise
  std::optional<ActRamOutside> act_ram_outside;  // likewise
  double dsps = 0;
  FabricUse fabric;
};

Engines engines_of(const ShardGeometry& shard, double cycles_per_sample);

// Multipliers of a tile; of a dense layer that is built, the map that was flattened.
int64_t tile_of(const ShardUse& use);

// By name, in bits: what a plan tells of each.
std::vector<NamedAmount> buffers_of(const ShardUse& use);

}  // namespace millrace
