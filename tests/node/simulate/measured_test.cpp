// Measured times, ranks that act for several devices, and cores that are fewer than ranks: by hand, and within bounds that hold
// for any plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "node/simulate/simulate_parallel.h"
#include "tests/node/simulate/random_runs.h"
#include "transport/local/local_wire.h"

namespace millrace {
namespace {

using namespace testing_support;

constexpr int64_t kMicroBatches = 4;

struct TwoDevices {
  explicit TwoDevices(Alignment alignment)
      : graph(row_convolutions(2, 4, 1)), plan(one_layer_per_device(graph, {1e6, 1e6, 0, 0}, kMicroBatches, alignment)) {
    options.samples = 6 * kMicroBatches;
    options.measured = {{.forward = 3 * kMicrosecond,
                         .error_back = 5 * kMicrosecond,
                         .parameter_gradient = 2 * kMicrosecond,
                         .update = 7 * kMicrosecond,
                         .between = kMicrosecond / 2},
                        {.forward = 2 * kMicrosecond,
                         .error_back = 4 * kMicrosecond,
                         .parameter_gradient = 6 * kMicrosecond,
                         .update = 1 * kMicrosecond,
                         .between = kMicrosecond / 4}};
  }

  // Of a mini-batch, all actions of a device one after the other.
  int64_t work_of(size_t device) const {
    const MeasuredActions& a = options.measured[device];
    return kMicroBatches * (a.forward + a.error_back + a.parameter_gradient + 3 * a.between) + a.update + a.between;
  }
  int64_t mini_batch_simulated() const {
    const SimulationResult result = simulate(plan, graph, options);
    return (result.finished[5 * kMicroBatches - 1] - result.finished[2 * kMicroBatches - 1]) / 3;
  }

  Graph graph;
  Plan plan;
  SimulationOptions options;
};

void expect_near(int64_t simulated, int64_t formula, std::string_view what) {
  fmt::print("  {}: {} ps, simulated {} ps\n", what, formula, simulated);
  // Messages take some hundred picoseconds.
  EXPECT_NEAR(static_cast<double>(simulated), static_cast<double>(formula), 0.002 * static_cast<double>(formula));
}

TEST(Measured, OneRankActsForAllDevicesOneAfterTheOther) {
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kFpdeep, Alignment::kOneForwardOneBackward}) {
    TwoDevices two(alignment);
    two.options.trainer_ranks = 1;
    expect_near(two.mini_batch_simulated(), two.work_of(0) + two.work_of(1), fmt::format("{}, one rank: all work", name_of(alignment)));
  }
}

TEST(Measured, OneCoreServesTwoRanksInTurn) {
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kFpdeep}) {
    TwoDevices two(alignment);
    two.options.cores = 1;
    expect_near(two.mini_batch_simulated(), two.work_of(0) + two.work_of(1), fmt::format("{}, one core: all work", name_of(alignment)));
  }
}

TEST(Measured, WithoutADrainTheBusierDeviceSetsThePace) {
  TwoDevices two(Alignment::kFpdeep);
  expect_near(two.mini_batch_simulated(), std::max(two.work_of(0), two.work_of(1)), "fpdeep, a core for each: the larger work");
}

TEST(Measured, SharesOfADeviceAddUpAndNameTheCore) {
  TwoDevices two(Alignment::kFpdeep);
  two.options.cores = 1;
  const SimulationResult result = simulate(two.plan, two.graph, two.options);
  double waits_for_core = 0;
  for (const SimulatedDevice& device : result.devices) {
    EXPECT_NEAR(device.idle.all(), device.idle_fraction, 1e-9);
    waits_for_core += device.idle.core;
  }
  EXPECT_GT(waits_for_core, 0.5);
  two.options.cores = 0;
  for (const SimulatedDevice& device : simulate(two.plan, two.graph, two.options).devices) EXPECT_EQ(device.idle.core, 0);
}

MeasuredActions random_actions(std::mt19937_64& generator) {
  const auto time = [&] { return std::uniform_int_distribution<int64_t>(1, 50)(generator) * kMicrosecond; };
  return {.forward = time(), .error_back = time(), .parameter_gradient = time(), .update = time(), .between = time() / 10};
}

