// Weights, optimizer state and carried states between a segment and named host tensors, as checkpoints hold them.
//
//   write_weights(segment, graph, content.weights);
//   const TensorMap weights = read_weights(segment, graph, ElementType::kFloat32);
//
// Names are those of core/train/checkpoint.h.
#pragma once

#include <string>
#include <vector>

#include "core/train/checkpoint.h"
#include "core/train/executor.h"

namespace millrace {

std::string stored_name(const Node& node, const ParameterSpec& parameter);  // "conv1.weight"
std::string carried_name(const CarriedState& state);                        // "lstm1.hidden#carried"
int64_t elements_of(const CarriedState& state);
// Fails with kMismatch naming the tensor when it is missing or of another shape.
std::vector<double> checked_values(const TensorMap& tensors, const std::string& name, const ParameterSpec& parameter);
// The same of an optimizer's slot; zeros for an average that nobody kept so far.
std::vector<double> slot_values(const TensorMap& slots, const std::string& name, const ParameterSpec& parameter,
                                const OptimizerSettings& optimizer, int slot);

// Every parameter, statistic and (optionally) optimizer slot of the segment under its checkpoint name.
TensorMap read_weights(SegmentExecutor& segment, const Graph& graph, ElementType type);
// With the optimizer's slots go the states that stateful layers carry between mini-batches.
TensorMap read_optimizer(SegmentExecutor& segment, const Graph& graph, const OptimizerSettings& optimizer, ElementType type);
// Fails with kMismatch naming the tensor when one is missing or of another shape.
void write_weights(SegmentExecutor& segment, const Graph& graph, const TensorMap& weights);
void write_optimizer(SegmentExecutor& segment, const Graph& graph, const OptimizerSettings& optimizer, const TensorMap& slots);

}  // namespace millrace
