#include "fpga/conv_ce/shard_geometry.h"

#include <algorithm>
#include <variant>

#include "core/plan/flows.h"
#include "fpga/conv_ce/divided_up.h"

namespace millrace {

namespace {

struct Channels {
  ChannelRange inputs;
  ChannelRange outputs;
  int64_t pairs = 0;
};

// `inputs_per_output`: 0 where every output reads every input of its block.
Channels channels_of(std::span<const Block> blocks, const Block& whole, int64_t inputs_per_output) {
  Channels channels;
  const auto add = [&](const Block& block) {
    channels.inputs = hull(channels.inputs, block.inputs);
    channels.outputs = hull(channels.outputs, block.outputs);
    channels.pairs += block.outputs.size() * (inputs_per_output > 0 ? inputs_per_output : block.inputs.size());
  };
  if (blocks.empty()) add(whole);
  for (const Block& block : blocks) add(block);
  return channels;
}

void set_channels(ShardGeometry& shard, const Channels& channels) {
  shard.inputs = channels.inputs.size();
  shard.outputs = channels.outputs.size();
  shard.kernels = channels.pairs;
}

void convolution(ShardGeometry& shard, const Conv2d& conv, std::span<const Block> blocks) {
  const int64_t inputs_per_output = conv.groups > 1 ? shard.layer_inputs / conv.groups : 0;
  set_channels(shard, channels_of(blocks, {{0, shard.layer_inputs}, {0, shard.layer_outputs}}, inputs_per_output));
  shard.tile = conv.kernel_h * conv.kernel_w;
  shard.reach = conv.dilation_h * (conv.kernel_h - 1) + 1;
  shard.weights = shard.kernels * shard.tile;
  shard.forward = {shard.output.height, shard.kernels * shard.output.width};
  shard.error_back = shard.forward;
  if (shard.input.height != shard.output.height)
    shard.error_back = {shard.input.height, divided_up(shard.kernels * shard.output.plane(), shard.input.height)};
  shard.vectors = conv.bias ? shard.layer_outputs : 0;
}

void dense(ShardGeometry& shard, const Dense& layer, std::span<const Block> blocks) {
  set_channels(shard, channels_of(blocks, {{0, shard.layer_inputs}, {0, shard.layer_outputs}}, 0));
  shard.place = WeightPlace::kOffChip;
  shard.unit = shard.output.height == 1 ? StreamingUnit::kSample : StreamingUnit::kStep;
  shard.weights = shard.kernels;
  shard.forward = shard.error_back = {shard.output.height, shard.kernels};
  shard.vectors = layer.bias ? shard.layer_outputs : 0;
}

// Gate values, cell states and outputs of one direction, per hidden unit: what back-propagation through time reads.
int64_t kept_per_hidden_unit(CellKind cell) {
  switch (cell) {
    case CellKind::kLstm: return 6;  // four gates, c, h
    case CellKind::kGru: return 5;   // two gates, the candidate, its recurrent product, h
    case CellKind::kVanillaRelu:
    case CellKind::kVanillaTanh: return 1;  // h
  }
  return 1;
}

void recurrent(ShardGeometry& shard, const Recurrent& cell, const Node& node, std::span<const Block> blocks, bool owner) {
  set_channels(shard, channels_of(blocks, {{0, shard.layer_inputs}, {0, shard.layer_outputs}}, 0));
  const int64_t steps = shard.output.height;
  const int64_t all_weights = node.work.forward_macs / steps;
  const int64_t directions = cell.bidirectional ? 2 : 1;
  shard.place = WeightPlace::kStationary;
  shard.unit = StreamingUnit::kStep;
  if (owner) {
    shard.kernels += all_weights - shard.layer_inputs * shard.layer_outputs;
    shard.vectors = node.work.parameters - all_weights;
    shard.state = directions * (kept_per_hidden_unit(cell.cell) * cell.hidden + cell.projection);
  }
  shard.weights = shard.kernels;
  shard.forward = shard.error_back = {steps, shard.kernels};
}

void embedding(ShardGeometry& shard, const Embedding& table, std::span<const Block> blocks) {
  set_channels(shard, channels_of(blocks, {{0, 1}, {0, shard.layer_outputs}}, 0));
  shard.place = WeightPlace::kOffChip;
  shard.unit = StreamingUnit::kStep;
  shard.kernels = 0;
  shard.weights = table.vocabulary * shard.outputs;
  shard.forward = shard.error_back = {shard.output.height, 0};
}

}  // namespace

ShardGeometry geometry_of(const Node& node, std::span<const Block> blocks, bool owner) {
  ShardGeometry shard;
  shard.input = node.input_shapes[0];
  shard.output = sum_shape(node);
  shard.layer_inputs = shard.input.channels;
  shard.layer_outputs = shard.output.channels;
  shard.trained = node.trained;
  shard.error_comes = node.error_needed;
  const Operation& operation = node.layer.operation;
  if (const auto* conv = std::get_if<Conv2d>(&operation)) {
    convolution(shard, *conv, blocks);
  } else if (const auto* layer = std::get_if<Dense>(&operation)) {
    dense(shard, *layer, blocks);
  } else if (const auto* cell = std::get_if<Recurrent>(&operation)) {
    recurrent(shard, *cell, node, blocks, owner);
  } else if (const auto* table = std::get_if<Embedding>(&operation)) {
    embedding(shard, *table, blocks);
  } else {
    shard.inputs = shard.layer_inputs;
    shard.outputs = shard.layer_outputs;
    shard.forward = {shard.output.height, 0};
    shard.error_back = {shard.input.height, 0};
  }
  if (!owner) shard.vectors = 0;
  return shard;
}

}  // namespace millrace
