// What a training sends between its devices: the plan's flows, and beside them a channel towards device 0 on every link for what
// checkpoints are made of.
//
//   const RingFlows flows = ring_flows(plan, graph);
//   transport.open(flows.table);
//   flows.saves[link]                                    // from device link + 1 to link
//
// Flow f of the table is the plan's flow f; where time streams, its messages are chunks. Credits are those of
// core/plan/credits.h, and the ways of remotely stored parameters those of core/plan/home_routes.h. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "transport/streams/flow_table.h"

namespace millrace {

inline constexpr size_t kSavePieceBytes = size_t{256} << 10;

struct RingFlows {
  FlowTable table;
  std::vector<int64_t> saves;  // by link
};
RingFlows ring_flows(const Plan& plan, const Graph& graph);

// The plan as computed here. FIXED16 travels in fp32, as many elements: exactly, but for 32-bit gradients, rounded as updates round them.
Plan run_plan(Plan plan);

}  // namespace millrace
