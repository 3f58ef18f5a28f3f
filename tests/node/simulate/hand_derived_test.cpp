// Runs whose times follow from a formula that fits on a line; each expectation prints it beside what was simulated.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "node/simulate/findings.h"
#include "node/simulate/simulate.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace {
namespace {

using namespace testing_support;

const SimulatedStage& stage_of(const SimulationResult& result, int64_t device, Phase phase) {
  for (const SimulatedStage& stage : result.stages)
    if (stage.device == device && stage.phase == phase) return stage;
  throw std::runtime_error("no such stage");
}

// H rows of C x W elements of 16 bits over a link of b bits/s: a row takes C*W*16/b, more than any engine.
TEST(HandDerived, TwoDevicesWithOneSlowLink) {
  const int64_t rows = 4;
  const Graph graph(row_convolutions(2, rows, 1, 20));
  Plan plan = one_layer_per_device(graph, {0.1, 0.1, 0, 0.25});
  set_times(plan, graph, kMicrosecond);
  const int64_t row = 3'200'000;  // 20 * 16 bits at 0.1 Gb/s
  const int64_t latency = 250'000;
  const SimulationResult result = simulate(plan, graph, {.samples = 10, .paced = false});
  expect_time(result.finished[0], rows * row + 2 * latency, "first image: H rows over the link there, one latency, and one back");
  expect_time(result.finished[9] - result.finished[4], 5 * rows * row, "five images: 5 H rows over the link");
  EXPECT_DOUBLE_EQ(result.images_per_second, 1e12 / static_cast<double>(rows * row));
  EXPECT_NEAR(result.links[0].utilisation, 1, 1e-12);
  EXPECT_EQ(result.links[0].forward_bits, 10 * rows * 320);
}

// 3x1 kernels: a layer is one row behind the one before it, there and back; engines work row by row at the same pace t.
TEST(HandDerived, ThreeLayersOnThreeDevices) {
  const int64_t rows = 8;
  const int64_t row = kMicrosecond;
  const int64_t latency = 30'000;
  const Graph graph(row_convolutions(3, rows, 3));
  Plan plan = one_layer_per_device(graph, {100, 100, 0, 0.03});
  set_times(plan, graph, row);
  const SimulationResult result = simulate(plan, graph, {.samples = 12, .paced = false});
  // PG of conv1 does row j while FP of conv1 does row j + 4: conv2 and conv3 are one row behind there, EB of conv3 and of conv2
  // one row behind on the way back. Two links are crossed there and two back.
  expect_time(result.finished[0], (rows + 4) * row + 4 * latency, "first image: (H + 4 rows of lag) t + 4 latencies");
  expect_time(result.finished[11] - result.finished[5], 6 * rows * row, "six images of a full pipeline: 6 H t");
  EXPECT_EQ(result.in_flight_samples, 2) << "ceil((H + 4) / H)";
  for (const SimulatedStage& stage : result.stages) EXPECT_EQ(stage.busy, stage.window) << name_of(stage, plan);
}

// Act-RAM of layer l of n holds the rows between FP's and PG's: 2 (n - l + 1) by the plan's formula.
TEST(HandDerived, ActRamHoldsTheFormulasRows) {
  const int64_t rows = 16;
  for (const int64_t layers : {1, 2, 3, 5}) {
    const Graph graph(row_convolutions(layers, rows, 3));
    Plan plan = plan_by_cuts(graph, {}, {});
    set_times(plan, graph, kMicrosecond);
    const SimulationResult result = simulate(plan, graph, {.samples = 6, .paced = false});
    ASSERT_EQ(result.shards.size(), static_cast<size_t>(layers));
    for (int64_t l = 1; l <= layers; ++l) {
      const int64_t row_bits = 4 * 16;
      const int64_t formula = 2 * (layers - l + 1);
      const double peak = static_cast<double>(result.shards[static_cast<size_t>(l - 1)].peak_bits) / row_bits;
      fmt::print("  {} layers, layer {}: 2 (n - l + 1) = {} rows, simulated {}\n", layers, l, formula, peak);
      EXPECT_DOUBLE_EQ(peak, static_cast<double>(formula));
    }
  }
}

// So much Act-RAM, and the row being filled, is enough, and is needed: each layer's rows take the places of those that its PG lets go of at
// that moment.
TEST(HandDerived, ActRamOfTheFormulasRowsKeepsThePace) {
  const int64_t layers = 3, rows = 16, row_bits = 4 * 16;
  const Graph graph(row_convolutions(layers, rows, 3));
  Plan plan = plan_by_cuts(graph, {}, {});
  set_times(plan, graph, kMicrosecond);
  const auto with_rows_less = [&](int64_t less) {
    for (int64_t l = 1; l <= layers; ++l) plan.shards[static_cast<size_t>(l - 1)].act_ram_bits = (2 * (layers - l + 1) - less) * row_bits;
    return simulate(plan, graph, {.samples = 6, .act_ram = 1, .paced = false}).finished;
  };
  const std::vector<int64_t> finished = with_rows_less(0);
  expect_time(finished[5] - finished[0], 5 * rows * kMicrosecond, "five images with 2 (n - l + 1) rows each: 5 H t");
  // Of two rows less, none but the last layer's three (a kernel's reach) would let an error come back.
  try {
    with_rows_less(2);
    ADD_FAILURE() << "ran all the same";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("too small for any error to come back in time"), std::string::npos) << error.message();
  }
}

