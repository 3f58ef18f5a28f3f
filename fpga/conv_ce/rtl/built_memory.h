// The memories of a generated shard in the blocks of a board: what the generator builds, for whoever plans it.
//
//   const EngineBlocks blocks = engine_blocks(engine, held, {.error_back = true, .lanes = 4, .error_block_rows = 1});
//   blocks.engines;                                        // halves of a BRAM36: FP's, EB's and PG's line buffers, sums, adapters
//   bram18_of(parameter_memory(engine, held, true));       // LPRAM
//   bram18_of(gradient_memory(engine, held));              // LGB, 32 bits an element
//
// A memory of at most kLutramDepth words is made of LUTs and takes no block. What follows the sum is not here: it is the same for every
// engine. Weights that are streamed take stream_blocks() in place of LPRAM and LGB. Pure functions; nothing is allocated.
#pragma once

#include <cstdint>

#include "fpga/common/cost/bram_packing.h"
#include "fpga/common/cost/fabric_costs.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"

namespace millrace {

MemoryShape parameter_memory(const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back);
MemoryShape gradient_memory(const EngineParallelism& engine, const ConvolutionShape& shape);
// Of so many words (streamed_words), each of so many elements.
MemoryShape parameter_memory(const EngineParallelism& engine, int64_t words, bool error_back);
MemoryShape gradient_memory(const EngineParallelism& engine, int64_t words);
int64_t word_elements(const EngineParallelism& engine);
// Of so many planned bits, and a sample at least: within the device, errors come back only when the layers behind have rows to work on.
MemoryShape act_ram_memory(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t planned_bits);
// Words of a sample there.
int64_t act_ram_words(const EngineParallelism& engine, const ConvolutionShape& shape);

// None where it is made of LUTs.
int64_t bram18_of(const MemoryShape& memory);
// No more than that; and of a deeper memory of so many bits.
int64_t least_bram18_of(const MemoryShape& memory);
int64_t least_bram18_of_bits(int64_t bits);

// Around an engine.
struct EngineSurroundings {
  bool error_back = true;
  int64_t lanes = 1;             // of the ring's streams
  int64_t error_block_rows = 1;  // that errors of the raw sum come in
  int64_t gradient_samples = 1;  // side by side, of PG
};
int64_t engine_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around);
// Between streams of so many lanes and the engine's.
int64_t adapter_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around);
// Both together, of memories as wide as an engine's input lanes, and of those as wide as its output lanes: the two add up, so whoever asks
// of many engines of a shape counts each number of lanes once.
int64_t blocks_of_input_lanes(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around);
int64_t blocks_of_output_lanes(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around);
// What stands in for LPRAM and LGB where weights are streamed, in beats of so many bits.
int64_t stream_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around, int64_t beat_bits);
// No more than that, of any engine.
int64_t least_stream_blocks(const EngineSurroundings& around, int64_t beat_bits);
// What packs and unpacks those beats, with memories that are made of LUTs.
FabricUse stream_fabric(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around,
                        int64_t beat_bits);
// No more LUTs than that, of any engine of so many tiles or more.
double least_packing_luts(int64_t tiles, const ConvolutionShape& shape, bool error_back);
// Of words in beats one way, in units of so many bits. Halved: of words of 784 bits in beats of 512 Yosys makes 4,949 LUTs.
double packing_luts(int64_t word_bits, int64_t beat_bits, int64_t unit_bits);

}  // namespace millrace
