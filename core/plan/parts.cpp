#include "core/plan/parts.h"

#include <algorithm>

#include "core/plan/flows.h"

namespace millrace {

bool divided_by_kind(const Graph& graph, const Group& group) {
  return group.shards.size() > 1 && role_of(graph.node(graph.index_of(group.layer)).layer.operation) == Role::kRecurrence;
}

namespace {

// Of the steps that `user` makes without blocks: where their parameters are at home, -1 where they are the user's own.
int64_t lender_of(const Plan& plan, std::string_view layer, int64_t user) {
  for (const ParameterHome& home : plan.homes)
    if (home.user == user && home.home != user && home.layer == layer) return home.home;
  return -1;
}

}  // namespace

int64_t gradients_of_steps_at(const Plan& plan, const Graph& graph, const Group& group) {
  if (!divided_by_kind(graph, group)) return -1;
  return lender_of(plan, group.layer, plan.shards[static_cast<size_t>(group.shards.back())].device);
}

bool loads_every_pass(const Plan& plan, int64_t device) {
  const auto here = std::ranges::equal_range(plan.shards, device, {}, &Shard::device);
  return std::ranges::any_of(here, [&](const Shard& shard) { return shard.blocks.empty() && lender_of(plan, shard.layer, device) >= 0; });
}

std::vector<ParameterHome> homes_before_steps(const Node& recurrent, int64_t steps_device) {
  std::vector<ParameterHome> homes;
  for (const ParameterSpec& parameter : recurrent.parameters)
    if (parameter.trained && input_direction_of(parameter) < 0)
      homes.push_back({.layer = recurrent.layer.name,
                       .tensor = parameter.tensor,
                       .offset = 0,
                       .count = parameter.elements(),
                       .home = steps_device - 1,
                       .user = steps_device});
  return homes;
}

int64_t record_channels_of(const Node& recurrent) {
  const auto& cell = std::get<Recurrent>(recurrent.layer.operation);
  const int64_t projected = cell.projection > 0 ? cell.hidden + cell.features() : 0;
  return cell.directions() * (cell.features() + projected + (cell.cell == CellKind::kGru ? cell.hidden : 0));
}

std::string record_name(std::string_view layer) { return std::string(layer).append(":record"); }

int64_t input_direction_of(const ParameterSpec& parameter) {
  if (parameter.tensor == "weight_ih") return 0;
  return parameter.tensor == "weight_ih_reverse" ? 1 : -1;
}

int64_t directions_of(const Node& recurrent) { return std::get<Recurrent>(recurrent.layer.operation).directions(); }

std::optional<Block> within_direction(const Node& recurrent, int64_t direction, const Block& block) {
  const int64_t rows = sum_shape(recurrent).channels / directions_of(recurrent), first = direction * rows;
  const ChannelRange here = intersection(block.outputs, {first, first + rows});
  if (here.empty()) return std::nullopt;
  return Block{block.inputs, {here.begin - first, here.end - first}};
}

std::vector<ParameterUse> uses_of(const Placement& placement, int64_t index, size_t p) {
  const Node& node = placement.graph().node(index);
  const ParameterSpec& parameter = node.parameters[p];
  const Group& group = placement.group_of(index);
  const bool by_kind = node.computes && divided_by_kind(placement.graph(), group);
  const int64_t direction = by_kind ? input_direction_of(parameter) : -1;
  if (!node.computes || (by_kind ? direction < 0 : p > 0)) return {{placement.owner_of(index), parameter.elements()}};
  std::vector<ParameterUse> uses;
  for (const int64_t s : group.shards) {
    const Shard& shard = placement.plan().shards[static_cast<size_t>(s)];
    int64_t elements = 0;
    for (const Block& block : shard.blocks) {
      if (!by_kind) elements += weight_elements(placement.graph(), index, block);
      const std::optional<Block> rows = by_kind ? within_direction(node, direction, block) : std::nullopt;
      if (rows) elements += rows->inputs.size() * rows->outputs.size();
    }
    if (elements > 0) uses.push_back({shard.device, elements});
  }
  return uses;
}

}  // namespace millrace
