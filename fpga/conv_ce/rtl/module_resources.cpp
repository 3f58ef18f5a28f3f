#include "fpga/conv_ce/rtl/module_resources.h"

#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/common/cost/bram_packing.h"

namespace millrace {

namespace {

int64_t blocks(int64_t width, int address_bits, int64_t banks) {
  const int64_t depth = int64_t{1} << address_bits;
  return depth <= kLutramDepth ? 0 : bram18_blocks({.width = width, .depth = depth, .banks = banks});
}

int64_t line_buffer(int64_t lanes, int row_banks, int column_banks, int address_bits) {
  return blocks(lanes * kElementBits, address_bits, int64_t{1} << (row_banks + column_banks));
}

}  // namespace

EngineResources forward_resources(const EngineParallelism& engine, const EngineMemories& memories) {
  return {.dsp = engine.tiles() * engine.taps(),
          .bram18 = line_buffer(engine.input_lanes, memories.row_banks, memories.column_banks, memories.line_address) +
                    blocks(engine.output_lanes * kAccumulatorBits, memories.column_address, 1)};
}

EngineResources error_back_resources(const EngineParallelism& engine, const EngineMemories& memories) {
  const int64_t phases = engine.stride * engine.stride;
  return {.dsp = engine.tiles() * engine.taps(),
          .bram18 = line_buffer(engine.output_lanes, memories.error_row_banks, memories.error_column_banks, memories.error_line_address) +
                    blocks(engine.input_lanes * phases * kAccumulatorBits, memories.column_address, 1) +
                    blocks(engine.input_lanes * kElementBits, memories.column_address + 2, phases)};
}

EngineResources gradient_resources(const EngineParallelism& engine, const EngineMemories& memories) {
  // Errors: rows of single pixels, in two banks of columns.
  return {.dsp = engine.tiles() * engine.taps(),
          .bram18 = line_buffer(engine.input_lanes, memories.row_banks, memories.column_banks, memories.line_address) +
                    line_buffer(engine.output_lanes, memories.gradient_error_row_banks, 1, memories.gradient_error_address) +
                    blocks(engine.output_lanes * kAccumulatorBits, memories.group_address, 1)};
}

EngineResources pooling_resources(const EngineParallelism& pooling, const EngineMemories& memories, bool average) {
  return {.dsp = average ? 2 * pooling.input_lanes : 0,
          .bram18 = line_buffer(pooling.input_lanes, memories.row_banks, memories.column_banks, memories.line_address)};
}

EngineResources unpooling_resources(const EngineParallelism& pooling, const EngineMemories& memories, const PoolingWindow& window) {
  // A lane of a word: an error's product with a reciprocal, or the error with the place that won.
  constexpr int64_t kProductBits = kElementBits + 17;
  const int64_t phases = window.stride_h * window.stride_w;
  return {.dsp = window.average ? pooling.input_lanes : 0,
          .bram18 = blocks(pooling.input_lanes * (window.average ? kProductBits : kElementBits + window.place_bits()),
                           memories.error_line_address, int64_t{1} << (memories.error_row_banks + memories.error_column_banks)) +
                    blocks(pooling.input_lanes * kElementBits, memories.column_address + 2, phases)};
}

EngineResources response_norm_resources(int64_t lanes, int64_t half) { return {.dsp = 4 * lanes + 2 * half, .bram18 = 0}; }
EngineResources response_norm_back_resources(int64_t lanes, int64_t half) { return {.dsp = 9 * lanes + 2 * half, .bram18 = 0}; }

EngineResources smooth_activation_resources(int64_t lanes) { return {.dsp = 3 * lanes, .bram18 = lanes}; }

EngineResources running_norm_resources(int64_t lanes) { return {.dsp = 4 * lanes, .bram18 = 0}; }

EngineResources dropout_resources() { return {.dsp = 2 * 4 + 1, .bram18 = 0}; }

EngineResources sorter_resources(int64_t lanes, const SorterMemory& memory) {
  return {.dsp = 0, .bram18 = blocks(lanes * kElementBits, memory.row_banks + memory.address + 1, 1)};
}

}  // namespace millrace
