// A plan by any strategy: hybrid and layer parallelism as rings (partitioner/hybrid), data and model parallelism as closed
// forms (partitioner/baseline).
//
//   PlanTask task{.graph = &graph, .cluster = cluster, .models = models, .options = {.strategy = Strategy::kLayer}};
//   const Outcome outcome = make_plan(task);
//   if (!outcome.feasible) fail(ErrorCode::kInfeasible, "{}", outcome.reason.text);
//
// Pure but for solve_seconds, thread safe. Fails with kUsage on tasks that make no sense.
#pragma once

#include "partitioner/planning/planning.h"

namespace millrace {

Outcome make_plan(const PlanTask& task);

}  // namespace millrace
