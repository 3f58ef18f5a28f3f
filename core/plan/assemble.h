// From "who computes which channels" to a complete plan: groups, windows, links, homes, flows.
//
//   PlanRequest request{.cluster = uniform_cluster("cpu", 3), .mini_batch = 32, .micro_batch = 8};
//   Plan plan = assemble_plan(graph, request, {{.device = 0, .layer = "conv1", .blocks = {...}}, ...});
//   Plan alone = single_device_plan(graph, request);
//
// The partitioner decides, this completes. Shards come in ring order. Engines, times and resources of the shards are
// kept as given. Homes default to the user itself; `homes` moves slices elsewhere.
#pragma once

#include <span>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/cuts.h"

namespace millrace {

struct PlanRequest {
  Cluster cluster;
  Alignment alignment = Alignment::kFlush;
  int64_t mini_batch = 1;
  int64_t micro_batch = 1;
  OptimizerSettings optimizer = {};
  Arithmetic arithmetic = {};
  std::vector<int64_t> windows = {};  // empty: default_windows
  int64_t time_chunks = 1;
  std::vector<ParameterHome> remote_homes = {};  // slices that do not live with their user
};

// The data links of a cluster.
std::vector<Link> links_of(const Cluster& cluster);

Plan assemble_plan(const Graph& graph, const PlanRequest& request, std::vector<Shard> shards);
Plan single_device_plan(const Graph& graph, const PlanRequest& request);

// The shards that D-1 ascending cuts make of the chain of groups; `splits[g]` says how group g divides when it must.
std::vector<Shard> shards_from_cuts(const Graph& graph, std::span<const Cut> cuts, std::span<const Split> splits);

}  // namespace millrace
