// Why a ring cannot take a model, in words, with the smallest ring of the same devices that could.
//
//   outcome.reason = reason_of(task, solution.shortage);
#pragma once

#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/planning/planning.h"

namespace millrace {

Reason reason_of(const PlanTask& task, const Shortage& shortage);

// "12.4 Mb of on-chip memory", "3 DSP slices"
std::string amount_text(std::string_view resource, double amount);

}  // namespace millrace
