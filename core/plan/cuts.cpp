#include "core/plan/cuts.h"

#include "core/base/index.h"
#include "core/plan/flows.h"

namespace millrace {

LayerExtent extent_of(const Graph& graph, int64_t group) {
  const Node& node = graph.node(item(graph.groups(), group).head);
  return {node.input_shapes[0].channels, sum_shape(node).channels, traits_of(node.layer.operation).channel_groups};
}

CutPlace end_of(const LayerExtent& extent, Split split) {
  const bool by_output = split == Split::kOutputChannels || extent.conv_groups > 1;
  return {by_output ? extent.outputs : extent.inputs, 0};
}

BlockList blocks_between(const LayerExtent& extent, Split split, CutPlace begin, CutPlace end) {
  BlockList blocks;
  if (extent.conv_groups > 1) {
    const int64_t out = extent.outputs / extent.conv_groups;
    const int64_t in = extent.inputs / extent.conv_groups;
    blocks.push_back({{begin.channel / out * in, end.channel / out * in}, {begin.channel, end.channel}});
    return blocks;
  }
  if (split == Split::kOutputChannels) {
    blocks.push_back({{0, extent.inputs}, {begin.channel, end.channel}});
    return blocks;
  }
  if (begin.channel == end.channel) {
    blocks.push_back({{begin.channel, begin.channel + 1}, {begin.outputs, end.outputs}});
    return blocks;
  }
  if (begin.outputs > 0) blocks.push_back({{begin.channel, begin.channel + 1}, {begin.outputs, extent.outputs}});
  const int64_t whole = begin.outputs > 0 ? begin.channel + 1 : begin.channel;
  if (whole < end.channel) blocks.push_back({{whole, end.channel}, {0, extent.outputs}});
  if (end.outputs > 0) blocks.push_back({{end.channel, end.channel + 1}, {0, end.outputs}});
  return blocks;
}

}  // namespace millrace
