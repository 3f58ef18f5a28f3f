#include "partitioner/hybrid/chain.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace {
namespace {

// Below so many channels of the image there is too little to share out by input channels.
constexpr int64_t kFewInputChannels = 16;

bool reads_the_image(const Node& node) { return node.inputs.front() == kNetworkInput; }

}  // namespace

Chain::Chain(const Graph& graph) : graph_(&graph) {
  int64_t begin = 0;
  for (size_t g = 0; g < graph.groups().size(); ++g) {
    const LayerGroup& group = graph.groups()[g];
    Part part;
    part.head = &graph.node(group.head);
    for (const int64_t node : group.after) part.after.push_back(&graph.node(node));
    part.extent = millrace::extent_of(graph, static_cast<int64_t>(g));
    part.begin = begin;
    if (part.head->divides) {
      if (part.extent.conv_groups > 1) {
        part.split = Split::kOutputChannels;
        part.units = part.extent.conv_groups;
        part.outputs_per_unit = part.extent.outputs / part.extent.conv_groups;
      } else if (reads_the_image(*part.head) && part.extent.inputs < kFewInputChannels) {
        part.split = Split::kOutputChannels;
        part.units = part.extent.outputs;
      } else {
        part.units = part.extent.inputs * part.extent.outputs;
      }
    }
    begin += part.units;
    parts_.push_back(std::move(part));
  }
  MILLRACE_CHECK(!parts_.empty(), "a model without layers has no chain");
}

int64_t Chain::group_at(int64_t position) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), position, [](int64_t p, const Part& part) { return p < part.begin; });
  return after - parts_.begin() - 1;
}

std::vector<Split> Chain::splits() const {
  std::vector<Split> splits;
  for (const Part& part : parts_) splits.push_back(part.split);
  return splits;
}

CutPlace Chain::place_in(const Part& part, int64_t units) const {
  if (units == part.units) return millrace::end_of(part.extent, part.split);
  if (part.extent.conv_groups > 1) return {units * part.outputs_per_unit, 0};
  if (part.split == Split::kOutputChannels) return {units, 0};
  return {units / part.extent.outputs, units % part.extent.outputs};
}

Cut Chain::cut_at(int64_t position) const {
  if (position == end()) return {groups(), 0, 0};
  const int64_t group = group_at(position);
  const CutPlace place = place_in(part(group), position - part(group).begin);
  return {group, place.channel, place.outputs};
}

int64_t Chain::position_of(const Cut& cut) const {
  if (cut == Cut{groups(), 0, 0}) return end();
  MILLRACE_CHECK(cut.group >= 0 && cut.group < groups(), "a cut outside the chain");
  const Part& here = part(cut.group);
  const std::string& layer = here.head->layer.name;
  if (cut.channel == 0 && cut.outputs == 0) return here.begin;
  if (here.units == 1) fail(ErrorCode::kUsage, "layer \"{}\" stays whole on one device; cut before or after it", layer);
  const bool by_output = here.split == Split::kOutputChannels;
  const int64_t channels = by_output ? here.extent.outputs : here.extent.inputs;
  if (cut.channel < 0 || cut.channel >= channels)
    fail(ErrorCode::kUsage, "layer \"{}\" is cut by its {} {} channels; channel {} is not one of them", layer, channels,
         by_output ? "output" : "input", cut.channel);
  if (by_output) {
    if (cut.outputs != 0) fail(ErrorCode::kUsage, "layer \"{}\" is cut by output channels: give outputs as 0", layer);
    if (here.extent.conv_groups == 1) return here.begin + cut.channel;
    if (cut.channel % here.outputs_per_unit != 0)
      fail(ErrorCode::kUsage, "layer \"{}\" is a grouped convolution: cut at a multiple of {} channels", layer, here.outputs_per_unit);
    return here.begin + cut.channel / here.outputs_per_unit;
  }
  if (cut.outputs < 0 || cut.outputs >= here.extent.outputs)
    fail(ErrorCode::kUsage, "layer \"{}\" has {} outputs; the boundary channel cannot be cut at {}", layer, here.extent.outputs,
         cut.outputs);
  return here.begin + cut.channel * here.extent.outputs + cut.outputs;
}

BlockList Chain::blocks(int64_t group, int64_t from, int64_t to) const {
  const Part& here = part(group);
  return blocks_between(here.extent, here.split, place_in(here, from - here.begin), place_in(here, to - here.begin));
}

int64_t Chain::channel_end_before(int64_t position) const {
  if (position <= 0) return -1;
  const int64_t group = group_at(position - 1), begin = begin_of(group), of_channel = units_of_channel(group);
  return begin + (position - 1 - begin) / of_channel * of_channel;
}

PositionSet Chain::places_inside(int64_t group, int64_t quantum) const {
  const Part& here = part(group);
  if (here.units == 1) return {};
  int64_t step = quantum;  // units between places
  if (here.extent.conv_groups > 1) {
    step = std::max<int64_t>(1, (quantum + here.outputs_per_unit - 1) / here.outputs_per_unit);
  } else if (here.split == Split::kInputChannels && quantum > 1) {
    step = quantum * here.extent.outputs;
  }
  if (step >= here.units) return {};
  const int64_t last = (here.units - 1) / step * step;
  return {{here.begin + step, here.begin + last, step}};
}

}  // namespace millrace
