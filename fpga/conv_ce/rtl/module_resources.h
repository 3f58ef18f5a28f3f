// DSP slices and block RAM that the generated engines take, to be compared with what synthesis makes of them. Internal to fpga/conv_ce.
//
//   const EngineResources use = forward_resources(engine, engine_memories(engine, largest));
//   use.dsp;       // one per multiplier of 16 bits
//   use.bram18;    // halves of a BRAM36
//
// Counts follow from how the modules are built: a multiplier per tap of a tile; a memory of its own per bank of a line
// buffer, per phase of the error buffer, for the accumulators of a row. Memories of at most kLutramDepth words are LUTRAM.
// The parameter memory and the gradient buffer lie beside the engines and are not counted here.
// shard_packing.h is what the planner uses: it knows no banks of columns, and no line buffer beside the Act-RAM.
#pragma once

#include <cstdint>

#include "fpga/common/cost/bram_packing.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"

namespace millrace {

struct EngineResources {
  int64_t dsp = 0;
  int64_t bram18 = 0;
  bool operator==(const EngineResources&) const = default;
};

EngineResources forward_resources(const EngineParallelism& engine, const EngineMemories& memories);
EngineResources error_back_resources(const EngineParallelism& engine, const EngineMemories& memories);
EngineResources gradient_resources(const EngineParallelism& engine, const EngineMemories& memories);
// Of pooling forward and back: `pooling` as a convolution over its window has sizes (engine_memories), lanes alike on both sides.
// An average takes two slices per lane to divide its sum, which is wider than a slice's factors (four from 512 elements on), and one on the
// way back.
EngineResources pooling_resources(const EngineParallelism& pooling, const EngineMemories& memories, const PoolingWindow& window);
EngineResources unpooling_resources(const EngineParallelism& pooling, const EngineMemories& memories, const PoolingWindow& window);
// Of large windows: what they come to between rows (tiled_pooling.sv, overlapped_pooling.sv), and what their elements get on the way back
// (tiled_unpooling.sv, overlapped_unpooling.sv). Where they do not overlap both lie in LUTs, which are counted.
MemoryShape gathering_memory(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window);
MemoryShape spreading_memory(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window);
double gathering_luts(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window);
double spreading_luts(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window);
// Of response_norm.sv, and of its way back: squares of a window's channels, a product with the factor of two slices, one with p; and back
// two with the error, two slices each for u and for the sum of them.
EngineResources response_norm_resources(int64_t lanes, int64_t half);
EngineResources response_norm_back_resources(int64_t lanes, int64_t half);
// Of smooth_activation.sv, a slice a lane, and of its way back, a square and a product with the error.
EngineResources smooth_activation_resources(int64_t lanes);
// Of 16 and 17 bits each: with the scale, with the slope, of the distance with itself and with the error.
EngineResources running_norm_resources(int64_t lanes);
// Two products of 32 bits with constants, four slices each, and one scale for all lanes.
EngineResources dropout_resources();
// Of map_fork.sv, and of map_adder.sv whose sum so far is so many bits wider than an element; as Yosys makes them, but for a few.
inline constexpr double kForkLuts = 60, kForkFlipFlops = 34, kAdderFlipFlops = 32;
double map_adder_luts(int64_t lanes, int64_t wider_bits);
EngineResources sorter_resources(int64_t lanes, const SorterMemory& memory);

}  // namespace millrace
