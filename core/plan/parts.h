// Which products of a layer a device makes, and so which parameters it uses.
//
//   if (divided_by_kind(graph, group)) ...                          // x W here, h U and the gates there
//   for (const ParameterUse& use : uses_of(placement, node, p)) ... use.device, use.elements
//
// A recurrent layer is divided by KIND of product: all devices of its group but the last hold blocks of x W, products of all steps
// without dependence between them, over inputs and the sums of all gates, directions one behind the other. The last holds no block: the
// sums arrive there, and it makes the steps, h U, gates, states and projection, and what follows the layer. Each part of x W keeps its
// rows of weight_ih; everything else is used by the last device.
// Where the parameters of the steps are at home on the device before, the steps' device makes F and E alone, as boards do: it loads the
// parameters for every F and every E, and hands a RECORD of its steps back with E, of which the home makes their gradients. Of a step and
// direction a record is h as the step took it; projected: the element that was projected and the error of h behind it, too; of a gru one
// vector more: the error of U h + b of the candidate, where the reset comes before the product r h instead. Zero behind a sample's end.
// Plain functions; they borrow what they are given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/placement.h"

namespace millrace {

bool divided_by_kind(const Graph& graph, const Group& group);

// The device that makes the gradients of the steps' parameters, of a layer whose steps another one makes; else -1.
int64_t gradients_of_steps_at(const Plan& plan, const Graph& graph, const Group& group);
// The device loads parameters for every F and every E. Shards are ordered by device.
bool loads_every_pass(const Plan& plan, int64_t device);
// The homes of all that the steps of a recurrent layer use, on the device before theirs: PlanRequest::remote_homes.
std::vector<ParameterHome> homes_before_steps(const Node& recurrent, int64_t steps_device);
int64_t record_channels_of(const Node& recurrent);
std::string record_name(std::string_view layer);  // "rnn1:record"

// Of a recurrent layer: 0 or 1 where the parameter multiplies the inputs of that direction, else -1.
int64_t input_direction_of(const ParameterSpec& parameter);
int64_t directions_of(const Node& recurrent);
// The part of a block that lies in a direction's sums, counted from the first of them: rows of its weight_ih. Empty: none of it does.
std::optional<Block> within_direction(const Node& recurrent, int64_t direction, const Block& block);

// A device that uses a parameter, and how many elements of it; whoever uses nothing is left out.
struct ParameterUse {
  int64_t device = 0;
  int64_t elements = 0;
};
std::vector<ParameterUse> uses_of(const Placement& placement, int64_t node, size_t parameter);

}  // namespace millrace
