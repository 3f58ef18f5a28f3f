// What a training sends between its devices: the plan's flows, and beside them a channel towards device 0 on every link for what
// checkpoints are made of.
//
//   const RingFlows flows = ring_flows(plan, graph);
//   transport.open(flows.table);
//   flows.saves[link]                                    // from device link + 1 to link
//   for (const SliceRoute& route : routes_of(plan)) ...  // the way of remotely stored parameters, link by link
//
// Flow f of the table is the plan's flow f; where time streams, its messages are chunks. Credits suffice for the windows: a device that may
// run w micro-batches ahead of the next one never waits for a credit that this one owes it. Plain values.
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

// Of a home whose user is another device.
struct SliceRoute {
  size_t home = 0;                  // index into Plan::homes
  std::vector<int64_t> parameters;  // flows from home to user, in the order they are passed
  std::vector<int64_t> gradients;   // flows from user to home
};
std::vector<SliceRoute> routes_of(const Plan& plan);

// The plan as computed here. FIXED16 travels in fp32, as many elements: exactly, but for 32-bit gradients, rounded as updates round them.
Plan run_plan(Plan plan);

}  // namespace millrace
