// What a mini-batch takes, from shorter ones, beside the whole.
#include "node/simulate/mini_batch_pace.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/base/index.h"
#include "core/plan/flows.h"
#include "node/simulate/simulate.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace::testing_support {
namespace {

// Room for so many samples, as full accounting asks for where a window is larger than one.
void with_act_ram(Plan& plan, const Graph& graph, double samples) {
  plan.accounting = Accounting::kFull;
  for (Shard& shard : plan.shards) {
    const int64_t elements = graph.node(graph.index_of(shard.layer)).input_shapes[0].elements();
    shard.act_ram_bits = static_cast<int64_t>(samples * static_cast<double>(elements * bits_of(plan.arithmetic.wire)));
  }
}

// Of a run of so many mini-batches, all but the first.
double simulated_seconds(const Plan& plan, const Graph& graph, int64_t mini_batches) {
  const SimulationResult result =
      simulate(plan, graph, {.samples = mini_batches * plan.mini_batch, .act_ram = plan.accounting == Accounting::kFull ? 1.0 : 0.0});
  return static_cast<double>(plan.mini_batch) / mini_batch_rate(plan, result);
}

TEST(MiniBatchPace, ShorterMiniBatchesTellOfLongerOnes) {
  std::mt19937_64 generator(7);
  for (const Alignment alignment :
       {Alignment::kFpdeep, Alignment::kStash, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}) {
    for (int i = 0; i < 4; ++i) {
      const Graph graph(row_convolutions(4, 12, 3));
      const int64_t mini_batch = 1536;  // so many rows that they are not all run
      const std::vector<int64_t> windows = alignment == Alignment::kFlush ? std::vector<int64_t>{} : std::vector<int64_t>{2, 2, 2, 2};
      std::vector<Cut> cuts{{1, 0, 0}, {2, 0, 0}, {3, 0, 0}};
      Plan plan = plan_by_cuts(graph, cuts, {10, 10, 0, 0.5}, mini_batch, alignment, windows);
      if (i > 1) plan = plan_by_cuts(graph, cuts, {10, 10, 0, 0.5}, mini_batch, alignment, windows, random_homes(plan, generator));
      set_times(plan, graph, kMicrosecond);
      with_act_ram(plan, graph, 1.5);
      const MiniBatchPace pace = mini_batch_pace(plan, graph);
      const double period = 1e-12 * static_cast<double>(slowest_stage(plan, graph));
      EXPECT_EQ(pace.origin, "simulated");
      EXPECT_NEAR(pace.seconds, simulated_seconds(plan, graph, 4), 0.5 * period) << name_of(alignment) << " " << i;
      EXPECT_GT(pace.seconds, static_cast<double>(mini_batch) * period * (1 - 1e-9));
    }
  }
}

// Far links, and Act-RAM for less than is under way on them: the ring is held back at every sample, not at updates alone.
TEST(MiniBatchPace, CountsWhatHoldsARingBackBetweenUpdates) {
  const Graph graph(row_convolutions(4, 12, 3));
  int slowed = 0;
  for (const double latency : {2.0, 4.0, 6.0, 8.0}) {
    Plan plan = plan_by_cuts(graph, {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}}, {10, 10, 0, latency}, 1536, Alignment::kFpdeep, {3, 3, 3, 3});
    set_times(plan, graph, kMicrosecond);
    with_act_ram(plan, graph, 2);
    const double period = 1e-12 * static_cast<double>(slowest_stage(plan, graph));
    const double whole = simulated_seconds(plan, graph, 4);
    slowed += whole > 1.02 * 1536 * period ? 1 : 0;
    EXPECT_NEAR(mini_batch_pace(plan, graph).seconds / whole, 1, 5e-3) << latency;
  }
  EXPECT_GT(slowed, 0);
}

