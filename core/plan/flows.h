// Every flow of a plan, from its shards, groups and homes: the one function that planner, simulator and trainer share.
//
//   const Graph graph(plan.model);
//   plan.flows = flows_of(plan, graph);
//
// The rule, by set algebra over channels, for the link between device d and d+1:
//   activation, forward   a tensor made at or before d crosses once, with the channels anybody after d still uses
//   partial, forward      the raw sum of a group that spans the link: the output channels that members up to d touch
//   error, backward       the same channels of the same tensors, where their error is needed; contributions of several
//                         consumers are summed on the way, in descending consumer order, so each crosses once
//   record, backward      of a recurrent layer's steps, right behind the error of their sums, where the device before makes their gradients
//   state                 between devices that share the steps of a recurrent layer, both ways: what the units of each one that lies
//                         before the link gave out at every step, h in F and errors in E, a message a step (of a layer that projects, two
//                         of each: what is projected and h, errors of h and of the sums); there each gate's sums cross for the units behind
//                         the link alone, and errors of outputs for those before it
//   parameter / gradient  a slice whose home and user lie on different sides; parameters flow from home to user, and name the home;
//                         no gradient where the home makes it of a record
// Order: by link, then forward before backward, then by tensor in linear order, parameters last.
// Complexity: O(links x live tensors).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/placement.h"

namespace millrace {

// How a group divides, from the blocks of its shards.
Split split_of(const Plan& plan, const Graph& graph, const Group& group);

// "conv1:sum": the raw sum of a group before bias and what follows.
std::string sum_name(std::string_view layer);
// The tensor of a flow that carries neither parameters nor gradients: a node's output, its raw sum, or a record of its steps.
struct FlowTensor {
  int64_t node = kNetworkInput;
  bool sum = false;
  bool record = false;
  bool state = false;  // of steps, a row of it a message
};
FlowTensor tensor_of(const Graph& graph, const Flow& flow);

std::vector<Flow> flows_of(const Plan& plan, const Graph& graph);

// The shape of a layer's raw sum: its output, except that a recurrent layer sums the products of all its gates.
Shape sum_shape(const Node& node);

// Elements of a shard's parameter vector and of one of its blocks, for the layer's weight.
int64_t weight_elements(const Graph& graph, int64_t node, const Block& block);

}  // namespace millrace
