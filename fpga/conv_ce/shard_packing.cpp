#include "fpga/conv_ce/shard_packing.h"

#include <algorithm>
#include <cmath>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/engine_timing.h"

namespace millrace {

namespace {

// So many bits in words of a given width, over so many banks.
MemoryShape shaped(double bits, int64_t width, int64_t banks) {
  const double words = std::ceil(bits / static_cast<double>(width * banks));
  return {width, static_cast<int64_t>(words), banks};
}

}  // namespace

PackedShard packed_shard(const ShardGeometry& shard, const ShardBuffers& buffers, const BufferSettings& settings,
                         const BlockInventory& board) {
  const int64_t bits = settings.element_bits;
  // Channels that a cycle reads side by side.
  const int64_t inputs = std::max<int64_t>(channels_side_by_side(settings.forward_tiles, shard.layer_outputs), 1);
  const int64_t outputs = std::max<int64_t>(channels_side_by_side(settings.error_back_tiles, shard.layer_inputs), 1);
  PackedShard packed;
  const auto add = [&](const Buffer& buffer, int64_t width, int64_t banks) {
    packed.fixed.add(shaped(buffer.block_bits, width, banks), board);
  };
  add(buffers.act_ram, inputs * bits, std::min(shard.reach, shard.input.height));
  add(buffers.error_line, outputs * bits, std::min(shard.reach, shard.output.height));
  add(buffers.accumulators, outputs * 2 * bits, 1);
  for (const Buffer* buffer : {&buffers.partial, &buffers.state, &buffers.kept, &buffers.lines, &buffers.vectors, &buffers.weight_stream})
    add(*buffer, kLanes * bits, 1);

  if (shard.place == WeightPlace::kOffChip || shard.kernels == 0) return packed;
  const int64_t width = std::max<int64_t>(shard.output.width, 1);
  const int64_t tiles = std::max<int64_t>({settings.forward_tiles, settings.error_back_tiles, 1});
  const int64_t side_by_side = std::min(divided_up(tiles, width), shard.kernels);
  const MemoryShape weights{side_by_side * shard.tile * bits, divided_up(shard.kernels, side_by_side), 1};
  PackedBlocks& place = shard.place == WeightPlace::kStationary ? packed.fixed : packed.parameters;
  for (int copy = 0; copy < settings.copies; ++copy) place.add(weights, board);
  return packed;
}

}  // namespace millrace
