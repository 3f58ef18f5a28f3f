#include "core/plan/parts.h"

#include "core/plan/flows.h"

namespace millrace {

bool divided_by_kind(const Graph& graph, const Group& group) {
  return group.shards.size() > 1 && role_of(graph.node(graph.index_of(group.layer)).layer.operation) == Role::kRecurrence;
}

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
