// Room for more samples where boards have blocks to spare: as much as fits, as little as keeps the pace.
#include "fpga/conv_ce/generator/ring_rooms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/plan/placement.h"
#include "core/plan/words_outside.h"
#include "fpga/conv_ce/generator/device_check.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
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
  EXPECT_GT(time_ring(bare, graph, devices).waiting.seconds, 1.5 * engines) << "a plan without blocks";
  const RingWaiting waiting = time_ring(rich, graph, devices).waiting;
  EXPECT_LT(waiting.seconds, 1.01 * engines);
  EXPECT_FALSE(waiting.waits);
  EXPECT_EQ(pace_ratio(check_devices(rich, graph, devices)), pace_ratio(check_devices(bare, graph, devices)));
}

// Boards that share a layer of small maps: rows wait on their way to the next one. Where the pace is kept without, none do.
TEST(RingRooms, KeepRowsOnTheirWayToBoardsThatShareALayer) {
  constexpr int64_t kShort = 300, kEngines = 256;
  const Graph graph(shared_layer());
  Plan plan = ring_in_time(graph, kShort, 3600, {{1, 4, 0}, {1, 8, 0}, {1, 12, 0}, {2, 0, 0}});
  plan.budgets[0].amounts.push_back({"bram36", 1000});
  const RingWaiting waiting = time_ring(plan, graph, all_devices(plan)).waiting;
  EXPECT_LT(waiting.seconds * kTwoHundredMegahertz, 1.01 * kEngines);
  const auto passing_of = [](const Plan& of, const Graph& network) {
    const Placement placement(of, network);
    return ring_rooms(placement, ring_pace(of, network)).passing;
  };
  const auto passing = passing_of(plan, graph);
  EXPECT_EQ(std::ssize(passing), 3);
  DeviceDesign design = device_design(plan, graph, 1, nullptr);
  const int64_t beats = room_at(design, passing.at(1).begin()->first);
  EXPECT_EQ(beats, passing.at(1).begin()->second);
  EXPECT_LT(beats, 2 * 4 * 8) << "rows of a few beats each, not maps";

  const Graph wide(wide_layers());
  EXPECT_TRUE(passing_of(plan_with(wide, 1000), wide).empty());
}

// The map before a stride of two takes the whole period to pass, so that there must be rows while EB makes the few of a sample's first and
// last step.
TEST(RingRooms, HoldSortedRowsForTheBeginningOfASample) {
  ModelBuilder net("strided", {3, 32, 32});
  net.conv("conv1", 32, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 7, {.kernel = 3, .stride = 2, .pad = 1});  // 17 steps of 16 x 7 sweeps over 17 columns
  net.relu("relu2");
  net.conv("conv3", 16, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  const Graph graph(net.finish());
  constexpr int64_t kOneChannelAtATime = 32 * 32 * 32;
  Plan plan = ring_in_time(graph, kOneChannelAtATime, 3600, {{1, 0, 0}});
  plan.budgets[0].amounts.push_back({"bram36", 1000});
  const auto sorted = ring_rooms(Placement(plan, graph), ring_pace(plan, graph)).sorted_blocks;
  ASSERT_EQ(std::ssize(sorted), 1) << "the device of the stride";
  const DeviceDesign design = device_design(plan, graph, 1, nullptr);
  EXPECT_EQ(design.shards[0].sorted_blocks, sorted.at(1));
  EXPECT_EQ(design.shards[0].sorter().row_banks, 3) << "four blocks of two rows";
  EXPECT_LT(time_ring(plan, graph, all_devices(plan)).waiting.seconds * kTwoHundredMegahertz, 1.005 * kOneChannelAtATime);

  const Graph wide(wide_layers());
  const Plan without = plan_with(wide, 1000);
  EXPECT_TRUE(ring_rooms(Placement(without, wide), ring_pace(without, wide)).sorted_blocks.empty());
}

// Between the least and all that would do: more blocks, never a slower ring, and never more than there are.
TEST(RingRooms, TakeWhatIsThere) {
  const Graph graph(wide_layers());
  const Plan bare = plan_with(graph, 0), rich = plan_with(graph, 1000);
  const std::vector<int64_t> devices = all_devices(rich);
  const double least = blocks_of(check_devices(bare, graph, devices)), most = blocks_of(check_devices(rich, graph, devices));
  ASSERT_GT(most, least + 4);
  double before = time_ring(bare, graph, devices).waiting.seconds;
  for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const Plan plan = plan_with(graph, std::ceil(least + part * (most - least)));
    const std::vector<DeviceCheck> checks = check_devices(plan, graph, devices);
    for (const DeviceCheck& check : checks) EXPECT_TRUE(check.fits()) << part << ": " << check.lacks;
    EXPECT_LE(blocks_of(checks), std::ceil(least + part * (most - least)));
    const double seconds = time_ring(plan, graph, devices).waiting.seconds;
    EXPECT_LE(seconds, 1.001 * before) << part;
    before = seconds;
  }
  EXPECT_LT(before, 1.01 * kPeriod / kTwoHundredMegahertz);
}

