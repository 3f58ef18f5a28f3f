// One buffer of a shard, and what it is built of.
//
//   const Buffer line = row_buffer({.channels = 40, .layer_channels = 512, .width = 28, .rows = 3}, 16);
//   bram_bits += line.block_bits;
//   luts += line.luts;
//
// A buffer of rows keeps sixteen channels side by side, so that a word of any channel group can be read in one cycle, and
// its depth is channel groups times the width of a row. A buffer no deeper than kLutramDepth sits in LUTRAM, the rest in
// block RAM. What decides is the LAYER's geometry, never the shard's: a larger shard must not need less of anything.
// In LUTRAM a buffer therefore takes what the whole layer takes, which sixteen channels of 64 words bound.
#pragma once

#include <cstdint>

namespace millrace {

inline constexpr int64_t kLanes = 16;  // channels side by side

struct Buffer {
  double bits = 0;        // what it holds
  double block_bits = 0;  // of these in block RAM
  double luts = 0;        // for those in LUTRAM

  Buffer& operator+=(const Buffer& other) {
    bits += other.bits;
    block_bits += other.block_bits;
    luts += other.luts;
    return *this;
  }
};

struct RowExtent {
  int64_t channels = 0;        // of the shard
  int64_t layer_channels = 0;  // of the layer
  int64_t width = 1;           // elements of a row of one channel
  int64_t rows = 1;
};

Buffer row_buffer(const RowExtent& extent, int64_t element_bits);
// `count` numbers per channel of the layer: biases, scales, their gradients.
Buffer vector_buffer(int64_t layer_channels, double count, int64_t element_bits);
// One row of `columns` accumulators side by side.
Buffer accumulator_buffer(int64_t columns, int64_t width, int64_t bits);

}  // namespace millrace
