#include "core/plan/assemble.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/schedule.h"

namespace millrace {
namespace {

int64_t bits_per_second(double gbps) { return static_cast<int64_t>(std::llround(gbps * 1e9)); }

std::vector<Group> groups_of(const Plan& plan, const Graph& graph) {
  std::vector<Group> groups;
  for (const LayerGroup& layers : graph.groups()) {
    Group group;
    group.layer = graph.node(layers.head).layer.name;
    for (size_t i = 0; i < plan.shards.size(); ++i)
      if (plan.shards[i].layer == group.layer) group.shards.push_back(static_cast<int64_t>(i));
    if (group.shards.empty()) fail(ErrorCode::kMalformed, "layer \"{}\" is computed by no device", group.layer);
    group.split = split_of(plan, graph, group);
    for (const int64_t node : layers.after) group.after.push_back(graph.node(node).layer.name);
    groups.push_back(std::move(group));
  }
  return groups;
}

// Devices that share steps take every action together.
void join_windows(Plan& plan, const Graph& graph) {
  for (const Group& group : plan.groups) {
    if (!shares_steps(plan, graph, group)) continue;
    const auto device = [&](size_t place) { return to_size(item(plan.shards, group.shards[place]).device); };
    const size_t last = device(makers_of(plan, group) - 1);
    for (size_t d = device(first_steps_of(plan, group)); d < last; ++d) plan.windows[d] = plan.windows[last];
  }
}

// One home per parameter slice: what the request moves elsewhere, and the user itself for the rest.
class HomeList {
 public:
  HomeList(const std::vector<ParameterHome>& remote) : remote_(remote) {}

  void cover(const std::string& layer, const std::string& tensor, int64_t elements, int64_t user) {
    std::vector<ParameterHome> slices;
    for (const ParameterHome& home : remote_)
      if (home.layer == layer && home.tensor == tensor && home.user == user) slices.push_back(home);
    std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    int64_t covered = 0;
    for (const ParameterHome& slice : slices) {
      if (slice.offset < covered || slice.offset + slice.count > elements)
        fail(ErrorCode::kMalformed, "home of {}.{} on device {}: [{}, {}) overlaps another or passes the shard's {} elements", layer,
             tensor, user, slice.offset, slice.offset + slice.count, elements);
      local(layer, tensor, covered, slice.offset, user);
      homes_.push_back(slice);
      covered = slice.offset + slice.count;
      ++used_;
    }
    local(layer, tensor, covered, elements, user);
  }

  std::vector<ParameterHome> take() {
    if (used_ != remote_.size())
      fail(ErrorCode::kMalformed, "{} of {} remote homes name a layer, tensor and user that the plan does not have", remote_.size() - used_,
           remote_.size());
    return std::move(homes_);
  }

 private:
  void local(const std::string& layer, const std::string& tensor, int64_t begin, int64_t end, int64_t user) {
    if (end > begin) homes_.push_back({layer, tensor, begin, end - begin, user, user});
  }

  const std::vector<ParameterHome>& remote_;
  std::vector<ParameterHome> homes_;
  size_t used_ = 0;
};

std::vector<ParameterHome> homes_of(const Plan& plan, const Graph& graph, const std::vector<ParameterHome>& remote) {
  HomeList list(remote);
  const Placement placement(plan, graph);
  for (size_t index = 0; index < graph.nodes().size(); ++index) {
    const Node& node = graph.nodes()[index];
    for (size_t p = 0; p < node.parameters.size(); ++p) {
      const ParameterSpec& parameter = node.parameters[p];
      if (!parameter.trained) continue;
      for (const ParameterUse& use : uses_of(placement, static_cast<int64_t>(index), p))
        list.cover(node.layer.name, parameter.tensor, use.elements, use.device);
    }
  }
  return list.take();
}

}  // namespace

std::vector<Link> links_of(const Cluster& cluster) {
  std::vector<Link> links;
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    const LinkEntry& entry = cluster.links[i];
    Link link;
    link.from = static_cast<int64_t>(i);
    link.to = link.from + 1;
    link.forward_bits_per_second = bits_per_second(entry.forward_gbps);
    link.backward_bits_per_second = bits_per_second(entry.backward_gbps);
    link.shared_bits_per_second = bits_per_second(entry.shared_gbps);
    link.latency_picoseconds = static_cast<int64_t>(std::llround(entry.latency_us * 1e6));
    links.push_back(link);
  }
  return links;
}