TEST(Measured, AnyPlanLiesBetweenItsWorkSharedAndItsWorkInLine) {
  const Alignment alignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                  Alignment::kZeroBubble};
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run(seed + 900, alignments[seed % 5]);
    run.options.measured.clear();
    for (int64_t d = 0; d < run.plan.devices(); ++d) run.options.measured.push_back(random_actions(run.generator));
    const SimulationResult alone = simulate(run.plan, run.graph, run.options);
    SimulationOptions options = run.options;
    // As many cores as devices: nobody shares anything.
    options.cores = run.plan.devices();
    const SimulationResult plenty = simulate(run.plan, run.graph, options);
    EXPECT_EQ(plenty.finished, alone.finished);
    EXPECT_EQ(plenty.events, alone.events);
    const auto micro_batches = options.samples / run.plan.micro_batch;
    int64_t work = 0, most_of_rank = 0;
    options.trainer_ranks = 1 + static_cast<int64_t>(seed) % run.plan.devices();
    std::vector<int64_t> of_rank(static_cast<size_t>(options.trainer_ranks));
    const RingLayout layout = ring_layout(run.plan.devices(), options.trainer_ranks);
    for (int64_t rank = 0; rank < options.trainer_ranks; ++rank)
      for (const int64_t d : layout.devices_of(rank)) {
        const MeasuredActions& a = options.measured[static_cast<size_t>(d)];
        const int64_t own = micro_batches * (a.forward + a.error_back + a.parameter_gradient + 3 * a.between);
        of_rank[static_cast<size_t>(rank)] += own;
        work += own;
      }
    most_of_rank = *std::max_element(of_rank.begin(), of_rank.end());
    options.cores = 1 + static_cast<int64_t>(seed / 3) % options.trainer_ranks;
    const SimulationResult shared = simulate(run.plan, run.graph, options);
    EXPECT_GE(shared.picoseconds, alone.picoseconds * 99 / 100);
    EXPECT_GE(shared.picoseconds, std::max(work / options.cores, most_of_rank));
    EXPECT_EQ(shared.flows.size(), alone.flows.size());
    for (size_t f = 0; f < shared.flows.size(); ++f) EXPECT_EQ(shared.flows[f].elements, alone.flows[f].elements);
    if (HasFailure()) return;
  }
}

// Who acts for whom: of four devices of equal work two of a rank in turns drain a mini-batch sooner than two in a block.
TEST(Measured, DevicesDealtInTurnsFillTheRingSooner) {
  const Graph graph(row_convolutions(4, 4, 1));
  const Plan plan = one_layer_per_device(graph, {1e6, 1e6, 0, 0}, kMicroBatches, Alignment::kFlush);
  SimulationOptions options;
  options.samples = 6 * kMicroBatches;
  options.trainer_ranks = 2;
  constexpr int64_t kWork = 4 * kMicrosecond;
  options.measured.assign(4, {.forward = kWork, .error_back = kWork, .parameter_gradient = kWork, .update = kWork});
  const int64_t unasked = simulate(plan, graph, options).picoseconds;
  options.trainer_rank_of = {0, 0, 1, 1};
  const int64_t blocks = simulate(plan, graph, options).picoseconds;
  options.trainer_rank_of = {0, 1, 0, 1};
  const int64_t turns = simulate(plan, graph, options).picoseconds;
  EXPECT_EQ(unasked, blocks);
  EXPECT_LT(turns, blocks * 95 / 100);
  options.trainer_rank_of = {0, 1, 2, 1};
  EXPECT_THROW(static_cast<void>(simulate(plan, graph, options)), Error);
}

std::string refusal(const TwoDevices& two) {
  try {
    static_cast<void>(simulate(two.plan, two.graph, two.options));
  } catch (const Error& error) {
    return fmt::format("{}: {}", name_of(error.code()), error.what());
  }
  return "";
}

TEST(Measured, WhatMakesNoSenseIsRefused) {
  TwoDevices two(Alignment::kFpdeep);
  two.options.trainer_ranks = 3;
  EXPECT_EQ(refusal(two), "usage: 3 ranks for 2 devices: every rank has one at least");
  two.options.trainer_ranks = 0;
  TwoDevices slow(Alignment::kFpdeep);
  slow.options.measured[1].update = int64_t{1} << 57;
  slow.options.samples = 100 * kMicroBatches;
  EXPECT_EQ(
      refusal(slow),
      "usage: 400 samples could take more virtual time than 2^62 picoseconds (53 days) hold, the most of it on the updates of device 1 "
      "and what it does between its actions; simulate fewer");
  two.options.measured.pop_back();
  EXPECT_EQ(refusal(two), "usage: measured times of 1 devices, where the plan has 2");
  two.options.measured.clear();
  set_times(two.plan, two.graph, kMicrosecond);
  two.options.cores = 1;
  EXPECT_EQ(refusal(two), "usage: cores are shared by devices that take turns; this plan's devices have engines of their own");
}

}  // namespace
}  // namespace millrace
