#include "fpga/conv_ce/rtl/module_resources.h"

#include <algorithm>
#include <bit>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/common/cost/bram_packing.h"

namespace millrace {

namespace {

int64_t blocks(int64_t width, int address_bits, int64_t banks) {
  const int64_t depth = int64_t{1} << address_bits;
  return depth <= kLutramDepth ? 0 : bram18_blocks({.width = width, .depth = depth, .banks = banks});
}

// A lane of a word of un-pooling: an error's product with a reciprocal, or the error with the place that won.
constexpr int64_t kProductBits = kElementBits + 17;

int64_t place_or_count_bits(const PoolingWindow& window) {
  return window.average ? static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(window.kernel_h * window.kernel_w)))
                        : window.place_bits();
}

// LUTs per bit of what large windows that overlap come to in a row and from row to row, and of what meets in an element on the way back, as
// Yosys makes them (5.4 to 6.7).
constexpr double kGatheredBitLuts = 6, kSpreadBitLuts = 6;

// A memory whose word is there in the cycle of its address lies in LUTs, however deep.
double read_at_once_luts(int address_bits, int64_t width) {
  const int64_t depth = int64_t{1} << address_bits;
  return static_cast<double>(divided_up(depth, kLutramDepth)) * lutram_luts(std::min(depth, kLutramDepth), static_cast<double>(width));
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

MemoryShape gathering_memory(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window) {
  return {.width = lanes * (kElementBits + place_or_count_bits(window)),
          .depth = int64_t{1} << memories.line_address,
          .banks = row_span(window)};
}

MemoryShape spreading_memory(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window) {
  const int64_t word = lanes * (window.average ? kProductBits : kElementBits + window.place_bits());
  // overlapped_unpooling.sv says why those of large windows are powers of two.
  return {.width = window.is_large() ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(word))) : word,
          .depth = int64_t{1} << memories.error_line_address,
          .banks = int64_t{1} << (memories.error_row_banks + memories.error_column_banks)};
}

double gathering_luts(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window) {
  const int64_t bits = lanes * (kElementBits + place_or_count_bits(window));
  if (!window.overlaps()) return read_at_once_luts(memories.line_address, bits);
  return kGatheredBitLuts * static_cast<double>((row_span(window) + column_span(window)) * bits);
}

double spreading_luts(int64_t lanes, const EngineMemories& memories, const PoolingWindow& window) {
  if (!window.overlaps())
    return read_at_once_luts(memories.line_address + 1, lanes * (window.average ? kProductBits : kElementBits + window.place_bits()));
  // Of an average, a sum per row of windows and one per column of them; of a maximum a comparison and a sum for each that a pixel lies in.
  const int64_t sums = window.average ? row_span(window) + column_span(window) : row_span(window) * column_span(window);
  const int64_t bits = window.average ? kProductBits : kElementBits;
  return kSpreadBitLuts * static_cast<double>(sums * lanes * bits);
}

EngineResources pooling_resources(const EngineParallelism& pooling, const EngineMemories& memories, const PoolingWindow& window) {
  // A slice's factors have 25 and 18 bits with their signs; the reciprocal has 19.
  const bool wide = kElementBits + place_or_count_bits(window) > 25;
  const int64_t dsp = window.average ? (wide ? 4 : 2) * pooling.input_lanes : 0;
  if (window.is_large())
    return {.dsp = dsp, .bram18 = window.overlaps() ? bram18_of(gathering_memory(pooling.input_lanes, memories, window)) : 0};
  return {.dsp = dsp, .bram18 = line_buffer(pooling.input_lanes, memories.row_banks, memories.column_banks, memories.line_address)};
}

EngineResources unpooling_resources(const EngineParallelism& pooling, const EngineMemories& memories, const PoolingWindow& window) {
  const int64_t phases = window.stride_h * window.stride_w, dsp = window.average ? pooling.input_lanes : 0;
  if (window.is_large() && !window.overlaps()) return {.dsp = dsp, .bram18 = 0};
  const int64_t words = bram18_of(spreading_memory(pooling.input_lanes, memories, window));
  if (window.is_large()) return {.dsp = dsp, .bram18 = words};
  return {.dsp = dsp, .bram18 = words + blocks(pooling.input_lanes * kElementBits, memories.column_address + 2, phases)};
}

EngineResources response_norm_resources(int64_t lanes, int64_t half) { return {.dsp = 4 * lanes + 2 * half, .bram18 = 0}; }
EngineResources response_norm_back_resources(int64_t lanes, int64_t half) { return {.dsp = 9 * lanes + 2 * half, .bram18 = 0}; }

EngineResources smooth_activation_resources(int64_t lanes) { return {.dsp = 3 * lanes, .bram18 = lanes}; }

EngineResources running_norm_resources(int64_t lanes) { return {.dsp = 4 * lanes, .bram18 = 0}; }

EngineResources dropout_resources() { return {.dsp = 2 * 4 + 1, .bram18 = 0}; }

double map_adder_luts(int64_t lanes, int64_t wider_bits) {
  // Counters; per bit of an element a choice of both operands, a sum and a choice of the limits.
  constexpr double kCounters = 55, kBit = 3.5;
  return kCounters + static_cast<double>(lanes) * (kBit * kElementBits + static_cast<double>(wider_bits));
}

EngineResources sorter_resources(int64_t lanes, const SorterMemory& memory) {
  return {.dsp = 0, .bram18 = blocks(lanes * kElementBits, memory.row_banks + memory.address + 1, 1)};
}

}  // namespace millrace
