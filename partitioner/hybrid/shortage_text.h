// Why a ring cannot take a model, in words, with the smallest ring of the same devices that could.
//
//   outcome.reason = reason_of(task, solution.shortage, has_plan);
//
// Whether another ring, or the same with recomputation, has a plan is asked of whoever plans; of nobody, the reason names none.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/planning/planning.h"

namespace millrace {

using HasPlan = std::function<bool(const PlanTask&)>;
Reason reason_of(const PlanTask& task, const Shortage& shortage, const HasPlan& has_plan);

// "12.4 Mb of on-chip memory", "3 DSP slices"
std::string amount_text(std::string_view resource, double amount);

}  // namespace millrace