// The last engine takes three times as long and images come as fast as they are taken, so the layers before it hold all that they may: of
// a plan with full accounting, which counts the row being filled, what the plan says and no more.
TEST(HandDerived, FullAccountingsActRamIsNeverExceeded) {
  const int64_t layers = 4, rows = 16, row_bits = 4 * 16;
  const Graph graph(row_convolutions(layers, rows, 3));
  Plan plan = plan_by_cuts(graph, {}, {});
  set_times(plan, graph, kMicrosecond);
  set_times(plan.shards.back(), graph, 3 * kMicrosecond);
  for (int64_t l = 1; l <= layers; ++l) plan.shards[static_cast<size_t>(l - 1)].act_ram_bits = (2 * (layers - l + 1) + 1) * row_bits;
  const auto most_over = [&] {
    const SimulationResult result = simulate(plan, graph, {.samples = 8, .act_ram = 1, .paced = false});
    expect_time(result.finished[7] - result.finished[3], 4 * rows * 3 * kMicrosecond, "four images at the last engine's pace: 4 H 3 t");
    int64_t most = 0;
    for (size_t l = 0; l < plan.shards.size(); ++l) most = std::max(most, result.shards[l].peak_bits - plan.shards[l].act_ram_bits);
    return most;
  };
  plan.accounting = Accounting::kFull;
  EXPECT_EQ(most_over(), 0);
  plan.accounting = Accounting::kFpdeep;
  EXPECT_EQ(most_over(), row_bits);
}

// A stride steps over the last row of every image: it is never held, so the next image, which comes when the update
// is over, has all of the Act-RAM. An error comes back when
// three rows of output are there, which the rows 0 to 4 make.
TEST(HandDerived, ARowThatAStrideStepsOverTakesNoPlace) {
  const int64_t rows = 8, row_bits = 4 * 16;
  ModelBuilder net("strided", {4, rows, 1});
  net.layer("conv1", Conv2d{.out_channels = 4, .kernel_h = 1, .kernel_w = 1, .stride_h = 2});
  net.layer("conv2", Conv2d{.out_channels = 4, .kernel_h = 3, .kernel_w = 1, .pad_h = 1});
  const Graph graph(net.finish());
  Plan plan = plan_by_cuts(graph, {}, {}, /*mini_batch=*/1, Alignment::kFlush);
  plan.accounting = Accounting::kFull;
  set_times(plan, graph, kMicrosecond);
  const auto images_with = [&](int64_t held) {
    plan.shards[0].act_ram_bits = held * row_bits;
    plan.shards[1].act_ram_bits = rows * row_bits;
    return simulate(plan, graph, {.samples = 6, .act_ram = 1, .paced = false}).finished.size();
  };
  EXPECT_EQ(images_with(5), 6U);
  EXPECT_THROW(images_with(4), Error);
}

