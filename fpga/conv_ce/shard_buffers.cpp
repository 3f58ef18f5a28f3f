#include "fpga/conv_ce/shard_buffers.h"

#include <algorithm>
#include <cmath>

#include "fpga/conv_ce/engine_timing.h"

namespace millrace {

namespace {

constexpr int64_t kStreamWord = 512;
constexpr int64_t kStreamDepth = 64;

// In block RAM, to a whole bit.
Buffer block(double bits) {
  const double whole = std::ceil(bits);
  return {whole, whole, 0};
}

// Rows of the input that are held: until PG has read them, and no fewer than FP needs.
double rows_held(const ShardGeometry& shard, double lifetime) {
  const auto height = static_cast<double>(shard.input.height);
  const auto needed = static_cast<double>(std::min(shard.reach, shard.input.height));
  if (!shard.error_comes) return needed;
  // Back-propagation through time begins when the last step is done.
  if (shard.place == WeightPlace::kStationary) return std::max(1.0, lifetime) * height;
  return std::max(needed, lifetime * height);
}

}  // namespace

Buffer ShardBuffers::fixed() const {
  Buffer sum = act_ram;
  sum += error_line;
  sum += partial;
  sum += accumulators;
  sum += state;
  sum += kept;
  sum += lines;
  sum += vectors;
  sum += weight_stream;
  sum += stationary;
  return sum;
}

double lifetime_after_sum(const ShardGeometry& shard, double lifetime) {
  return std::max(0.0, lifetime - static_cast<double>(shard.reach - 1) / static_cast<double>(shard.input.height));
}

ShardBuffers shard_buffers(const ShardGeometry& shard, const BufferSettings& settings, const SpecialFunctionUse& after) {
  const int64_t bits = settings.element_bits;
  ShardBuffers buffers;
  // A table's words, too, are held until their errors come.
  const auto row_bits = static_cast<double>(shard.inputs * shard.input.width * bits);
  if (shard.has_engine() || shard.trained) buffers.act_ram = block(row_bits * rows_held(shard, settings.lifetime));
  if (shard.has_engine()) {
    const RowExtent output_row{shard.outputs, shard.layer_outputs, shard.output.width, 1};
    buffers.partial = row_buffer(output_row, bits);
    buffers.accumulators =
        accumulator_buffer(channels_side_by_side(settings.forward_tiles, shard.layer_inputs), shard.output.width, 2 * bits);
    if (shard.error_comes) {
      RowExtent error_rows = output_row;
      error_rows.rows = std::min(shard.reach, shard.output.height);
      buffers.error_line = row_buffer(error_rows, bits);
      buffers.accumulators +=
          accumulator_buffer(channels_side_by_side(settings.error_back_tiles, shard.layer_outputs), shard.input.width, 2 * bits);
      buffers.state = block(static_cast<double>(shard.state * shard.output.height * bits) * std::max(1.0, settings.lifetime));
    }
  }
  const auto weight_bits = static_cast<double>(shard.weights * bits) * settings.copies;
  switch (shard.place) {
    case WeightPlace::kOnChip: buffers.parameter_bits = weight_bits; break;
    case WeightPlace::kStationary: buffers.stationary = block(weight_bits); break;
    case WeightPlace::kOffChip:
      buffers.off_chip_bytes = weight_bits / 8;
      for (int phase = 0; phase < 1 + (shard.error_comes ? 1 : 0) + (shard.trained ? 1 : 0); ++phase)
        buffers.weight_stream += accumulator_buffer(kStreamWord, kStreamDepth, 1);
      if (settings.gradient_samples > 1)
        buffers.weight_stream += block(static_cast<double>(2 * settings.gradient_samples * bits) *
                                       static_cast<double>(shard.inputs * shard.input.plane() + shard.outputs * shard.output.plane()));
      break;
  }
  if (settings.owner) {
    if (shard.vectors > 0)
      buffers.vectors = vector_buffer(
          shard.layer_outputs, static_cast<double>(shard.vectors) / static_cast<double>(shard.layer_outputs) * settings.copies, bits);
    buffers.vectors += after.vectors;
    buffers.lines = after.lines;
    if (after.kept_bits > 0) buffers.kept = block(after.kept_bits);
  }
  return buffers;
}

}  // namespace millrace