// Longer mini-batches that tell how a ring is held back fill it for a while, too.
TEST(MiniBatchPace, LongerMiniBatchesSettleAsWell) {
  const auto of_whole = [](int64_t rows, int64_t mini_batch, int64_t micro_batch, const std::vector<int64_t>& windows, double latency,
                           const std::vector<int64_t>& times) {
    const Graph graph(row_convolutions(4, rows, 3));
    Plan plan = plan_by_cuts(graph, {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}}, {10, 10, 0, latency}, mini_batch, Alignment::kStash, windows);
    plan.micro_batch = micro_batch;
    plan.flows = flows_of(plan, graph);
    for (Shard& shard : plan.shards) set_times(shard, graph, item(times, shard.device) * kMicrosecond, 1);
    with_act_ram(plan, graph, 3);
    return mini_batch_pace(plan, graph).seconds / simulated_seconds(plan, graph, 6);
  };
  EXPECT_NEAR(of_whole(4, 1024, 8, {10, 8, 7, 4}, 12.5, {2, 3, 2, 3}), 1, 3e-3);
  EXPECT_NEAR(of_whole(20, 2048, 4, {4, 4, 4, 1}, 49, {1, 4, 1, 1}), 1, 3e-3);
}

TEST(MiniBatchPace, ShortMiniBatchesAreRunAsTheyAre) {
  const Graph graph(row_convolutions(3, 8, 3));
  Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.5}, 8, Alignment::kFpdeep, {3, 2, 2});
  set_times(plan, graph, kMicrosecond);
  EXPECT_NEAR(mini_batch_pace(plan, graph).seconds, simulated_seconds(plan, graph, 6), 1e-9);
}

TEST(MiniBatchPace, DevicesThatTakeTurnsAreRunAsTheyAre) {
  const Graph graph(row_convolutions(3, 8, 3));
  Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.5}, 64, Alignment::kOneForwardOneBackward);
  set_times(plan, graph, kMicrosecond, 0);
  EXPECT_NEAR(mini_batch_pace(plan, graph).seconds, simulated_seconds(plan, graph, 6), 1e-12);
}

// Where an update drains the ring, whoever takes longest for it holds up all others, once per mini-batch.
TEST(MiniBatchPace, UpdatesOfDevicesThatTakeTurnsTakeTheirTime) {
  const Graph graph(row_convolutions(3, 8, 3));
  Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.5}, 64, Alignment::kFlush);
  set_times(plan, graph, kMicrosecond, 0);
  plan.accounting = Accounting::kFull;
  const double before = mini_batch_pace(plan, graph).seconds;
  for (Shard& shard : plan.shards) shard.update_picoseconds = 300 * kMicrosecond;
  EXPECT_NEAR(mini_batch_pace(plan, graph).seconds, before + 300e-6, 1e-9);
}

// Rows of boards beside a device that takes turns, more of them than are run.
TEST(MiniBatchPace, ARingTooLongToBeRunCountsItsLongestUpdate) {
  const Graph graph(row_convolutions(3, 20'000, 3));
  Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.5}, 128, Alignment::kFpdeep, {3, 2, 1});
  set_times(plan, graph, kMicrosecond);
  set_times(plan.shards.back(), graph, kMicrosecond, 0);
  plan.accounting = Accounting::kFull;
  const MiniBatchPace before = mini_batch_pace(plan, graph);
  ASSERT_EQ(before.origin, "fitted");
  plan.shards.back().update_picoseconds = 300 * kMicrosecond;
  EXPECT_NEAR(mini_batch_pace(plan, graph).seconds, before.seconds + 300e-6, 1e-12);
}

// What is left out of such a run, and devices that go on together in it, change no time: of rings in which much happens at one moment.
TEST(MiniBatchPace, APaceAloneIsThatOfTheWholeRun) {
  const Graph graph(row_convolutions(4, 8, 3));
  std::mt19937_64 random(3);
  const auto drawn = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
  for (int i = 0; i < 60; ++i) {
    const Alignment alignment =
        std::vector{Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}[random() % 4];
    Plan plan = one_layer_per_device(graph, {10, 10, static_cast<double>(drawn(2)), 0.5}, 16, alignment);
    for (Shard& shard : plan.shards) set_times(shard, graph, (1 + drawn(2)) * kMicrosecond, drawn(3) == 0 ? 0 : 1);
    SimulationOptions options{.samples = 48, .fifo_rows = drawn(2), .paced = drawn(1) == 0};
    const SimulationResult whole = simulate(plan, graph, options);
    options.pace_alone = true;
    const SimulationResult alone = simulate(plan, graph, options);
    ASSERT_EQ(alone.finished, whole.finished) << i << ": " << name_of(alignment);
    ASSERT_EQ(alone.images_per_second, whole.images_per_second) << i << ": " << name_of(alignment);
  }
}

