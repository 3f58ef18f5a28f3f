// Which products of a layer a device makes, and so which parameters it uses.
//
//   if (divided_by_kind(graph, group)) ...                          // x W here, h U and the gates there
//   for (const ParameterUse& use : uses_of(placement, node, p)) ... use.device, use.elements
//
// A recurrent layer is divided by KIND of product: all devices of its group but the last hold blocks of x W, products of all steps
// without dependence between them, over inputs and the sums of all gates, directions one behind the other. The last holds no block: the
// sums arrive there, and it makes the steps, h U, gates, states and projection, and what follows the layer. Each part of x W keeps its
// rows of weight_ih; everything else is the last device's. Plain functions; they borrow what they are given.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/placement.h"

namespace millrace {

bool divided_by_kind(const Graph& graph, const Group& group);

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
