// What FARNN compares its pair of a GPU and a board with, as plans to be simulated: none of them is run.
//
//   const Plan slow = in_mode(plan, graph, PairMode::kNoOverlap);       // of a plan by kind, the steps on boards
//   simulate(slow, graph, options);
//
// overlap      the plan as it is
// no-overlap   one thing after the other: a load of weights is part of the F or E that waits for it, and of all devices one computes at a
//              time. What crosses a link while others compute is of other micro-batches, so of one micro-batch nothing overlaps.
// all-fpga     the products with the inputs are on the boards, too, which load those weights for every F and E: of a layer's inputs the
//              board takes them and gives their errors, where it took sums and gave the sums' errors. Gradients stay where they were. A
//              board's shard says what that takes of it (kInputProductSeconds).
// Weights' flows are one word each, since their time is in the phases. Everything modelled. Fails with kUsage on a plan without steps on
// boards, and where links differ in speed.
#pragma once

#include <string_view>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

enum class PairMode { kOverlap, kNoOverlap, kAllFpga };
std::string_view name_of(PairMode mode);
// Its name, or kUsage.
PairMode pair_mode_from(std::string_view name);

// Among the resources of a board's steps: seconds of a sample, in F and as many in E, that the products with the inputs would take on
// its elements.
inline constexpr std::string_view kInputProductSeconds = "input_product_seconds";

// Some board makes the steps of a layer.
bool has_pair(const Plan& plan, const Graph& graph);
Plan in_mode(const Plan& plan, const Graph& graph, PairMode mode);

}  // namespace millrace
