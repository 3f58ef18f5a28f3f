#include "core/device/shard_extent.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/graph/recurrent_memory.h"

namespace millrace {

namespace {

// What the blocks take of a layer, as shares of the whole.
struct Shares {
  double inputs = 1;
  double outputs = 1;
  double products = 1;  // pairs of an input and an output
};

int64_t size_of_union(std::span<const Block> blocks) {
  std::array<ChannelRange, 8> ranges;
  MILLRACE_CHECK(blocks.size() <= ranges.size(), "a shard of {} blocks", blocks.size());
  std::transform(blocks.begin(), blocks.end(), ranges.begin(), [](const Block& block) { return block.outputs; });
  const auto end = ranges.begin() + static_cast<std::ptrdiff_t>(blocks.size());
  std::sort(ranges.begin(), end, [](const ChannelRange& a, const ChannelRange& b) { return a.begin < b.begin; });
  int64_t size = 0;
  int64_t counted_to = 0;
  for (auto range = ranges.begin(); range != end; ++range) {
    size += std::max<int64_t>(0, range->end - std::max(range->begin, counted_to));
    counted_to = std::max(counted_to, range->end);
  }
  return size;
}

Shares shares_of(const Node& node, std::span<const Block> blocks) {
  if (!node.computes || blocks.empty()) return {};
  const double input_channels = static_cast<double>(node.input_shapes[0].channels);
  // Blocks count the sums' channels: of a recurrent layer those of all gates.
  const double output_channels = static_cast<double>(sum_channels_of(node.layer.operation, node.output));
  const bool grouped = traits_of(node.layer.operation).channel_groups > 1;
  Shares shares{0, 0, 0};
  ChannelRange inputs;
  for (const Block& block : blocks) {
    const double input_share = static_cast<double>(block.inputs.size()) / input_channels;
    const double output_share = static_cast<double>(block.outputs.size()) / output_channels;
    // The blocks of a grouped convolution are whole groups: their inputs follow from their outputs.
    shares.products += grouped ? output_share : input_share * output_share;
    inputs = hull(inputs, block.inputs);
  }
  shares.inputs = static_cast<double>(inputs.size()) / input_channels;
  shares.outputs = static_cast<double>(size_of_union(blocks)) / output_channels;
  return shares;
}

ShardExtent extent_of_recurrent(const Node& node, const Shares& shares, bool owner) {
  const double steps = static_cast<double>(node.output.height);
  double input_weights = 0;
  double state_weights = 0;
  double biases = 0;
  double gates = 0;  // of one step
  double directions = 0;
  for (const ParameterSpec& parameter : node.parameters) {
    const double elements = static_cast<double>(parameter.elements());
    if (parameter.tensor.starts_with("weight_ih")) {
      input_weights += elements;
      gates += static_cast<double>(parameter.dimensions[0]);
      directions += 1;
    } else if (parameter.tensor.starts_with("weight")) {
      state_weights += elements;
    } else {
      biases += elements;
    }
  }
  ShardExtent extent;
  extent.inputs = static_cast<double>(node.work.input_elements) * shares.inputs;
  extent.outputs = gates * steps * shares.outputs;
  extent.weights = input_weights * shares.products;
  extent.macs = extent.weights * steps;
  if (!owner) return extent;
  extent.steps = steps * directions;
  extent.state_weights = state_weights;
  extent.state_macs = state_weights * steps;
  extent.gates = gates * steps;
  extent.states = static_cast<double>(node.work.output_elements);
  extent.kept = static_cast<double>(kept_elements(node));
  extent.biases = biases;
  return extent;
}

}  // namespace

ShardExtent shard_extent_of(const ShardQuestion& question) {
  MILLRACE_CHECK(question.node != nullptr, "a cost is asked for without a layer");
  const Node& node = *question.node;
  const Shares shares = shares_of(node, question.blocks);
  if (role_of(node.layer.operation) == Role::kRecurrence) return extent_of_recurrent(node, shares, question.owner);
  ShardExtent extent;
  extent.inputs = static_cast<double>(node.work.input_elements) * shares.inputs;
  extent.outputs = static_cast<double>(node.work.output_elements) * shares.outputs;
  extent.weights = static_cast<double>(node.work.parameters) * shares.products;
  extent.macs = static_cast<double>(node.work.forward_macs) * shares.products;
  return extent;
}

}  // namespace millrace
