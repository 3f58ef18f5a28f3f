// What is fixed when a convolution engine is generated, and what follows from it.
//
//   const EngineParameters engine = engine_parameters({.kernel = 3, .stride = 1, .input_lanes = 4, .output_lanes = 8,
//                                                      .kernels_per_word = 4}, shape);
//   engine.load_words();      // of the parameter memory per sweep
//
// One set of parameters serves every geometry that fits its memories: the modules in fpga/conv_ce/rtl/modules take sizes,
// padding and channel counts at run time. Kernel and stride are wiring, and square.
#pragma once

#include <cstdint>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"

namespace millrace {

struct EngineParallelism {
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t input_lanes = 4;       // input channels side by side
  int64_t output_lanes = 4;      // output channels side by side
  int64_t kernels_per_word = 4;  // of the parameter memory; at most the tiles
  int64_t channel_groups = 1;    // that do not mix; lanes divide the channels of each, so that no sweep is of two

  int64_t tiles() const { return input_lanes * output_lanes; }
  int64_t load_words() const { return divided_up(tiles(), kernels_per_word); }
  int64_t taps() const { return kernel * kernel; }
  // Rows and columns of errors that one input pixel of EB needs.
  int64_t span() const { return divided_up(kernel, stride); }
  int64_t groups_of_inputs(int64_t channels) const { return divided_up(channels, input_lanes); }
  int64_t groups_of_outputs(int64_t channels) const { return divided_up(channels, output_lanes); }
  // Of FP, for every group of outputs.
  int64_t input_sweeps(int64_t inputs) const { return groups_of_inputs(inputs) / channel_groups; }
};

// Sizes of the memories, as powers of two.
struct EngineMemories {
  int row_banks = 2;  // of FP's and PG's line buffer
  int column_banks = 2;
  int line_address = 6;
  int error_row_banks = 2;  // of EB's line buffer
  int error_column_banks = 2;
  int error_line_address = 6;
  int gradient_error_row_banks = 1;  // PG's rows of errors
  int gradient_error_address = 7;
  int column_address = 6;  // accumulators
  int parameter_address = 10;
  int group_address = 6;  // output groups
};

// Of row_sorter.sv, which holds two blocks of rows, or more where a ring would lose pace (ring_rooms.h).
struct SorterMemory {
  int row_banks = 1;
  int address = 1;  // of half a row
  bool operator==(const SorterMemory&) const = default;
};
inline constexpr int64_t kSortedBlocks = 2;
SorterMemory sorter_memory(int64_t groups, int64_t width, int64_t block_rows, int64_t blocks = kSortedBlocks);

// Of lane_adapter.sv, between streams of so many lanes; of a block of so many pixels.
struct AdapterMemory {
  int banks = 1;    // channels of a slot: 2^banks
  int address = 1;  // pixels
  bool operator==(const AdapterMemory&) const = default;
};
AdapterMemory adapter_memory(int64_t in_lanes, int64_t out_lanes, int64_t pixels);

// So many that the kernels of a sweep over `out_width` columns come in while the sweep before runs.
int64_t kernels_per_word(int64_t tiles, int64_t out_width);

// The smallest memories that hold `largest`, with `error_block_rows` rows of errors coming at once.
EngineMemories engine_memories(const EngineParallelism& engine, const ConvolutionShape& largest, int64_t error_block_rows = 1);

// Of windows that are gathered beat by beat: a word per window of a row and group, and of the way back two rows of them. Where they
// overlap, a bank of such words for every row of windows that a pixel lies in, and of the way back as many and those that come meanwhile.
EngineMemories gathered_memories(const PoolingWindow& window, int64_t groups);

// Rows that FP's and PG's line buffers hold.
int64_t line_buffer_rows(int64_t kernel, int64_t stride);

// How EB walks a sample: steps of stride x stride input pixels.
struct ErrorBackSteps {
  int64_t rows = 0, columns = 0;
  int64_t first = 0;        // pad / stride
  int64_t first_phase = 0;  // pad mod stride
  int64_t last_phase = 0;
  int64_t first_block_rows = 0;  // of the blocks that come out
};
ErrorBackSteps error_back_steps(const ConvolutionShape& shape);
// Likewise how un-pooling walks the map before the pooling.
ErrorBackSteps unpooling_steps(const PoolingWindow& window);

// Of windows that overlap: how many a pixel lies in from top to bottom, and from left to right.
int64_t row_span(const PoolingWindow& window);
int64_t column_span(const PoolingWindow& window);
// Windows of a column or a row of them that end with the map's last row or column, but for the first of these.
int64_t rows_left_behind(const PoolingWindow& window);
int64_t columns_left_behind(const PoolingWindow& window);

}  // namespace millrace