Plan plan_with_memory_outside(const Graph& graph, double bram36, double bytes_per_second) {
  Plan plan = plan_with(graph, bram36);
  plan.budgets[0].amounts.push_back({"dram_bytes_per_second", bytes_per_second});
  return plan;
}

// As few blocks as the least room takes: what waits lies outside, as far as that is fast enough.
TEST(RingRooms, LieOutsideWhereThereAreTooFewBlocks) {
  const Graph graph(wide_layers());
  const double least = std::ceil(blocks_of(check_devices(plan_with(graph, 0), graph, all_devices(plan_with(graph, 0)))));
  const Plan none = plan_with(graph, least), fast = plan_with_memory_outside(graph, least, 10e9);
  const std::vector<int64_t> devices = all_devices(none);
  const double engines = kPeriod / kTwoHundredMegahertz;
  EXPECT_GT(time_ring(none, graph, devices).waiting.seconds, 1.5 * engines) << "a board without a memory of its own";
  EXPECT_LT(time_ring(fast, graph, devices).waiting.seconds, 1.01 * engines);
  for (const DeviceCheck& check : check_devices(fast, graph, devices)) EXPECT_TRUE(check.fits()) << check.lacks;

  const DeviceDesign design = device_design(fast, graph, 0, nullptr);
  const std::vector<OutsideFifo> outside = outside_fifos(design);
  ASSERT_FALSE(outside.empty());
  double bytes = 0;
  int64_t end = stream_places(design, design.shards.size() - 1).end;
  for (const OutsideFifo& fifo : outside) {
    EXPECT_EQ(fifo.place, end) << fifo.name;
    EXPECT_EQ(fifo.place % 4096, 0) << fifo.name;
    EXPECT_GE(8 * fifo.sample_bytes(), fifo.rows * fifo.row_words * fifo.word_bits) << fifo.name;
    end += fifo.room->samples * fifo.sample_bytes();
    bytes += fifo.bytes_per_sample();
  }
  // A memory too slow for any of them.
  const Plan slow = plan_with_memory_outside(graph, least, 1);
  EXPECT_TRUE(outside_fifos(device_design(slow, graph, 0, nullptr)).empty());
  // One that has bytes for all but the last place: what does not fit stays on the chip.
  Plan small = fast;
  small.budgets[0].amounts.push_back({"dram_bytes", static_cast<double>(bytes_reached(design))});
  EXPECT_EQ(outside_fifos(device_design(small, graph, 0, nullptr)).size(), outside.size());
  small.budgets[0].amounts.back().amount -= 1;
  const DeviceDesign smaller = device_design(small, graph, 0, nullptr);
  EXPECT_LT(bytes_reached(smaller), bytes_reached(design));
  // A fifth longer: the ring is as slow as its memory outside, and no slower.
  const Plan tight = plan_with_memory_outside(graph, least, bytes / (1.2 * engines));
  const std::vector<DeviceCheck> checks = check_devices(tight, graph, devices);
  EXPECT_FALSE(outside_fifos(device_design(tight, graph, 0, nullptr)).empty());
  EXPECT_LT(checks[0].built_seconds, 1.26 * engines);
  EXPECT_GT(checks[0].built_seconds, 1.1 * engines);
}

// Where a block is missing it is not the largest memory that lies outside, with all its bytes.
TEST(RingRooms, LieOutsideNoMoreThanTheyHaveTo) {
  const Graph graph(wide_layers());
  const std::vector<int64_t> devices = all_devices(plan_with(graph, 0));
  const double least = std::ceil(blocks_of(check_devices(plan_with(graph, 0), graph, devices)));
  const double most = blocks_of(check_devices(plan_with(graph, 1000), graph, devices));
  const auto bytes_with = [&](double blocks) {
    double bytes = 0;
    for (const int64_t device : devices)
      for (const OutsideFifo& fifo : outside_fifos(device_design(plan_with_memory_outside(graph, blocks, 10e9), graph, device, nullptr)))
        bytes += fifo.bytes_per_sample();
    return bytes;
  };
  EXPECT_EQ(bytes_with(most), 0);
  double largest = 0;
  for (const OutsideFifo& fifo : movable_fifos(device_design(plan_with(graph, 1000), graph, 0, nullptr)))
    largest = std::max(largest, fifo.bytes_per_sample());
  const double one_missing = bytes_with(most - 1), all_missing = bytes_with(least);
  EXPECT_GT(one_missing, 0);
  EXPECT_LT(one_missing, all_missing);
  EXPECT_LT(one_missing, largest / 4);
}

