// Small plans whose times are set by hand, for tests of the simulator.
//
//   const Graph graph(row_convolutions(/*layers=*/3, /*height=*/8, /*kernel=*/3));
//   Plan plan = one_layer_per_device(graph, {.latency_us = 0.5});
//   set_times(plan, graph, 1'000'000);                 // every phase of every shard takes so many picoseconds for a row
//   expect_time(simulated, derived, "H rows of 7 us");   // prints the formula and both figures, and holds them equal
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/schedule.h"

namespace millrace::testing_support {

inline constexpr int64_t kMicrosecond = 1'000'000;

inline void expect_time(int64_t simulated, int64_t derived, const std::string& formula) {
  fmt::print("  {:<90} = {} ps, simulated {} ps\n", formula, derived, simulated);
  EXPECT_EQ(simulated, derived) << formula;
}

// Convolutions "conv1", "conv2", ... of `channels` maps, kernel x 1, and the loss at every row.
inline Model row_convolutions(int64_t layers, int64_t height, int64_t kernel, int64_t channels = 4) {
  ModelBuilder net("rows", {channels, height, 1});
  for (int64_t l = 1; l <= layers; ++l)
    net.layer("conv" + std::to_string(l), Conv2d{.out_channels = channels, .kernel_h = kernel, .kernel_w = 1, .pad_h = kernel / 2});
  return net.finish();
}

inline Plan plan_by_cuts(const Graph& graph, std::vector<Cut> cuts, const LinkEntry& link, int64_t mini_batch = 1000,
                         Alignment alignment = Alignment::kFpdeep, std::vector<int64_t> windows = {},
                         std::vector<ParameterHome> remote = {}) {
  PlanRequest request;
  request.cluster = uniform_cluster("board", static_cast<int64_t>(cuts.size()) + 1, link);
  request.alignment = alignment;
  request.mini_batch = mini_batch;
  request.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
  request.windows = std::move(windows);
  request.remote_homes = std::move(remote);
  const std::vector<Split> splits(graph.groups().size(), Split::kInputChannels);
  return assemble_plan(graph, request, shards_from_cuts(graph, cuts, splits));
}

inline Plan one_layer_per_device(const Graph& graph, const LinkEntry& link, int64_t mini_batch = 1000,
                                 Alignment alignment = Alignment::kFpdeep, std::vector<int64_t> windows = {}) {
  std::vector<Cut> cuts;
  for (int64_t g = 1; g < static_cast<int64_t>(graph.groups().size()); ++g) cuts.push_back({g, 0, 0});
  return plan_by_cuts(graph, std::move(cuts), link, mini_batch, alignment, std::move(windows));
}

// Engines of their own for every phase that there is, of so many picoseconds a row; none for the error of the network's input.
inline void set_times(Shard& shard, const Graph& graph, int64_t picoseconds, int64_t multipliers = 1) {
  const Node& node = graph.node(graph.index_of(shard.layer));
  shard.unit = multipliers > 0 ? StreamingUnit::kRow : StreamingUnit::kSample;
  shard.phases = {{Phase::kForward, "engine", multipliers, picoseconds}};
  if (node.input_error_needed) shard.phases.push_back({Phase::kErrorBack, "engine", multipliers, picoseconds});
  if (node.trained) shard.phases.push_back({Phase::kParameterGradient, "engine", multipliers, picoseconds});
}
inline void set_times(Plan& plan, const Graph& graph, int64_t picoseconds, int64_t multipliers = 1) {
  for (Shard& shard : plan.shards)
    if (graph.node(graph.index_of(shard.layer)).computes) set_times(shard, graph, picoseconds, multipliers);
}

// Moves slices of weights to other devices, some of them downstream.
inline std::vector<ParameterHome> random_homes(const Plan& plan, std::mt19937_64& generator) {
  const auto below = [&](int64_t bound) { return std::uniform_int_distribution<int64_t>(0, bound - 1)(generator); };
  std::vector<ParameterHome> remote;
  for (const ParameterHome& home : plan.homes) {
    if (plan.devices() < 2 || below(3) > 0) continue;
    ParameterHome moved = home;
    moved.home = below(plan.devices());
    if (moved.home == moved.user) continue;
    moved.offset = below(home.count);
    moved.count = 1 + below(home.count - moved.offset);
    remote.push_back(moved);
  }
  return remote;
}

}  // namespace millrace::testing_support