Plan assemble_plan(const Graph& graph, const PlanRequest& request, std::vector<Shard> shards) {
  Plan plan;
  plan.model = graph.model();
  plan.model_digest = digest_of(text_of(plan.model));
  plan.cluster = request.cluster;
  plan.cluster_digest = digest_of(text_of(plan.cluster));
  plan.optimizer = request.optimizer;
  plan.arithmetic = request.arithmetic;
  plan.alignment = request.alignment;
  plan.mini_batch = request.mini_batch;
  plan.micro_batch = request.micro_batch;
  plan.time_chunks = request.time_chunks;
  if (request.micro_batch < 1 || request.mini_batch < request.micro_batch || request.mini_batch % request.micro_batch != 0)
    fail(ErrorCode::kUsage, "mini-batch {} is not a multiple of micro-batch {}; choose sizes that divide", request.mini_batch,
         request.micro_batch);
  plan.links = links_of(request.cluster);
  plan.windows = request.windows.empty() ? default_windows(plan.devices(), plan.alignment, plan.micro_batches()) : request.windows;
  plan.shards = std::move(shards);
  plan.groups = groups_of(plan, graph);
  if (request.windows.empty()) join_windows(plan, graph);
  plan.homes = homes_of(plan, graph, request.remote_homes);
  plan.flows = flows_of(plan, graph);
  return plan;
}

Plan single_device_plan(const Graph& graph, const PlanRequest& request) {
  if (request.cluster.devices.size() != 1)
    fail(ErrorCode::kUsage, "a single-device plan needs a cluster of one device, not {}", request.cluster.devices.size());
  return assemble_plan(graph, request, shards_from_cuts(graph, {}, {}));
}

namespace {

void check_cut(const Graph& graph, const Cut& cut, const LayerExtent& extent, Split split) {
  const Node& head = graph.node(item(graph.groups(), cut.group).head);
  const std::string& layer = head.layer.name;
  if (!head.computes && cut != Cut{cut.group, 0, 0})
    fail(ErrorCode::kUsage, "cut at channel {} falls inside layer \"{}\", which has no weights and is never divided", cut.channel, layer);
  const bool by_output = split == Split::kOutputChannels || extent.conv_groups > 1;
  const int64_t channels = by_output ? extent.outputs : extent.inputs;
  if (cut.channel < 0 || cut.channel >= channels || cut.outputs < 0 || cut.outputs >= extent.outputs || (by_output && cut.outputs != 0))
    fail(ErrorCode::kUsage, "cut at channel {} (+{} outputs) does not fall inside layer \"{}\" ({} inputs, {} outputs)", cut.channel,
         cut.outputs, layer, extent.inputs, extent.outputs);
  if (extent.conv_groups > 1 && cut.channel % (extent.outputs / extent.conv_groups) != 0)
    fail(ErrorCode::kUsage, "cut at channel {} falls inside a group of the grouped convolution \"{}\"; cut at a multiple of {}",
         cut.channel, layer, extent.outputs / extent.conv_groups);
}

}  // namespace

std::vector<Shard> shards_from_cuts(const Graph& graph, std::span<const Cut> cuts, std::span<const Split> splits) {
  MILLRACE_CHECK(std::is_sorted(cuts.begin(), cuts.end()), "cuts must ascend");
  const auto groups = static_cast<int64_t>(graph.groups().size());
  for (const Cut& cut : cuts)
    if (cut.group < 0 || cut.group > groups || (cut.group == groups && cut != Cut{groups, 0, 0}))
      fail(ErrorCode::kUsage, "cut in group {} at channel {}: the model has groups 0 to {}, and {} ends it", cut.group, cut.channel,
           groups - 1, groups);
  std::vector<Shard> shards;
  for (size_t device = 0; device <= cuts.size(); ++device) {
    const Cut begin = device == 0 ? Cut{} : cuts[device - 1];
    const Cut end = device == cuts.size() ? Cut{groups, 0, 0} : cuts[device];
    for (int64_t g = begin.group; g <= std::min(end.group, groups - 1); ++g) {
      const LayerExtent extent = extent_of(graph, g);
      const Split split = g < std::ssize(splits) ? item(splits, g) : Split::kInputChannels;
      CutPlace from;
      CutPlace to = end_of(extent, split);
      if (g == begin.group && begin != Cut{g, 0, 0}) {
        check_cut(graph, begin, extent, split);
        from = {begin.channel, begin.outputs};
      }
      if (g == end.group) {
        check_cut(graph, end, extent, split);
        to = {end.channel, end.outputs};
      }
      if (from >= to) continue;
      Shard shard;
      shard.device = static_cast<int64_t>(device);
      shard.layer = graph.node(item(graph.groups(), g).head).layer.name;
      const BlockList blocks = blocks_between(extent, split, from, to);
      shard.blocks.assign(blocks.begin(), blocks.end());
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

}  // namespace millrace
