// How fast a plan says that its engines are.
//
//   const double seconds = planned_seconds(node, shard.unit, engine);       // per image, of one engine
//   const double clock = planned_clock(plan, "vc709");                      // 2e8
//
// Pure functions of the plan.
#pragma once

#include <cstdint>
#include <string>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

double planned_seconds(const Node& node, StreamingUnit unit, const PhaseEngine& engine);

// Of a board, as the plan has it; 0: it does not say.
double planned_clock(const Plan& plan, const std::string& board);

}  // namespace millrace
