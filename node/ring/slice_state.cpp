#include "node/ring/slice_state.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/schedule.h"
#include "core/train/initialize.h"
#include "core/train/segment_state.h"

namespace millrace {
namespace {

struct Place {
  const Node& node;
  const ParameterSpec& parameter;
  std::string name;
};

Place place_of(const HomeSlice& slice, const Graph& graph) {
  const Node& node = graph.node(graph.index_of(slice.where().layer));
  const auto parameter = std::ranges::find(node.parameters, slice.where().tensor, &ParameterSpec::tensor);
  return {node, *parameter, stored_name(node, *parameter)};
}

// The slice's part of a full tensor.
std::vector<double> part_of(const HomeSlice& slice, const Plan& plan, const Graph& graph, std::span<const double> full) {
  const ParameterHome& home = slice.where();
  std::vector<double> part(to_size(home.count));
  ShardVector(plan, graph, home.user, home.layer, home.tensor).extract(full, home.offset, part);
  return part;
}

}  // namespace

void initialize_slice(HomeSlice& slice, const Plan& plan, const Graph& graph, uint64_t seed) {
  const Place place = place_of(slice, graph);
  std::vector<double> full(to_size(place.parameter.elements()));
  InitialValues(place.node.layer, place.parameter, fans_of(place.node.parameters.front()), seed).fill(std::span<double>(full));
  slice.set(part_of(slice, plan, graph, full));
}

void take_slice_weights(HomeSlice& slice, const Plan& plan, const Graph& graph, const TensorMap& weights) {
  const Place place = place_of(slice, graph);
  if (weights.contains(place.name)) slice.set(part_of(slice, plan, graph, checked_values(weights, place.name, place.parameter)));
}

void restore_slice(HomeSlice& slice, const Plan& plan, const Graph& graph, const CheckpointContent& content) {
  const Place place = place_of(slice, graph);
  const auto part = [&](const TensorMap& tensors, const std::string& name) {
    return part_of(slice, plan, graph, checked_values(tensors, name, place.parameter));
  };
  slice.set(part(content.weights, place.name));
  slice.set_newest(content.facts.step);
  for (int slot = 0; slot < plan.optimizer.slots(); ++slot)
    slice.set_slot(slot, part_of(slice, plan, graph, slot_values(content.optimizer, place.name, place.parameter, plan.optimizer, slot)));
  if (!drains(plan.alignment) && content.previous_weights.contains(place.name))
    slice.set_previous(part(content.previous_weights, place.name));
}

void save_slice_weights(const HomeSlice& slice, const Graph& graph, SaveWriter& writer, SaveKind kind) {
  const Place place = place_of(slice, graph);
  std::vector<double> values(to_size(slice.where().count));
  slice.read(slice.newest(), std::span<double>(values));
  writer.piece(kind, place.name, place.parameter.dimensions, slice.home(), values);
}

void save_slice_optimizer(const HomeSlice& slice, const Plan& plan, const Graph& graph, SaveWriter& writer) {
  const Place place = place_of(slice, graph);
  std::vector<double> values(to_size(slice.where().count));
  for (int slot = 0; slot < plan.optimizer.slots(); ++slot) {
    slice.read_slot(slot, values);
    writer.piece(SaveKind::kOptimizer, slot_name(place.name, plan.optimizer, slot), place.parameter.dimensions, slice.home(), values);
  }
}

}  // namespace millrace
