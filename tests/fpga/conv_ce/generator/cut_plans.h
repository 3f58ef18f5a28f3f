// Small plans cut by hand, and weights for the devices generated from them.
//
//   const Plan plan = cut_plan(graph, {{1, 4, 0}, {2, 4, 0}});
//   device_design(plan, graph, 1, some_weights);
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "core/plan/assemble.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

// Device 0: conv1 and the first half of conv2. Device 1: the rest of conv2 and the first half of conv3. Device 2: the rest.
// Multipliers for so many tiles per layer: 20 make lanes of four.
inline Plan cut_plan(const Graph& graph, const std::vector<Cut>& cuts, int64_t tiles = 20, const std::vector<Split>& splits = {}) {
  PlanRequest request{.cluster = uniform_cluster("vc709", static_cast<int64_t>(cuts.size()) + 1), .mini_batch = 8, .micro_batch = 1};
  std::vector<Shard> shards = shards_from_cuts(graph, cuts, splits);
  for (Shard& shard : shards) {
    shard.unit = StreamingUnit::kRow;
    const int64_t taps = shard.layer == "conv1" ? 25 : 9;
    const auto engine = [=](Phase phase) { return PhaseEngine{.phase = phase, .engine = "conv_ce", .multipliers = taps * tiles}; };
    shard.phases = {engine(Phase::kForward), engine(Phase::kParameterGradient)};
    if (shard.layer != "conv1") shard.phases.push_back(engine(Phase::kErrorBack));
  }
  return assemble_plan(graph, request, std::move(shards));
}

inline std::vector<double> some_weights(const Node&, const ParameterSpec& parameter) {
  std::vector<double> values(static_cast<size_t>(parameter.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 1000) / 1000.0 - 0.5;
  return values;
}

inline std::vector<double> ones(const Node&, const ParameterSpec& parameter) {
  return std::vector<double>(static_cast<size_t>(parameter.elements()), 1.0);
}

inline bool succeeds(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()) == 0; }

}  // namespace millrace
