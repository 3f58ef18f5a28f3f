// Internal to node/simulate: what a block of devices saw, and all blocks together as one result.
//
//   std::vector<SimulationResult> blocks{collect(engine, network, plan)};
//   SimulationResult result = combine(plan, graph, std::move(blocks));
#pragma once

#include <vector>

#include "node/simulate/engine.h"
#include "node/simulate/simulate.h"

namespace millrace::simulation {

// Counts and peaks of the block's own devices; rates come with combine().
SimulationResult collect(Engine& engine, const Network& network, const Plan& plan);

// Blocks in ring order, all there are.
SimulationResult combine(const Plan& plan, const Graph& graph, std::vector<SimulationResult> blocks);

}  // namespace millrace::simulation
