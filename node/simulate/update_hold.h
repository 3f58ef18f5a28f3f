// Internal to node/simulate: what an update holds up on a ring whose rows stream, told by the passage of a few samples alone.
//
//   const int64_t held = update_hold(plan, graph);          // picoseconds that a mini-batch takes beyond a period for each of its samples
//
// For rings that would take seconds to run for whole mini-batches. Two micro-batches are simulated; of the last sample every shard's F, E
// and G say when they began and ended. An update comes behind the last G of its mini-batch and, where F run ahead of it, behind the last F
// that still reads the weights which it overwrites; the first F and E that read what it made come behind it. Without it they would come
// as many periods later as samples lie between: what is missing is held up, and of all shards the longest such wait counts, for waits of
// several shards pass while the longest does.
// Limits: parameters live where they are used, all devices have engines, and between updates the ring keeps its period. Pure; fails as
// simulate() does.
#pragma once

#include <cstdint>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "node/simulate/scenario.h"

namespace millrace::simulation {

int64_t update_hold(const Plan& plan, const Graph& graph, const Replicas& replicas = {});

}  // namespace millrace::simulation
