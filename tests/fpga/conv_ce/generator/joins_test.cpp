// Maps that pass layers and devices, and meet: sums, concatenations, what follows them; their testbenches pass under Icarus, and all
// devices in one simulation with random pauses.
#include <gtest/gtest.h>

#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"
#include "tests/fpga/conv_ce/generator/layer_models.h"
#include "tests/fpga/conv_ce/generator/ring_bench.h"

namespace millrace {
namespace {

class Joins : public DeviceChecks {
 protected:
  void ring_passes(const Graph& graph, const std::vector<Cut>& cuts, int64_t tiles) {
    if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
    const RingBench bench(cut_plan(graph, cuts, tiles), graph, some_weights);
    bench.write(folder_.path());
    EXPECT_EQ(bench.run(folder_.path()), "PASS");
  }
};

using JoinsLong = Joins;  // what a case of the other covers in part

// A map that goes past two devices to the one that adds it.
TEST_F(JoinsLong, AMapPassesDevices) { ring_passes(Graph(shortcut_model()), {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}}, 5); }

// Cuts inside the layers that it passes, and inside the one behind.
TEST_F(JoinsLong, AMapPassesDividedLayers) { ring_passes(Graph(shortcut_model()), {{1, 2, 1}, {2, 1, 0}, {3, 1, 1}}, 5); }

TEST_F(JoinsLong, ResidualBlocksOnOneDevice) { ring_passes(Graph(residual_model()), {}, 5); }

TEST_F(JoinsLong, ResidualBlocksAreCut) { ring_passes(Graph(residual_model()), {{2, 0, 0}, {3, 2, 1}, {5, 0, 0}}, 5); }

TEST_F(JoinsLong, BranchesOnOneDevice) { ring_passes(Graph(inception_model()), {}, 5); }

TEST_F(Joins, BranchesAreCut) { ring_passes(Graph(inception_model()), {{2, 0, 0}, {3, 1, 0}, {5, 0, 0}, {7, 0, 0}}, 5); }

TEST_F(JoinsLong, BranchesMeetInLanes) { ring_passes(Graph(inception_model()), {{3, 1, 0}, {6, 0, 0}}, 20); }

TEST_F(JoinsLong, ResidualBlocksAreCleanWithoutWaivers) { are_clean(Graph(residual_model()), {{2, 0, 0}, {3, 2, 1}, {5, 0, 0}}); }

TEST_F(Joins, BranchesAreCleanWithoutWaivers) { are_clean(Graph(inception_model()), {{3, 1, 0}}); }

// Every other row of a map that is half as high; joined maps must come out alike.
TEST_F(Joins, MapsAreCroppedInProportion) {
  const Graph graph(residual_model());
  const DeviceDesign design = device_design(cut_plan(graph, {{2, 0, 0}, {3, 0, 0}}, 5), graph, 1, some_weights);
  ASSERT_EQ(design.maps.size(), 3U) << "relu1, the projection that passes, relu2a";
  EXPECT_EQ(design.maps[1].stream, "s_passing_0");
  EXPECT_FALSE(cropped_design(design, 3));
  ASSERT_TRUE(cropped_design(design, 4));
  EXPECT_EQ(cropped_design(design, 4)->maps[1].height, 2);
  expect_error(ErrorCode::kUsage, "maps of device 1 that are joined come out unequal",
               [&] { write_device(design, folder_.path(), {.test_rows = 5}); });
}

TEST_F(Joins, WhatComesEarlyWaits) {
  const Graph graph(residual_model());
  const DeviceDesign design = device_design(cut_plan(graph, {}, 20), graph, 0, some_weights);
  const auto of = [&](const std::string& layer) { return *std::ranges::find(design.maps, layer, &MapDesign::layer); };
  // The projection's way is the shorter one; so is that of errors through it.
  EXPECT_EQ(of("down2").readers.front().waiting_beats, 2 * 4 * 4);
  EXPECT_EQ(of("conv2b").readers.front().waiting_beats, 0);
  const MapDesign relu1 = of("relu1");
  ASSERT_EQ(relu1.readers.size(), 2U);
  EXPECT_EQ(relu1.readers[0].error_beats, 8 * 8) << "through down2";
  EXPECT_EQ(relu1.readers[1].error_beats, 0);
  double waiting = 0;
  for (const ModuleUse& use : device_resources(design))
    if (use.module.starts_with("deep_fifo (waits")) waiting += use.luts + use.bram18;
  EXPECT_GT(waiting, 0);
  bool counted = false;
  for (const StageCycles& stage : device_cycles(design)) counted = counted || (stage.layer == "relu3" && stage.stage == "pooling");
  EXPECT_TRUE(counted) << "tails are stages";
}

TEST_F(Joins, NamesWhatItCannotJoin) {
  ModelBuilder net("sums", {2, 4, 4});
  const std::string a = net.conv("conv1", 2, {.kernel = 1});
  const std::string b = net.conv("conv2", 2, {.kernel = 1});
  const std::string c = net.conv("conv3", 2, {.kernel = 1});
  net.add("sum", {a, b, c});
  net.flatten("flat");
  net.dense("fc", 2);
  const Graph graph(net.finish());
  expect_error(ErrorCode::kUnavailable, "layer sum: a sum of two maps is generated",
               [&] { device_design(cut_plan(graph, {}, 5), graph, 0, some_weights); });
}

}  // namespace
}  // namespace millrace
