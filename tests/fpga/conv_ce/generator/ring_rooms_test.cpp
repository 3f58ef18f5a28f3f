// Room for more samples where boards have blocks to spare: as much as fits, as little as keeps the pace.
#include "fpga/conv_ce/generator/ring_rooms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/plan/placement.h"
#include "fpga/conv_ce/generator/device_check.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/generator/ring_waiting.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"
#include "tests/fpga/conv_ce/generator/whole_image_rings.h"

namespace millrace {
namespace {

constexpr int64_t kPeriod = 3000;

// Maps large enough for blocks.
Model wide_layers() {
  ModelBuilder net("wide", {3, 24, 24});
  net.conv("conv1", 16, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 16, {.kernel = 3, .pad = 1});
  net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.conv("conv3", 12, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

Plan plan_with(const Graph& graph, double bram36) {
  Plan plan = ring_in_time(graph, kPeriod, 3600, {{2, 0, 0}});
  if (bram36 > 0) plan.budgets[0].amounts.push_back({"bram36", bram36});
  return plan;
}

std::vector<int64_t> all_devices(const Plan& plan) {
  std::vector<int64_t> devices(static_cast<size_t>(plan.devices()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

double blocks_of(const std::vector<DeviceCheck>& checks) {
  double most = 0;
  for (const DeviceCheck& check : checks) most = std::max(most, check.built_amounts.bram36);
  return most;
}

TEST(RingRooms, KeepThePaceWhereThereAreBlocksToSpare) {
  const Graph graph(wide_layers());
  const Plan bare = plan_with(graph, 0), rich = plan_with(graph, 1000);
  const std::vector<int64_t> devices = all_devices(rich);
  const double engines = kPeriod / kTwoHundredMegahertz;
  EXPECT_GT(ring_waiting(bare, graph, devices)->seconds, 1.5 * engines) << "a plan without blocks";
  const std::optional<RingWaiting> waiting = ring_waiting(rich, graph, devices);
  EXPECT_LT(waiting->seconds, 1.01 * engines);
  EXPECT_FALSE(waiting->waits);
  EXPECT_EQ(pace_ratio(check_devices(rich, graph, devices)), pace_ratio(check_devices(bare, graph, devices)));
}

// Between the least and all that would do: more blocks, never a slower ring, and never more than there are.
TEST(RingRooms, TakeWhatIsThere) {
  const Graph graph(wide_layers());
  const Plan bare = plan_with(graph, 0), rich = plan_with(graph, 1000);
  const std::vector<int64_t> devices = all_devices(rich);
  const double least = blocks_of(check_devices(bare, graph, devices)), most = blocks_of(check_devices(rich, graph, devices));
  ASSERT_GT(most, least + 4);
  double before = ring_waiting(bare, graph, devices)->seconds;
  for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const Plan plan = plan_with(graph, std::ceil(least + part * (most - least)));
    const std::vector<DeviceCheck> checks = check_devices(plan, graph, devices);
    for (const DeviceCheck& check : checks) EXPECT_TRUE(check.fits()) << part << ": " << check.lacks;
    EXPECT_LE(blocks_of(checks), std::ceil(least + part * (most - least)));
    const double seconds = ring_waiting(plan, graph, devices)->seconds;
    EXPECT_LE(seconds, 1.001 * before) << part;
    before = seconds;
  }
  EXPECT_LT(before, 1.01 * kPeriod / kTwoHundredMegahertz);
}

// What one device is generated with is its part of the ring.
TEST(RingRooms, AreThoseOfTheDeviceThatIsGenerated) {
  const Graph graph(wide_layers());
  const Plan bare = plan_with(graph, 0), rich = plan_with(graph, 1000);
  const Placement placement(rich, graph);
  RingPace pace = ring_pace(rich, graph);
  pace.rooms = ring_rooms(placement, pace);
  EXPECT_EQ(pace.rooms.share, 1);
  const DeviceDesign alone = device_design(rich, graph, 0, nullptr), of_ring = device_design(placement, 0, nullptr, {}, pace);
  const DeviceDesign least = device_design(bare, graph, 0, nullptr);
  EXPECT_EQ(alone.shards[0].kept_beats, of_ring.shards[0].kept_beats);
  EXPECT_EQ(alone.shards[0].act_ram_beats, of_ring.shards[0].act_ram_beats);
  EXPECT_GT(alone.shards[0].kept_beats, 2 * least.shards[0].kept_beats);
  EXPECT_GT(alone.shards[0].act_ram_beats, 2 * least.shards[0].act_ram_beats);
}

// Bit for bit, with more room than a sample's.
using RingRoomsInSimulationLong = DeviceChecks;
TEST_F(RingRoomsInSimulationLong, PassUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  const Graph graph(four_layers(8, 8));
  Plan plan = ring_in_time(graph, 120);
  plan.budgets[0].amounts.push_back({"bram36", 1000});
  const DeviceDesign design = device_design(plan, graph, 0, some_weights);
  const ShardDesign& first = design.shards.front();
  EXPECT_GT(first.kept_beats, first.groups(first.layer_outputs) * first.window.out_height * first.window.out_width);
  write_device(design, folder_.path(), {.test_samples = 2});
  EXPECT_TRUE(succeeds("make -C " + folder_.path().string() + " icarus"));
}

}  // namespace
}  // namespace millrace
