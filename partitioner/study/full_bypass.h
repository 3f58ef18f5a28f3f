// The fullest link of a plan if every device of a group passed all input channels on, used or not: what FPDeep's figures
// for 150 Gb/s come from (its path 1, without leaving out what has been used). Internal to partitioner/study.
//
//   double bits = full_bypass_bits(plan, graph);         // per image, both directions together
//
// Parameters on the move are not counted.
#pragma once

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

double full_bypass_bits(const Plan& plan, const Graph& graph);

}  // namespace millrace
