#include "fpga/common/cost/buffer.h"

#include <algorithm>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/bram_packing.h"

namespace millrace {

namespace {

Buffer placed(double bits, int64_t depth, double columns) {
  if (depth <= kLutramDepth) return {bits, 0, bits > 0 ? lutram_luts(depth, columns) : 0};
  return {bits, bits, 0};
}

int64_t channel_groups(int64_t channels) { return divided_up(channels, kLanes); }

}  // namespace

Buffer row_buffer(const RowExtent& extent, int64_t element_bits) {
  const double word = static_cast<double>(element_bits * extent.rows);
  const double bits = static_cast<double>(extent.channels * extent.width) * word;
  return placed(bits, channel_groups(extent.layer_channels) * extent.width,
                word * static_cast<double>(std::min(extent.layer_channels, kLanes)));
}

Buffer vector_buffer(int64_t layer_channels, double count, int64_t element_bits) {
  const double word = count * static_cast<double>(element_bits);
  return placed(word * static_cast<double>(layer_channels), channel_groups(layer_channels),
                word * static_cast<double>(std::min(layer_channels, kLanes)));
}

Buffer accumulator_buffer(int64_t columns, int64_t width, int64_t bits) {
  const double word = static_cast<double>(columns * bits);
  return placed(word * static_cast<double>(width), width, word);
}

}  // namespace millrace
