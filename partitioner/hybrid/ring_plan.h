// A solved ring as a plan. Sizes every shard's engines, and adds windows, homes, flows, budgets, constants.
//
//   RingSolver solver(task, /*micro_batch=*/8);
//   const Plan plan = ring_plan(task, solver, solver.solve(), /*time_chunks=*/1);
//
// With chunks of time, layers that every chunk runs anew read their weights and begin their kernels as often: cuts are those of whole
// sequences, times are not. Pure. Borrows the task, the solver and what they borrow.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/planning/planning.h"

namespace millrace {

Plan ring_plan(const PlanTask& task, const RingSolver& solver, const RingSolution& solved, int64_t time_chunks);

// Every device has engines of its own.
bool streams_rows(const PlanTask& task);

// The device's budget and constants, if the plan does not know its kind yet.
void add_figures_of(const CostModel& model, Plan& plan);

// In-flight micro-batches per device, where every device has engines of its own and rows stream: what is under way
// between a row's FP and the return of its error, L_first + 1 + d_FC, and what the links' latency adds.
std::vector<int64_t> streaming_windows(const PlanTask& task, const std::vector<double>& first_lifetimes, double period,
                                       int64_t micro_batch);

}  // namespace millrace
