#include "partitioner/baseline/kind_units.h"

#include "core/base/index.h"
#include "core/plan/flows.h"

namespace millrace::by_kind {

std::vector<Unit> units_of(const Graph& graph) {
  std::vector<Unit> units;
  for (size_t g = 0; g < graph.groups().size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    if (role_of(graph.node(graph.groups()[g].head).layer.operation) == Role::kRecurrence) {
      const bool alone = graph.groups()[g].after.empty();
      units.push_back({group, Part::kProducts, false});
      units.push_back({group, Part::kSteps, alone});
      if (!alone) units.push_back({group, Part::kAfter});
    } else {
      units.push_back({group, Part::kWhole});
    }
  }
  return units;
}

std::vector<Unit> parts_between(const std::vector<Unit>& units, size_t from, size_t to) {
  std::vector<Unit> parts;
  for (size_t u = from; u < to; ++u) {
    const bool joins = u > from && (units[u].part == Part::kSteps || units[u].part == Part::kAfter);
    if (joins && units[u].part == Part::kSteps) parts.back().part = Part::kWhole;
    if (joins) parts.back().ends = units[u].ends;
    if (!joins) parts.push_back(units[u]);
  }
  return parts;
}

bool may_end(const std::vector<Unit>& units, size_t begin, size_t end) {
  return end == units.size() || units[end].part != Part::kAfter || (end == begin + 1 && units[begin].part == Part::kSteps);
}

Shard shard_of(const Graph& graph, const Unit& unit, int64_t device) {
  const Node& head = graph.node(fast_item(graph.groups(), unit.group).head);
  Shard shard;
  shard.device = device;
  shard.layer = head.layer.name;
  shard.after = unit.part == Part::kAfter;
  if (unit.part == Part::kWhole || unit.part == Part::kProducts)
    shard.blocks = {{{0, head.input_shapes[0].channels}, {0, sum_shape(head).channels}}};
  return shard;
}

}  // namespace millrace::by_kind
