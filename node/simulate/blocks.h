// Internal to node/simulate: which devices each rank simulates, so that all have about as much to do.
//
//   const std::vector<int64_t> begins = blocks_of(plan, graph, fc_barrier, ranks);     // rank r: [begins[r], begins[r + 1])
//
// Devices at the front of a network walk many rows, those at its end few: equal numbers of devices would be unequal work. Every
// rank has one device at least; kUsage when there are more ranks than devices. The result of a simulation does not depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace::simulation {

std::vector<int64_t> blocks_of(const Plan& plan, const Graph& graph, bool fc_barrier, int64_t ranks);

// Cuts that leave the heaviest block as light as it can be.
std::vector<int64_t> even_blocks(const std::vector<int64_t>& weights, int64_t blocks);

// Moves each cut between its neighbours to where the heavier of its two sides, and what crosses there, is least: crossing[d] is
// what a cut before device d costs either side.
std::vector<int64_t> with_cheaper_cuts(std::vector<int64_t> begins, const std::vector<int64_t>& weights,
                                       const std::vector<int64_t>& crossing);

}  // namespace millrace::simulation
