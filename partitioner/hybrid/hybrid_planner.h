// FPDeep's hybrid of layer and channel parallelism, and layer parallelism as its special case.
//
//   Outcome outcome = plan_ring(task);          // options.strategy kHybrid, or kLayer: cuts between layers only
//
// Solves the task (ring_solver.h) and makes a plan of it (ring_plan.h) for every micro-batch and, where they may be chosen, chunks of time
// that are worth a try. When there is no plan, the reason names device, resource and amount, and the smallest ring of the same
// devices that would do. Pure but for solve_seconds.
#pragma once

#include "partitioner/planning/planning.h"

namespace millrace {

// The share of a sample that fully connected layers and the loss hold on to it, in windows of rings that stream rows (FPDeep, fitted).
inline constexpr double kFullyConnectedDelay = 0.4;

Outcome plan_ring(const PlanTask& task);

// Whether the ring may train so many samples per second at all, as far as bounds tell: false is shown, true is not.
// `closely`: with each micro-batch that is left, where a bound for all of them together does not tell. `some_idle`: nor with fewer of its
// devices, which larger micro-batches fill.
bool can_reach(const PlanTask& task, double samples_per_second, bool closely = true, bool some_idle = false);

}  // namespace millrace