// What a plan has outside is there, though the board has blocks to spare, with the room that would do; and nothing else is.
TEST(RingRooms, LieOutsideWhereThePlanHasThem) {
  const Graph graph(wide_layers());
  const Plan on_chip = plan_with_memory_outside(graph, 1000, 10e9);
  Plan planned = on_chip;
  Shard& first = planned.shards.front();
  ASSERT_TRUE(outside_fifos(device_design(on_chip, graph, first.device, nullptr)).empty());
  first.resources.push_back({std::string(kActRamBytesPerSample), 1});
  const Placement placement(planned, graph);
  RingPace pace = ring_pace(planned, graph);
  const DeviceDesign bare = device_design(placement, first.device, nullptr, {}, pace);
  pace.rooms = ring_rooms(placement, pace);
  EXPECT_EQ(pace.rooms.share, 1);
  const DeviceDesign built = device_design(placement, first.device, nullptr, {}, pace);
  const std::vector<OutsideFifo> outside = outside_fifos(built);
  ASSERT_EQ(outside.size(), 1U);
  EXPECT_EQ(outside[0].layer, first.layer);
  EXPECT_EQ(outside[0].of.kind, RoomPlace::Kind::kActRam);
  ASSERT_EQ(outside_fifos(bare).size(), 1U) << "before the ring is timed";
  EXPECT_GT(outside[0].room->samples, outside_fifos(bare)[0].room->samples) << "more than is planned has to wait";
  const std::vector<WaitingWords> words = waiting_words(planned, graph);
  ASSERT_EQ(words.size(), 1U);
  EXPECT_EQ(words[0].shard, 0);
  EXPECT_EQ(words[0].bytes, outside[0].bytes_per_sample());
  const std::vector<int64_t> devices = all_devices(planned);
  const double before = blocks_of(check_devices(on_chip, graph, devices)), after = blocks_of(check_devices(planned, graph, devices));
  EXPECT_LT(after, before);
  EXPECT_NEAR(time_ring(planned, graph, devices).waiting.seconds, time_ring(on_chip, graph, devices).waiting.seconds, 1e-9);
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
class RingRoomsOutside : public DeviceChecks {
 protected:
  // Everything that may lie outside does.
  DeviceDesign design_outside(const Model& model, int64_t cycles, const WeightSource& weights) const {
    const Graph graph(model);
    DeviceDesign design = device_design(ring_in_time(graph, cycles, 3600, {}), graph, 0, weights);
    for (const OutsideFifo& fifo : movable_fifos(design)) give_outside_room(design, fifo.of, 2);
    return design;
  }
  void pass(const DeviceDesign& design, const char* simulator) {
    write_device(design, folder_.path(), {.test_samples = 4});
    const std::string kernel = read_text(folder_.path() / "kernel.xml"), links = read_text(folder_.path() / "connectivity.cfg");
    for (const OutsideFifo& fifo : outside_fifos(design)) {
      EXPECT_NE(kernel.find(fmt::format("<port name=\"m_axi_{}\" mode=\"master\"", fifo.name)), std::string::npos) << fifo.name;
      EXPECT_NE(links.find(fmt::format(".m_axi_{}:DDR[0]", fifo.name)), std::string::npos) << fifo.name;
    }
    EXPECT_NE(read_text(folder_.path() / "README.md").find(fmt::format("{} bytes", bytes_reached(design))), std::string::npos);
    EXPECT_TRUE(succeeds("make -C " + folder_.path().string() + " lint " + simulator));
  }
};
TEST_F(RingRoomsOutside, PassUnderIcarus) {
  if (!succeeds("verilator --version") || !succeeds("iverilog -V")) GTEST_SKIP() << "verilator or iverilog is not installed";
  const DeviceDesign design = design_outside(four_layers(8, 8), 500, some_weights);
  ASSERT_EQ(outside_fifos(design).size(), 8U);
  pass(design, "icarus");
}
class RingRoomsOutsideLong : public RingRoomsOutside {};
TEST_F(RingRoomsOutsideLong, BehindRunningNorms) {
  if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
  pass(design_outside(residual_blocks(), 1500, normalising_weights), "verilator");
}
TEST_F(RingRoomsOutsideLong, BesideStreamedWeights) {
  if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
  const Graph graph(four_layers(8, 8));
  Plan plan = ring_in_time(graph, 900, 3600, {});
  for (Shard& shard : plan.shards)
    if (shard.layer == "fc") shard.resources.push_back({"dram_bytes", 1});
  DeviceDesign design = device_design(plan, graph, 0, some_weights);
  ASSERT_TRUE(std::ranges::any_of(design.shards, [](const ShardDesign& shard) { return shard.streams.has_value(); }));
  for (const OutsideFifo& fifo : movable_fifos(design)) give_outside_room(design, fifo.of, 2);
  pass(design, "verilator");
}
TEST_F(RingRoomsOutsideLong, AnInceptionBlock) {
  if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
  pass(design_outside(inception_block(), 2100, some_weights), "verilator");
}

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
