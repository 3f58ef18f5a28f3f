// Devices that go on by themselves for as long as no message can reach them do what they would do step by step, all together: every
// time, count and peak is the same, to the bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/simulate/collect.h"
#include "node/simulate/compile.h"
#include "node/simulate/engine.h"
#include "tests/node/simulate/random_runs.h"
#include "tests/node/simulate/same_results.h"

namespace millrace {
namespace {

using namespace simulation;
using namespace testing_support;
using ::testing::Each;

enum class Go { kAllTogether, kByCrews, kByCrewsFetchingAhead };

SimulationResult run_of(const RandomRun& run, Go go) {
  const Plan plan = plan_as_run(run.plan, run.options);
  Network network = compile(plan, run.graph, run.options, 0, plan.devices());
  std::vector<int32_t> processes = processes_of_devices(network, plan);
  if (go == Go::kAllTogether) processes.assign(processes.size(), 0);
  Engine engine(network, plan, run.options, std::move(processes));
  if (go == Go::kByCrewsFetchingAhead) engine.fetch_ahead();
  engine.begin();
  engine.run_until(kNeverTime);
  EXPECT_TRUE(engine.done());
  std::vector<SimulationResult> results;
  results.push_back(collect(engine, network, plan));
  return combine(plan, run.graph, std::move(results));
}

TEST(Crews, RandomPlansRunAsIfAllWentStepByStepTogether) {
  const Alignment alignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                  Alignment::kZeroBubble};
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run(seed + 20'000, alignments[seed % 5]);
    run.options.trace = seed % 3 == 0;
    for (Link& link : run.plan.links)
      if (run.random.chance(0.2)) link.latency_picoseconds = 0;
    run.options.scenario.seed = seed;
    if (run.plan.devices() > 1 && seed % 4 == 0) run.options.scenario.jitter_picoseconds = 2'000'000;
    const SimulationResult together = run_of(run, Go::kAllTogether);
    expect_same(together, run_of(run, Go::kByCrews));
    expect_same(together, run_of(run, Go::kByCrewsFetchingAhead));
    if (HasFailure()) return;
  }
}

TEST(Crews, AreJoinedByLinksWithoutLatencyAndByCoresTheyShare) {
  const Graph graph(row_convolutions(4, 6, 3));
  Plan plan = one_layer_per_device(graph, {1, 1, 0, 0.1});
  set_times(plan, graph, kMicrosecond);
  plan.links[1].latency_picoseconds = 0;
  const Network network = compile(plan, graph, {.samples = 4}, 0, plan.devices());
  const std::vector<int32_t> processes = processes_of_devices(network, plan);
  ASSERT_GE(processes.size(), 4u);
  EXPECT_EQ(processes[0], 0);
  EXPECT_EQ(processes[1], 1);
  EXPECT_EQ(processes[2], 1);
  EXPECT_EQ(processes[3], 2);
  set_times(plan, graph, kMicrosecond, 0);
  const Network sharing = compile(plan, graph, {.samples = 4, .cores = 1}, 0, plan.devices());
  EXPECT_THAT(processes_of_devices(sharing, plan), Each(0));
}

}  // namespace
}  // namespace millrace
