// The same run on one rank and on several: every time, count and peak is the same, to the bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/zoo.h"
#include "node/simulate/compile.h"
#include "node/simulate/engine.h"
#include "node/simulate/simulate_parallel.h"
#include "tests/core/documents/expect_error.h"
#include "tests/node/simulate/random_runs.h"
#include "tests/node/simulate/same_results.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"

namespace millrace {
namespace {

using namespace testing_support;

TEST(SimulateParallel, ALongChainIsTheSameOnOneToEightRanks) {
  const Graph graph(row_convolutions(16, 12, 3));
  Plan plan = one_layer_per_device(graph, {1, 0.7, 0, 0.05}, 4);
  std::mt19937_64 generator(1);
  for (Shard& shard : plan.shards) set_times(shard, graph, std::uniform_int_distribution<int64_t>(300'000, 900'000)(generator));
  const SimulationOptions options{.samples = 16, .trace = true};
  const SimulationResult one = simulate(plan, graph, options);
  for (const int64_t ranks : {1, 2, 3, 4, 8, 16}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    expect_same(one, on_ranks(ranks, plan, graph, options));
  }
}

// Of credits nothing is known after the first picosecond: it stops when the last one it has is used, and goes on with late ones.
TEST(SimulateParallel, ABlockRunsAsFarAsTheCreditsItHas) {
  using namespace simulation;
  const Graph graph(row_convolutions(2, 12, 3));
  Plan plan = one_layer_per_device(graph, {1, 0.7, 0, 0.05}, 4);
  for (Shard& shard : plan.shards) set_times(shard, graph, 500'000);
  const SimulationOptions options{.samples = 4};
  Network network = compile(plan, graph, options, 0, 1);
  Engine engine(network, plan, options);
  const auto forward =
      std::find_if(plan.flows.begin(), plan.flows.end(), [](const Flow& flow) { return flow.stream == Stream::kActivation; });
  ASSERT_NE(forward, plan.flows.end());
  const int64_t index = forward - plan.flows.begin();
  engine.begin();
  engine.accept({index, 0, 5, true});
  const Horizon horizon{kNeverTime, kNeverTime, 1};
  const auto rows_sent = [&] {
    engine.run_portion(horizon, horizon, 1'000'000);
    return std::count_if(engine.outbox().begin(), engine.outbox().end(), [](const Crossing& crossing) { return !crossing.credit; });
  };
  EXPECT_EQ(rows_sent(), 5);
  EXPECT_GT(engine.now(), 1);
  engine.accept({index, 1, 7, true});
  EXPECT_EQ(rows_sent(), 7);
}

TEST(SimulateParallel, RandomPlansAreTheSameOnAnyNumberOfRanks) {
  const Alignment alignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                  Alignment::kZeroBubble};
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run(seed + 5000, alignments[seed % 5]);
    run.options.trace = seed % 7 == 0;
    const SimulationResult one = simulate(run.plan, run.graph, run.options);
    for (int64_t ranks = 2; ranks <= run.plan.devices(); ++ranks) {
      SCOPED_TRACE(fmt::format("{} ranks", ranks));
      expect_same(one, on_ranks(ranks, run.plan, run.graph, run.options));
    }
    if (HasFailure()) return;
  }
}

// Slow devices, unsteady links and replicas are drawn from (seed, device or flow, index): whoever simulates them.
TEST(SimulateParallel, WhatBefallsARingIsTheSameOnAnyNumberOfRanks) {
  const Alignment alignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kStash};
  int64_t differ = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run(seed + 9000, alignments[seed % 3]);
    const SimulationResult plain = simulate(run.plan, run.graph, run.options);
    SimulationScenario& scenario = run.options.scenario;
    scenario.seed = seed;
    if (run.plan.devices() > 1) scenario.jitter_picoseconds = 3'000'000;
    scenario.stragglers = {{.device = run.plan.devices() - 1, .factor = 1.25}};
    if (seed % 2 == 0)
      scenario.replicas = {.count = 4, .method = AllReduce::kTree, .outer = {1'000'000'000, 2'000'000}, .group_size = 0, .inner = {}};
    const SimulationResult one = simulate(run.plan, run.graph, run.options);
    differ += one.finished != plain.finished ? 1 : 0;
    for (int64_t ranks = 2; ranks <= run.plan.devices(); ++ranks) {
      SCOPED_TRACE(fmt::format("{} ranks", ranks));
      expect_same(one, on_ranks(ranks, run.plan, run.graph, run.options));
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(differ, 20);
}

TEST(SimulateParallel, LinksWithoutLatencyLeaveNothingToLookAheadBy) {
  const Graph graph(row_convolutions(2, 4, 1));
  Plan plan = one_layer_per_device(graph, {1, 1, 0, 0});
  set_times(plan, graph, kMicrosecond);
  LocalHub hub(2);
  for (const std::string& outcome : outcomes_on_threads(2, [&](int64_t rank) {
         Transport transport(hub.wire(rank));
         static_cast<void>(simulate(plan, graph, {.samples = 4}, transport));
       }))
    EXPECT_EQ(outcome, "ranks 0 and 1 would meet at link 0, which has no latency to look ahead by; simulate on one rank");
}

TEST(SimulateParallel, ADeadlockEndsEveryRankWithItsName) {
  const Graph graph(row_convolutions(3, 16, 3));
  Plan plan = one_layer_per_device(graph, {1, 1, 0, 0.1});
  set_times(plan, graph, kMicrosecond);
  for (Shard& shard : plan.shards) shard.act_ram_bits = 4 * 16 * 3;  // three rows, where six would do
  LocalHub hub(3);
  for (const std::string& outcome : outcomes_on_threads(3, [&](int64_t rank) {
         Transport transport(hub.wire(rank));
         static_cast<void>(simulate(plan, graph, {.samples = 4, .act_ram = 1}, transport));
       }))
    EXPECT_NE(outcome.find("deadlocks"), std::string::npos) << outcome;
  expect_error(ErrorCode::kStandstill, "deadlocks", [&] { static_cast<void>(simulate(plan, graph, {.samples = 4, .act_ram = 1})); });
}

}  // namespace
}  // namespace millrace
