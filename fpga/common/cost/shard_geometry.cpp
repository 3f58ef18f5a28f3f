#include "fpga/common/cost/shard_geometry.h"

#include "core/plan/flows.h"

namespace millrace {

ShardGeometry geometry_without_engine(const Node& node) {
  ShardGeometry shard;
  shard.input = node.input_shapes[0];
  shard.output = sum_shape(node);
  shard.layer_inputs = shard.inputs = shard.input.channels;
  shard.layer_outputs = shard.outputs = shard.output.channels;
  shard.trained = node.trained;
  shard.error_comes = node.error_needed;
  shard.forward = {shard.output.height, 0};
  shard.error_back = {shard.input.height, 0};
  return shard;
}

void set_channels(ShardGeometry& shard, std::span<const Block> blocks, int64_t inputs_per_output) {
  ChannelRange inputs, outputs;
  shard.kernels = 0;
  const auto add = [&](const Block& block) {
    inputs = hull(inputs, block.inputs);
    outputs = hull(outputs, block.outputs);
    shard.kernels += block.outputs.size() * (inputs_per_output > 0 ? inputs_per_output : block.inputs.size());
  };
  if (blocks.empty()) add({{0, shard.layer_inputs}, {0, shard.layer_outputs}});
  for (const Block& block : blocks) add(block);
  shard.inputs = inputs.size();
  shard.outputs = outputs.size();
}

}  // namespace millrace
