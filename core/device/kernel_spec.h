// From a step of a segment program to the kernel that does it and the parameters it owns.
//
//   KernelSpec spec = kernel_spec_of(plan, graph, program, step);
//   for (const ParameterSlice& slice : parameter_slices_of(graph, step)) { ... }
//
// Pure functions, shared by everything that runs segments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/graph/graph.h"
#include "core/plan/segment_program.h"

namespace millrace {

// True for steps that run a kernel: compute, finish, apply.
bool runs_kernel(const Step& step);
KernelSpec kernel_spec_of(const Plan& plan, const Graph& graph, const SegmentProgram& program, const Step& step);

// Of the steps of a recurrent layer whose x W is made elsewhere, wherever they are.
KernelSpec steps_spec_of(const Plan& plan, const Graph& graph, int64_t node);

// One tensor of one step: which part of which layer parameter.
struct ParameterSlice {
  int64_t node = 0;
  std::string tensor;               // "weight"
  std::vector<int64_t> dimensions;  // of the full canonical tensor
  Block block;                      // of a divided weight; whole otherwise
  bool divided = false;             // block applies
  bool trained = true;              // false: running statistics
  ChannelRange units;               // cells of a recurrent layer: their rows of every gate, of a projection of features; empty: all
  int64_t cells = 0;                // rows of a gate, where `units` has any
  int64_t elements = 0;             // of the slice
};
// The rows of every gate that belong to some cells of a recurrent layer, of a projection those of their features.
ParameterSlice rows_of_units(const Node& recurrent, const ParameterSpec& parameter, const ChannelRange& units);

// Trained ones first, in the order kernels take them, then state.
std::vector<ParameterSlice> parameter_slices_of(const Graph& graph, const Step& step);

// Copies the slice out of, or into, the full canonical tensor. Sizes are checked.
void extract_slice(const ParameterSlice& slice, std::span<const double> full, std::span<double> part);
void insert_slice(const ParameterSlice& slice, std::span<const double> part, std::span<double> full);
// The index in the full tensor of every element of the slice, in the slice's order.
std::vector<int64_t> slice_indices(const ParameterSlice& slice);

}  // namespace millrace
