// How slices of parameters start, are saved and come back: as the parts that they are of the layers' tensors. Internal to node/ring.
//
//   restore_slice(slice, plan, graph, content);
//   save_slice_weights(slice, graph, writer, SaveKind::kWeights);
#pragma once

#include "core/train/checkpoint.h"
#include "node/ring/home_slice.h"
#include "node/ring/save_records.h"

namespace millrace {

void initialize_slice(HomeSlice& slice, const Plan& plan, const Graph& graph, uint64_t seed);
// Where `weights` has the tensor.
void take_slice_weights(HomeSlice& slice, const Plan& plan, const Graph& graph, const TensorMap& weights);
void restore_slice(HomeSlice& slice, const Plan& plan, const Graph& graph, const CheckpointContent& content);
// The newest version.
void save_slice_weights(const HomeSlice& slice, const Graph& graph, SaveWriter& writer, SaveKind kind);
void save_slice_optimizer(const HomeSlice& slice, const Plan& plan, const Graph& graph, SaveWriter& writer);

}  // namespace millrace
