// The weights of a layer as they lie in the memory outside for the engine of blocked columns: the one function that lays them out, for
// the functional model, the RTL's testbench and a host.
//
//   const WeightImage image = weight_image(config, layer);
//   image.words[image.blocks[1].first];           // where the second block begins: a multiple of kPageWords
//
// Block by block in the order in which they are streamed, then what stays on the chip; each begins on a page of 4 KiB. In a block group by
// group of rows, in a group chunk by chunk of columns, in a chunk row by row (of the group's rows; the last may have fewer), in a row
// column by column. Columns of x behind the last input are zeros.
#pragma once

#include <cstdint>
#include <vector>

#include "fpga/recurrence/arithmetic/fixed_recurrent.h"
#include "fpga/sbe/engine_config.h"

namespace millrace {

inline constexpr int64_t kPageWords = 2048;

struct ImageBlock {
  int64_t first = 0;  // word
  int64_t words = 0;
  ColumnBlock columns;
};

struct WeightImage {
  std::vector<int16_t> words;
  std::vector<ImageBlock> blocks;  // those that are streamed
  ImageBlock pinned;               // no words: nothing is
};

// Fails with kUnavailable, naming what, on layers that the engine does not compute, and with kMismatch where sizes differ.
void check(const SbeConfig& config, const FixedRecurrent& layer);
inline GateMatrix matrix_of(const FixedRecurrent& layer) { return {layer.inputs, layer.hidden, layer.gates(), layer.projection}; }
WeightImage weight_image(const SbeConfig& config, const FixedRecurrent& layer);

// Rows of a group: the last may have fewer than lanes.
inline int64_t rows_of_group(const SbeConfig& config, int64_t group) {
  const int64_t left = config.shape.rows() - group * config.row_lanes;
  return left < config.row_lanes ? left : config.row_lanes;
}

}  // namespace millrace
