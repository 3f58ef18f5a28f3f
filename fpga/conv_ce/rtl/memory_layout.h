// How tensors lie in the engine's memories and on its streams.
//
//   memory = parameter_words(engine, shape, weight);             // LPRAM: words of kernels, one after the other
//   beats = beats_of_rows(map, channels, height, width, lanes, order);
//   map = rows_of_beats(beats, ...);                             // the way back
//
// A word of the parameter memory holds kernels_per_word kernels of taps elements, the first in the low bits. Sweep
// (output group, input group) has load_words words; in it tile output_lane * input_lanes + input_lane. Kernels of channels
// that do not exist are zero. The gradient buffer has the same layout.
// A beat holds one pixel of `lanes` channels; beats follow row by row, or in blocks of rows (row_writer.sv), in a row group
// by group, in a group column by column. Lanes beyond the last channel are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"

namespace millrace {

// Where weight [output][input of its channel group][tap] lies: the index of its element, counted over all words.
size_t parameter_place(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t output, int64_t input, int64_t tap);
size_t parameter_elements(const EngineParallelism& engine, const ConvolutionShape& shape);
std::vector<int16_t> parameter_words(const EngineParallelism& engine, const ConvolutionShape& shape, std::span<const int16_t> weight);
std::vector<int32_t> gradients_of_words(const EngineParallelism& engine, const ConvolutionShape& shape, std::span<const int32_t> words);

struct BeatOrder {
  int64_t channels = 1, height = 1, width = 1;
  int64_t lanes = 1;
  int64_t first_block_rows = 1;
  int64_t block_rows = 1;

  int64_t groups() const { return divided_up(channels, lanes); }
  int64_t beats() const { return groups() * height * width; }
};

// [beat][lane]
std::vector<int16_t> beats_of_map(const BeatOrder& order, std::span<const int16_t> map);
std::vector<int16_t> map_of_beats(const BeatOrder& order, std::span<const int16_t> beats);

}  // namespace millrace