// The second engine takes five times as long: the first can do one row in five, and waits for room the rest of the time.
TEST(HandDerived, AFullBufferHoldsTheFasterEngineBack) {
  const Graph graph(row_convolutions(2, 4, 1));
  Plan plan = one_layer_per_device(graph, {100, 100, 0, 0});
  set_times(plan.shards[0], graph, kMicrosecond);
  set_times(plan.shards[1], graph, 5 * kMicrosecond);
  const SimulationResult result = simulate(plan, graph, {.samples = 40, .fifo_rows = 1, .paced = false});
  const SimulatedStage& forward = stage_of(result, 0, Phase::kForward);
  const int64_t rows = 20 * 4;  // of the second half
  expect_time(forward.busy, rows * kMicrosecond, "FP of conv1 works 20 H t");
  expect_time(forward.window, (rows - 1) * 5 * kMicrosecond + kMicrosecond, "of (20 H - 1) 5 t + t");
  expect_time(forward.waited[1], (rows - 1) * 4 * kMicrosecond, "and waits for room for (20 H - 1) 4 t");
  EXPECT_DOUBLE_EQ(result.images_per_second, 1e12 / (4 * 5.0 * kMicrosecond));
}

// A mini-batch of n images drains: H n rows, and four rows until the last gradient of the first of three layers.
TEST(HandDerived, AMiniBatchBoundaryDrainsThePipeline) {
  const int64_t rows = 8;
  const int64_t n = 3;
  const int64_t row = kMicrosecond;
  const Graph graph(row_convolutions(3, rows, 3));
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}) {
    Plan plan = plan_by_cuts(graph, {}, {}, n, alignment);
    set_times(plan, graph, row);
    const SimulationResult result = simulate(plan, graph, {.samples = 4 * n, .paced = false});
    expect_time(result.finished[n - 1], (n * rows + 4) * row, fmt::format("{}: n H t + 4 t of draining", name_of(alignment)));
    expect_time(result.finished[4 * n - 1] - result.finished[2 * n - 1], 2 * (n * rows + 4) * row, "and so for every mini-batch");
  }
  // fpdeep goes on with the old weights: the next sample is under way at the update. What is lost is less than a drain.
  Plan plan = plan_by_cuts(graph, {}, {}, n, Alignment::kFpdeep, {2});
  set_times(plan, graph, row);
  const SimulationResult result = simulate(plan, graph, {.samples = 8 * n, .paced = false});
  const int64_t time = result.finished[8 * n - 1] - result.finished[4 * n - 1];
  fmt::print("  fpdeep: from 4 n H t = {} to less than 4 (n H + 4) t = {} ps, simulated {} ps\n", 4 * n * rows * row,
             4 * (n * rows + 4) * row, time);
  EXPECT_GE(time, 4 * n * rows * row);
  EXPECT_LT(time, 4 * (n * rows + 4) * row);
}

// Two devices that take turns, one sample a micro-batch, no window: F0 of both, E and G of both, one after the other.
TEST(HandDerived, DevicesThatTakeTurnsFollowTheList) {
  const Graph graph(row_convolutions(2, 4, 1, 20));
  Plan plan = one_layer_per_device(graph, {0.1, 0.1, 0, 0.25}, 1, Alignment::kFlush);
  set_times(plan, graph, 10 * kMicrosecond, 0);
  const int64_t message = 4 * 3'200'000;  // all rows of the sample at once
  const int64_t latency = 250'000;
  const SimulationResult result = simulate(plan, graph, {.samples = 6});
  // F on 0, message, F E G on 1 (the error leaves after E), message, G on 0.
  const int64_t sample = (1 + 2 + 1) * 10 * kMicrosecond + 2 * (message + latency);
  expect_time(result.finished[0], sample, "F, message, F and E, message, G: 4 t + 2 (message + latency)");
  expect_time(result.finished[5] - result.finished[2], 3 * sample, "and the next sample only then: 3 times as long for three");
}

TEST(HandDerived, AMessageOfFractionsOfPicosecondsNeverDrifts) {
  // 64 bits at 7 Gb/s: 9142 6/7 ps a row; the link is the slowest by far.
  const Graph graph(row_convolutions(2, 5, 1));
  Plan plan = one_layer_per_device(graph, {7, 7, 0, 0});
  set_times(plan, graph, 1);
  const SimulationResult result = simulate(plan, graph, {.samples = 1400, .fifo_rows = 8, .paced = false});
  expect_time(result.finished[1399] - result.finished[699], 700 * 5 * 64'000 / 7, "700 images: 700 * 5 * 64 / 7 ns");
}

}  // namespace
}  // namespace millrace
