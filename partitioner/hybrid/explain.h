// What limits a plan and what would lift it, in sentences.
//
//   for (const std::string& sentence : explain(task, outcome)) fmt::print("- {}\n", sentence);
//
// What-ifs are answered by planning again with the change (one device more, links twice as fast), so they cost as much
// as the plan; they are left out of large rings of large networks. Needs a feasible outcome with a plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "partitioner/hybrid/hybrid_planner.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// What-ifs are answered as the task was.
struct WhatIfs {
  std::function<Outcome(const PlanTask&)> planner = plan_ring;
  LinkEntry link{kDefaultLinkGbps, kDefaultLinkGbps, 0, kDefaultLatencyUs};  // to one device more, where the ring has none
};
std::vector<std::string> explain(const PlanTask& task, const Outcome& outcome, const WhatIfs& what_ifs = {});

// That the ring is much faster where some device does nothing, and which: said of devices of several kinds, since that is where a slow one
// holds up the others, and where what-ifs are. Empty where it is not so.
std::string advice_to_leave_devices_empty(const PlanTask& task, const Outcome& outcome,
                                          const std::function<Outcome(const PlanTask&)>& planner = plan_ring);

// How two plans of one model differ: rate, limits, who moved where. The first is the one compared against.
std::vector<std::string> compare(const Plan& before, const PlanSummary& was, const Plan& after, const PlanSummary& is);

}  // namespace millrace