// The last windows have no forward passes behind them, so that the end of a run is faster than the ring.
TEST(MiniBatchPace, RunsThatEndAheadAreNoFasterThanTheSlowestDevice) {
  const Graph graph(row_convolutions(2, 8, 3));
  Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.5}, 4, Alignment::kFpdeep, {3, 1});
  for (Shard& shard : plan.shards) set_times(shard, graph, shard.device == 0 ? 10 * kMicrosecond : kMicrosecond, 0);
  const SimulationResult result = simulate(plan, graph, {.samples = 32});
  const double slowest = 1e12 / static_cast<double>(slowest_stage(plan, graph));
  EXPECT_GT(mini_batches_of_window_behind(plan, result), 0);
  EXPECT_LE(result.images_per_second, slowest * (1 + 1e-9));
  EXPECT_GE(result.images_per_second, 0.99 * slowest);
}

// With a window of more than a mini-batch a device makes its first updates early, while the ring is filled, and no rate counts them.
TEST(MiniBatchPace, ARingThatRunsAheadSettlesWithinItsWindow) {
  const Graph graph(row_convolutions(4, 8, 3));
  double most = 0;
  for (const int64_t turn : {1, 5, 10, 15, 20, 23}) {
    Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.5}, 32, Alignment::kFpdeep, {5, 5, 2, 1});
    plan.micro_batch = 8;
    plan.flows = flows_of(plan, graph);
    for (Shard& shard : plan.shards)
      set_times(shard, graph, (shard.device == 0 ? 9 : shard.device == 2 ? turn : 1) * kMicrosecond, shard.device < 2 ? 1 : 0);
    const auto rate_of = [&](int64_t mini_batches) { return mini_batch_rate(plan, simulate(plan, graph, {.samples = 32 * mini_batches})); };
    const double steady = rate_of(48);
    EXPECT_EQ(samples_to_settle(plan, simulate(plan, graph, {.samples = 128})), 192);
    for (const int64_t mini_batches : {6, 7, 8, 12}) EXPECT_NEAR(rate_of(mini_batches) / steady, 1, 2e-3) << turn << " of " << mini_batches;
    most = std::max(most, std::abs(rate_of(4) / steady - 1));
  }
  EXPECT_GT(most, 0.02);
}

// Wherever a device without work stands, and however few micro-batches there are; one link more passes a row in no time.
TEST(MiniBatchPace, DevicesWithoutWorkTakeNoTime) {
  const Graph graph(row_convolutions(2, 8, 3));
  const LinkEntry at_once{10'000, 10'000, 0, 0};
  const Cut begin{0, 0, 0};
  const Cut middle{1, 0, 0};
  const Cut end{2, 0, 0};
  for (const Alignment alignment :
       {Alignment::kFpdeep, Alignment::kStash, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}) {
    for (const int64_t mini_batch : {1, 2, 5}) {
      const int64_t first = alignment == Alignment::kFlush ? mini_batch : 2;
      const int64_t second = alignment == Alignment::kFlush ? mini_batch : 1;
      const auto seconds_of = [&](std::vector<Cut> cuts, std::vector<int64_t> windows) {
        Plan plan = plan_by_cuts(graph, std::move(cuts), at_once, mini_batch, alignment, std::move(windows));
        set_times(plan, graph, kMicrosecond, 0);
        return mini_batch_pace(plan, graph).seconds;
      };
      const double all_work = seconds_of({middle}, {first, second});
      const std::string where = fmt::format("{}, {} micro-batches", name_of(alignment), mini_batch);
      EXPECT_NEAR(seconds_of({middle, end}, {first, second, second}) / all_work, 1, 1e-4) << "last: " << where;
      EXPECT_NEAR(seconds_of({middle, middle}, {first, second, second}) / all_work, 1, 1e-4) << "in the middle: " << where;
      EXPECT_NEAR(seconds_of({begin, middle}, {first, first, second}) / all_work, 1, 1e-4) << "first: " << where;
    }
  }
}

TEST(MiniBatchPace, FewerThanTwoMiniBatchesHaveNoRate) {
  const Graph graph(row_convolutions(3, 8, 3));
  Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.5}, 64);
  set_times(plan, graph, kMicrosecond);
  EXPECT_EQ(mini_batch_rate(plan, simulate(plan, graph, {.samples = 127})), 0);
}

}  // namespace
}  // namespace millrace::testing_support
