#include "fpga/conv_ce/rtl/engine_parameters.h"

#include <algorithm>
#include <bit>

#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

namespace {

// Bits of an address that tells `count` words apart; at least one.
int address_bits(int64_t count) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1) - 1))));
}

// Words of one bank: channel groups times the bank's share of a row.
int line_address_bits(int64_t groups, int64_t width, int column_banks) {
  return address_bits(groups * divided_up(width, int64_t{1} << column_banks));
}

}  // namespace

int64_t kernels_per_word(int64_t tiles, int64_t out_width) { return divided_up(tiles, std::max<int64_t>(out_width - 1, 1)); }

EngineMemories engine_memories(const EngineParallelism& engine, const ConvolutionShape& largest, int64_t error_block_rows) {
  const int64_t input_groups = engine.groups_of_inputs(largest.inputs);
  const int64_t output_groups = engine.groups_of_outputs(largest.outputs);
  const ErrorBackSteps steps = error_back_steps(largest);
  EngineMemories memories;
  memories.row_banks = address_bits(engine.kernel + engine.stride);  // line_buffer_rows
  memories.column_banks = address_bits(engine.kernel);
  memories.line_address = line_address_bits(input_groups, largest.width, memories.column_banks);
  memories.error_row_banks = address_bits(engine.span() + error_block_rows);
  memories.error_column_banks = address_bits(engine.span());
  memories.error_line_address = line_address_bits(output_groups, largest.out_width(), memories.error_column_banks);
  memories.gradient_error_row_banks = address_bits(1 + error_block_rows);
  memories.gradient_error_address = line_address_bits(output_groups, largest.out_width(), 1);
  memories.column_address = address_bits(std::max(largest.out_width(), steps.columns));
  memories.parameter_address = address_bits(engine.input_sweeps(largest.inputs) * output_groups * engine.load_words());
  memories.group_address = address_bits(output_groups);
  return memories;
}

EngineMemories gathered_memories(const PoolingWindow& window, int64_t groups) {
  EngineMemories memories;
  memories.row_banks = address_bits(window.kernel_h);  // rows that come in while a window waits to leave
  memories.error_row_banks = 1;
  memories.line_address = memories.error_line_address = std::max(1, address_bits(groups * window.out_width));
  memories.column_banks = memories.error_column_banks = 0;
  memories.group_address = address_bits(groups);
  if (!window.overlaps()) return memories;
  memories.error_column_banks = 1;
  memories.error_line_address = line_address_bits(groups, window.out_width, memories.error_column_banks);
  // The next sample's first row of the map needs windows while the last row of this one has its own.
  const int64_t newest_of_last = (window.height - 1 + window.pad_h) / window.stride_h;
  const int64_t held_at_last = window.out_height - std::clamp<int64_t>(newest_of_last - row_span(window) + 1, 0, window.out_height);
  const int64_t needed_at_first = std::min(window.pad_h / window.stride_h + 1, window.out_height);
  memories.error_row_banks = address_bits(std::max(row_span(window) + 1, held_at_last + needed_at_first));
  return memories;
}

int64_t row_span(const PoolingWindow& window) { return divided_up(window.kernel_h, window.stride_h); }
int64_t column_span(const PoolingWindow& window) { return divided_up(window.kernel_w, window.stride_w); }

namespace {

int64_t left_behind(int64_t size, int64_t pad, int64_t kernel, int64_t stride, int64_t windows) {
  const int64_t before = divided_up(std::max<int64_t>(size + pad - kernel, 0), stride);  // that end earlier
  return std::max<int64_t>(windows - before - 1, 0);
}

}  // namespace

int64_t rows_left_behind(const PoolingWindow& w) { return left_behind(w.height, w.pad_h, w.kernel_h, w.stride_h, w.out_height); }
int64_t columns_left_behind(const PoolingWindow& w) { return left_behind(w.width, w.pad_w, w.kernel_w, w.stride_w, w.out_width); }

int64_t line_buffer_rows(int64_t kernel, int64_t stride) { return int64_t{1} << address_bits(kernel + stride); }

SorterMemory sorter_memory(int64_t groups, int64_t width, int64_t block_rows, int64_t blocks) {
  return {.row_banks = address_bits(blocks * block_rows), .address = line_address_bits(groups, width, 1)};
}

AdapterMemory adapter_memory(int64_t in_lanes, int64_t out_lanes, int64_t pixels) {
  return {.banks = address_bits(std::max(in_lanes, out_lanes)), .address = address_bits(pixels)};
}

ErrorBackSteps error_back_steps(const ConvolutionShape& shape) {
  const auto steps = [](int64_t size, int64_t pad, int64_t stride) { return (size - 1 + pad) / stride - pad / stride + 1; };
  ErrorBackSteps found;
  found.rows = steps(shape.height, shape.pad_h, shape.stride_h);
  found.columns = steps(shape.width, shape.pad_w, shape.stride_w);
  found.first = shape.pad_h / shape.stride_h;
  found.first_phase = shape.pad_h % shape.stride_h;
  found.last_phase = (shape.height - 1 + shape.pad_h) % shape.stride_h;
  found.first_block_rows = std::min(shape.stride_h - found.first_phase, shape.height);
  return found;
}

ErrorBackSteps unpooling_steps(const PoolingWindow& window) {
  return error_back_steps({.height = window.height,
                           .width = window.width,
                           .kernel_h = window.kernel_h,
                           .kernel_w = window.kernel_w,
                           .stride_h = window.stride_h,
                           .stride_w = window.stride_w,
                           .pad_h = window.pad_h,
                           .pad_w = window.pad_w});
}

}  // namespace millrace
