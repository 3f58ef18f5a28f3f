#include "core/plan/placement.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

size_t makers_of(const Plan& plan, const Group& group) {
  const size_t shards = group.shards.size();
  return shards > 1 && item(plan.shards, group.shards.back()).after ? shards - 1 : shards;
}

Placement::Placement(const Plan& plan, const Graph& graph) : plan_(&plan), graph_(&graph), channels_(plan.groups.size()) {
  if (plan.groups.size() != graph.groups().size())
    fail(ErrorCode::kMalformed, "the plan has {} groups, the model {}: they do not belong together; plan again", plan.groups.size(),
         graph.groups().size());
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    const std::string& head = graph.node(graph.groups()[g].head).layer.name;
    if (group.layer != head)
      fail(ErrorCode::kMalformed, "groups[{}].layer is \"{}\", the model's order asks for \"{}\"", g, group.layer, head);
    if (group.shards.empty()) fail(ErrorCode::kMalformed, "groups[{}] (layer \"{}\") has no shard", g, group.layer);
    for (const int64_t shard : group.shards) {
      if (shard < 0 || shard >= static_cast<int64_t>(plan.shards.size()))
        fail(ErrorCode::kMalformed, "groups[{}] (layer \"{}\") names shard {}, the plan has {}", g, group.layer, shard, plan.shards.size());
      if (item(plan.shards, shard).layer != group.layer)
        fail(ErrorCode::kMalformed, "groups[{}] (layer \"{}\") names shard {}, which belongs to layer \"{}\"", g, group.layer, shard,
             item(plan.shards, shard).layer);
      pieces_.push_back({static_cast<int64_t>(g), shard});
    }
    std::vector<Channels>& channels = channels_[g];
    channels.resize(group.shards.size());
    for (size_t i = 0; i < channels.size(); ++i) {
      if (i > 0) channels[i].outputs_until = channels[i - 1].outputs_until;
      for (const Block& block : item(plan.shards, group.shards[i]).blocks)
        channels[i].outputs_until = hull(channels[i].outputs_until, block.outputs);
    }
    for (size_t i = channels.size(); i-- > 0;) {
      if (i + 1 < channels.size()) channels[i].inputs_from = channels[i + 1].inputs_from;
      for (const Block& block : item(plan.shards, group.shards[i]).blocks)
        channels[i].inputs_from = hull(channels[i].inputs_from, block.inputs);
    }
  }
  std::stable_sort(pieces_.begin(), pieces_.end(), [&](const Piece& a, const Piece& b) { return device_of(a) < device_of(b); });
}

const Group& Placement::group_of(int64_t node) const { return item(plan_->groups, graph_->node(node).group); }

int64_t Placement::owner_of(int64_t node) const {
  if (node == kNetworkInput) return 0;
  const int64_t group = graph_->node(node).group;
  if (item(graph_->groups(), group).head == node) return last_device_of_group(group);
  return item(plan_->shards, item(plan_->groups, group).shards.back()).device;
}

int64_t Placement::first_device_of_group(int64_t group) const {
  return item(plan_->shards, item(plan_->groups, group).shards.front()).device;
}

int64_t Placement::last_device_of_group(int64_t group) const {
  const Group& of = item(plan_->groups, group);
  return item(plan_->shards, of.shards[makers_of(*plan_, of) - 1]).device;
}

size_t Placement::shards_before(const Group& group, int64_t device) const {
  const auto before = [&](int64_t shard) { return item(plan_->shards, shard).device < device; };
  return to_size(std::partition_point(group.shards.begin(), group.shards.end(), before) - group.shards.begin());
}

int64_t Placement::shard_on(int64_t index, int64_t device) const {
  const Group& group = item(plan_->groups, index);
  const size_t place = shards_before(group, device);
  if (place == group.shards.size() || item(plan_->shards, group.shards[place]).device != device) return -1;
  return group.shards[place];
}

std::span<const Placement::Piece> Placement::on(int64_t device) const {
  const auto begin = std::partition_point(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return device_of(piece) < device; });
  auto end = begin;
  while (end != pieces_.end() && device_of(*end) == device) ++end;
  return {begin, end};
}

ChannelRange Placement::needed_from(int64_t node, int64_t device) const {
  ChannelRange needed;
  const ChannelRange all{0, graph_->shape_of(node).channels};
  const auto use = [&](int64_t consumer) {
    const Node& user = graph_->node(consumer);
    if (owner_of(consumer) < device) return;
    const bool head = item(graph_->groups(), user.group).head == consumer;
    if (!head || !user.computes) {
      needed = hull(needed, all);
      return;
    }
    const std::vector<Channels>& channels = item(channels_, user.group);
    const size_t place = shards_before(group_of(consumer), device);
    if (place < channels.size()) needed = hull(needed, channels[place].inputs_from);
  };
  if (node != kNetworkInput) {
    for (const int64_t consumer : graph_->node(node).consumers) use(consumer);
    return needed;
  }
  for (size_t i = 0; i < graph_->nodes().size(); ++i) {
    const std::vector<int64_t>& inputs = graph_->nodes()[i].inputs;
    if (std::find(inputs.begin(), inputs.end(), kNetworkInput) != inputs.end()) use(static_cast<int64_t>(i));
  }
  return needed;
}

ChannelRange Placement::summed_until(int64_t group, int64_t device) const {
  const size_t shards = shards_before(item(plan_->groups, group), device + 1);
  return shards == 0 ? ChannelRange{} : item(channels_, group)[shards - 1].outputs_until;
}

}  // namespace millrace
