// What is built beside what was planned: multipliers by phase, seconds, what is not generated, and the ring's pace.
#include "fpga/conv_ce/generator/device_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/model_builder.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"

namespace millrace {
namespace {

Model two_convolutions(bool normalised) {
  ModelBuilder net("two", {3, 12, 10});
  net.conv("conv1", 8, {.kernel = 5, .stride = 2, .pad = 2});
  net.relu("relu1");
  net.conv("conv2", 6, {.kernel = 3, .pad = 1});
  if (normalised)
    net.layer("norm2", BatchNorm{});  // trained with exact statistics
  else
    net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

constexpr double kClock = 200e6;

// Every engine takes `cycles` for a row.
Plan timed_plan(const Graph& graph, int64_t cycles, const Cut& cut = {1, 4, 0}) {
  Plan plan = cut_plan(graph, {cut});
  for (Shard& shard : plan.shards)
    for (PhaseEngine& engine : shard.phases) engine.picoseconds_per_unit = cycles * 5000;
  plan.budgets = {{"vc709", {{"clock_hz", kClock}, {"dsp_device", 3600}, {"bram36", 1470}, {"lut", 433200}, {"ff", 866400}}}};
  return plan;
}

TEST(DeviceCheck, CountsWhatIsPlannedAndBuilt) {
  const Graph graph(two_convolutions(false));
  const Plan plan = timed_plan(graph, 1000);
  const DeviceCheck check = check_device(plan, graph, 0);
  ASSERT_TRUE(check.generated) << check.reason;
  // conv1, whose errors nobody needs, and a part of conv2.
  EXPECT_EQ(check.planned, (PhaseMultipliers{20 * 25 + 20 * 9, 20 * 9, 20 * 25 + 20 * 9}));
  const DeviceDesign design = device_design(plan, graph, 0, nullptr);
  PhaseMultipliers built;
  for (const ShardDesign& shard : design.shards) {
    const int64_t multipliers = shard.engine.tiles() * shard.engine.taps();
    built.forward += multipliers;
    built.gradient += multipliers;
    if (shard.error_back) built.error_back += multipliers;
  }
  EXPECT_EQ(check.built, built);
  EXPECT_DOUBLE_EQ(check.planned_seconds, 6 * 1000 / kClock) << "rows of conv1's output";
  EXPECT_DOUBLE_EQ(check.built_seconds, static_cast<double>(slowest_stage(device_cycles(design)).cycles) / kClock);
  EXPECT_EQ(check.capacity.dsp, 3600);
  EXPECT_TRUE(check.fits());
}

TEST(DeviceCheck, TakesAsLongAsTheSlowestStage) {
  const Graph graph(two_convolutions(false));
  const DeviceDesign design = device_design(timed_plan(graph, 1000), graph, 0, nullptr);
  int64_t most = 0;
  for (const ShardDesign& shard : design.shards) {
    most = std::max(most, forward_cycles(shard.engine, shard.shape, 3) - forward_cycles(shard.engine, shard.shape, 2));
    most = std::max(most, gradient_cycles(shard.engine, shard.shape, 3) - gradient_cycles(shard.engine, shard.shape, 2));
  }
  EXPECT_GE(slowest_stage(device_cycles(design)).cycles, most);
  EXPECT_EQ(slowest_stage({{"a", "FP", 3}, {"b", "EB", 5}, {"c", "PG", 5}}).layer, "b");
}

TEST(DeviceCheck, SaysWhatIsNotGenerated) {
  const Graph graph(two_convolutions(true));
  const Plan plan = timed_plan(graph, 1000, {1, 0, 0});  // conv1 alone is on the first
  const DeviceCheck first = check_device(plan, graph, 0), second = check_device(plan, graph, 1);
  EXPECT_TRUE(first.generated);
  EXPECT_FALSE(second.generated);
  EXPECT_FALSE(second.fits());
  EXPECT_NE(second.reason.find("layer norm2"), std::string::npos) << second.reason;
  EXPECT_EQ(second.built, PhaseMultipliers{});
  EXPECT_GT(second.planned.all(), 0);
  EXPECT_FALSE(pace_ratio({first, second})) << "a ring with a device missing has no pace";
}

TEST(DeviceCheck, AllFitWhereEachOfThemDoes) {
  for (const bool normalised : {false, true}) {
    const Graph graph(two_convolutions(normalised));
    const Plan plan = timed_plan(graph, 1000, {1, 0, 0});
    for (const std::vector<int64_t>& devices : std::vector<std::vector<int64_t>>{{}, {0}, {1}, {0, 1}, {1, 0}}) {
      const std::vector<DeviceCheck> each = check_devices(plan, graph, devices, CheckedRooms::kLeast);
      EXPECT_EQ(all_devices_fit(plan, graph, devices, CheckedRooms::kLeast), std::ranges::all_of(each, &DeviceCheck::fits));
      EXPECT_EQ(std::ranges::all_of(each, &DeviceCheck::fits), !normalised || devices.empty() || devices == std::vector<int64_t>{0});
    }
  }
}

TEST(DeviceCheck, ThePaceIsThatOfTheSlowest) {
  DeviceCheck fast, slow;
  fast.generated = slow.generated = true;
  fast.planned_seconds = 2e-3, fast.built_seconds = 1e-3;
  slow.planned_seconds = 1e-3, slow.built_seconds = 8e-3;
  EXPECT_DOUBLE_EQ(*pace_ratio({fast, slow}), 0.25);
  EXPECT_FALSE(pace_ratio({}));
}

TEST(DeviceCheck, NeedsTheClock) {
  const Graph graph(two_convolutions(false));
  Plan plan = timed_plan(graph, 1000);
  plan.budgets.clear();
  expect_error(ErrorCode::kMismatch, "the plan does not say the clock of vc709", [&] { check_device(plan, graph, 0); });
}

}  // namespace
}  // namespace millrace
