// Names and values of what is saved, for devices and for the slices they store for others.
//
//   const std::vector<double> values = checked_values(weights, stored_name(node, parameter), parameter);
//   restore_slice(slice, plan, graph, content);
#pragma once

#include <string>
#include <vector>

#include "core/train/checkpoint.h"
#include "core/train/executor.h"
#include "node/ring/home_slice.h"
#include "node/ring/save_records.h"

namespace millrace {

std::string stored_name(const Node& node, const ParameterSpec& parameter);  // "conv1.weight"
std::string carried_name(const CarriedState& state);                        // "lstm1.hidden#carried"
int64_t elements_of(const CarriedState& state);
// Fails with kMismatch naming the tensor when it is missing or of another shape.
std::vector<double> checked_values(const TensorMap& tensors, const std::string& name, const ParameterSpec& parameter);
// All of the model's parameters are there and fit.
void require_weights(const Graph& graph, const TensorMap& weights);

void initialize_slice(HomeSlice& slice, const Plan& plan, const Graph& graph, uint64_t seed);
// Where `weights` has the tensor.
void take_slice_weights(HomeSlice& slice, const Plan& plan, const Graph& graph, const TensorMap& weights);
void restore_slice(HomeSlice& slice, const Plan& plan, const Graph& graph, const CheckpointContent& content);
// The newest version.
void save_slice_weights(const HomeSlice& slice, const Plan& plan, const Graph& graph, SaveWriter& writer, SaveKind kind);
void save_slice_optimizer(const HomeSlice& slice, const Plan& plan, const Graph& graph, SaveWriter& writer);

}  // namespace millrace
