// Internal to node/simulate: a plan whose devices take turns at measured durations instead of the plan's.
//
//   const Plan timed = with_measured_times(plan, options.measured);
//
// A device's measured actions stand for all of its shards: they become those of its first shard, per sample. Updates, and what a
// rank does between actions, are no phases of a plan and stay in the options.
#pragma once

#include <vector>

#include "core/documents/plan.h"
#include "node/simulate/simulate.h"

namespace millrace::simulation {

Plan with_measured_times(Plan plan, const std::vector<MeasuredActions>& measured);

// Fails with kUsage when measured times, ranks or cores make no sense for this plan.
void check_measured(const Plan& plan, const Graph& graph, const SimulationOptions& options);

}  // namespace millrace::simulation
