// Moves weights, optimizer state and carried states between a segment and named host tensors.
#include "core/train/segment_state.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/log.h"

namespace millrace {
namespace {

HostTensor host_tensor_of(const std::vector<int64_t>& dimensions, std::span<const double> values, ElementType type) {
  if (type == ElementType::kFloat64) return host_tensor(dimensions, values);
  const std::vector<float> narrow(values.begin(), values.end());
  return host_tensor(dimensions, std::span<const float>(narrow));
}

// Calls visit(layer name, parameter) for every parameter and statistic, in linear order.
template <typename Visit>
void for_each_parameter(const Graph& graph, Visit visit) {
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) visit(node, parameter);
}

}  // namespace

std::string stored_name(const Node& node, const ParameterSpec& parameter) { return node.layer.name + "." + parameter.tensor; }

std::string carried_name(const CarriedState& state) { return state.layer + "." + state.tensor + "#carried"; }

int64_t elements_of(const CarriedState& state) {
  int64_t elements = 1;
  for (const int64_t dimension : state.dimensions) elements *= dimension;
  return elements;
}

std::vector<double> checked_values(const TensorMap& tensors, const std::string& name, const ParameterSpec& parameter) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) fail(ErrorCode::kMismatch, "tensor {} is missing; these weights belong to another model", name);
  if (found->second.dimensions != parameter.dimensions)
    fail(ErrorCode::kMismatch, "tensor {} is {}, the model wants [{}]; these weights belong to another model", name, text_of(found->second),
         fmt::join(parameter.dimensions, ", "));
  std::vector<double> values(to_size(parameter.elements()));
  copy_values(found->second, std::span<double>(values), name);
  return values;
}

std::vector<double> slot_values(const TensorMap& slots, const std::string& name, const ParameterSpec& parameter,
                                const OptimizerSettings& optimizer, int slot) {
  const std::string stored = slot_name(name, optimizer, slot);
  // A training that begins to keep an average begins with its weights.
  if (slot == optimizer.kind_slots() && !slots.contains(stored)) return std::vector<double>(to_size(parameter.elements()));
  return checked_values(slots, stored, parameter);
}

TensorMap read_weights(SegmentExecutor& segment, const Graph& graph, ElementType type) {
  TensorMap tensors;
  for_each_parameter(graph, [&](const Node& node, const ParameterSpec& parameter) {
    std::vector<double> values(to_size(parameter.elements()));
    if (segment.read_parameter(node.layer.name, parameter.tensor, values))
      tensors[stored_name(node, parameter)] = host_tensor_of(parameter.dimensions, values, type);
  });
  return tensors;
}

TensorMap read_optimizer(SegmentExecutor& segment, const Graph& graph, const OptimizerSettings& optimizer, ElementType type) {
  TensorMap tensors;
  for_each_parameter(graph, [&](const Node& node, const ParameterSpec& parameter) {
    if (!parameter.trained || !node.trained) return;
    for (int slot = 0; slot < optimizer.slots(); ++slot) {
      std::vector<double> values(to_size(parameter.elements()));
      if (segment.read_slot(node.layer.name, parameter.tensor, slot, values))
        tensors[slot_name(stored_name(node, parameter), optimizer, slot)] = host_tensor_of(parameter.dimensions, values, type);
    }
  });
  for (const CarriedState& state : segment.carried_states()) {
    std::vector<double> values(to_size(elements_of(state)));
    segment.read_carried(state, values);
    tensors[carried_name(state)] = host_tensor_of(state.dimensions, values, type);
  }
  return tensors;
}

void write_weights(SegmentExecutor& segment, const Graph& graph, const TensorMap& weights) {
  for_each_parameter(graph, [&](const Node& node, const ParameterSpec& parameter) {
    segment.write_parameter(node.layer.name, parameter.tensor, checked_values(weights, stored_name(node, parameter), parameter));
  });
}

void write_optimizer(SegmentExecutor& segment, const Graph& graph, const OptimizerSettings& optimizer, const TensorMap& slots) {
  for_each_parameter(graph, [&](const Node& node, const ParameterSpec& parameter) {
    if (!parameter.trained || !node.trained) return;
    for (int slot = 0; slot < optimizer.slots(); ++slot)
      segment.write_slot(node.layer.name, parameter.tensor, slot,
                         slot_values(slots, stored_name(node, parameter), parameter, optimizer, slot));
  });
  // States belong to the samples at their places of the mini-batch: with another mini-batch there is nothing to go on from.
  for (const CarriedState& state : segment.carried_states()) {
    std::vector<double> values(to_size(elements_of(state)));
    const auto found = slots.find(carried_name(state));
    if (found != slots.end() && found->second.dimensions == state.dimensions)
      copy_values(found->second, std::span<double>(values), carried_name(state));
    else
      log::warning("{}.{} starts from zero: the checkpoint has no carried state for mini-batches of {}", state.layer, state.tensor,
                   state.dimensions[0]);
    segment.write_carried(state, values);
  }
}

}  // namespace millrace
