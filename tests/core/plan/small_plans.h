// What the tests of core/plan share: one small network whose tensors are easy to count by hand, and plans of it.
//
//   const Graph graph(small_model());
//   const Plan plan = plan_of(graph, {{group_of(graph, "b"), 1, 0}}, {.split = Split::kInputChannels});
#pragma once

#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"

namespace millrace::testing_support {

// input 3x8x8 | a 4x8x8, relu, pool to 4x4x4 | b 6x4x4, relu, pool to 6x2x2, flatten to 24 | fc 3, loss
inline Model small_model() {
  ModelBuilder net("small", {3, 8, 8});
  net.conv("a", 4, {.kernel = 3, .pad = 1});
  net.relu("a.relu");
  net.max_pool("a.pool", {.kernel = 2, .stride = 2});
  net.conv("b", 6, {.kernel = 3, .pad = 1});
  net.relu("b.relu");
  net.max_pool("b.pool", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 3);
  return net.finish();
}

// A residual block: b (without bias, normalised) runs beside a shortcut from a.relu to the sum.
inline Model residual_model() {
  ModelBuilder net("residual", {3, 4, 4});
  net.conv("a", 4, {.kernel = 3, .pad = 1});
  const std::string shortcut = net.relu("a.relu");
  net.conv_without_bias("b", 4, {.kernel = 3, .pad = 1});
  net.layer("b.norm", BatchNorm{});
  net.add("sum", {net.last(), shortcut});
  net.relu("sum.relu");
  net.flatten("flat");
  net.dense("fc", 3);
  return net.finish();
}

inline int64_t group_of(const Graph& graph, std::string_view layer) { return graph.node(graph.index_of(layer)).group; }

// Mini-batches of 8 in micro-batches of 2 on one device more than there are cuts. Every group divides as `split` says.
inline Plan plan_of(const Graph& graph, const std::vector<Cut>& cuts, Split split = Split::kInputChannels,
                    const std::vector<ParameterHome>& remote_homes = {}, Alignment alignment = Alignment::kFlush) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", static_cast<int64_t>(cuts.size()) + 1);
  request.alignment = alignment;
  request.mini_batch = 8;
  request.micro_batch = 2;
  request.remote_homes = remote_homes;
  const std::vector<Split> splits(graph.groups().size(), split);
  return assemble_plan(graph, request, shards_from_cuts(graph, cuts, splits));
}

}  // namespace millrace::testing_support
