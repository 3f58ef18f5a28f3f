// Internal to node/simulate: a plan as a Network, for the devices [first, end).
//
//   const Network network = compile(plan, graph, options, 0, plan.devices());
#pragma once

#include "node/simulate/network.h"
#include "node/simulate/simulate.h"

namespace millrace::simulation {

Network compile(const Plan& plan, const Graph& graph, const SimulationOptions& options, int64_t first_device, int64_t end_device);

// With the times that the run has: measured ones, and those of stragglers.
Plan plan_as_run(const Plan& plan, const SimulationOptions& options);

// Fails with kUsage when options or lengths make no run.
void check_options(const Plan& plan, const Graph& graph, const SimulationOptions& options);

}  // namespace millrace::simulation
