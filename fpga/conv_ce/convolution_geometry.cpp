#include "fpga/conv_ce/convolution_geometry.h"

#include <variant>

#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

namespace {

void convolution(ShardGeometry& shard, const Conv2d& conv, std::span<const Block> blocks) {
  set_channels(shard, blocks, conv.groups > 1 ? shard.layer_inputs / conv.groups : 0);
  shard.tile = conv.kernel_h * conv.kernel_w;
  shard.reach = conv.rows().reach();
  shard.weights = shard.kernels * shard.tile;
  shard.forward = {shard.output.height, shard.kernels * shard.output.width};
  shard.error_back = shard.forward;
  if (shard.input.height != shard.output.height)
    shard.error_back = {shard.input.height, divided_up(shard.kernels * shard.output.plane(), shard.input.height)};
  shard.vectors = conv.bias ? shard.layer_outputs : 0;
}

void dense(ShardGeometry& shard, const Dense& layer, std::span<const Block> blocks) {
  set_channels(shard, blocks, 0);
  shard.place = WeightPlace::kOffChip;
  shard.unit = shard.output.height == 1 ? StreamingUnit::kSample : StreamingUnit::kStep;
  shard.weights = shard.kernels;
  shard.forward = shard.error_back = {shard.output.height, shard.kernels};
  shard.vectors = layer.bias ? shard.layer_outputs : 0;
}

void embedding(ShardGeometry& shard, const Embedding& table, std::span<const Block> blocks) {
  set_channels(shard, blocks, 0);
  if (blocks.empty()) shard.inputs = 1;  // the number of a row
  shard.place = WeightPlace::kOffChip;
  shard.unit = StreamingUnit::kStep;
  shard.kernels = 0;
  shard.weights = table.vocabulary * shard.outputs;
  shard.forward = shard.error_back = {shard.output.height, 0};
}

struct ByOperation {
  ShardGeometry& shard;
  std::span<const Block> blocks;

  void operator()(const Conv2d& conv) const { convolution(shard, conv, blocks); }
  void operator()(const Dense& layer) const { dense(shard, layer, blocks); }
  void operator()(const Embedding& table) const { embedding(shard, table, blocks); }
  void operator()(const Recurrent&) const {}  // another engine's
  // What does not compute is there for what follows it.
  template <typename Other>
  requires(!computes(Other::kRole)) void operator()(const Other&) const {}
};

}  // namespace

ShardGeometry convolution_geometry(const Node& node, std::span<const Block> blocks, bool owner) {
  ShardGeometry shard = geometry_without_engine(node);
  std::visit(ByOperation{shard, blocks}, node.layer.operation);
  if (!owner) shard.vectors = 0;
  return shard;
}

}  // namespace millrace
