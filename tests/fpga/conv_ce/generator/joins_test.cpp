// Maps that pass layers and devices, and meet: sums, concatenations, what follows them; their testbenches pass under Icarus, and all
// devices in one simulation with random pauses.
#include <gtest/gtest.h>

#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/device_vectors.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
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

// Of what each of so many convolutions makes of the first one's map; the sum of the first two is out of an element's range, not that of
// all.
Graph sum_of(int64_t maps) {
  ModelBuilder net("sums", {2, 4, 5});
  const std::string input = net.conv("conv1", 3, {.kernel = 1});
  std::vector<std::string> summed;
  for (int64_t map = 0; map < maps; ++map) {
    net.continue_from(input);
    summed.push_back(net.conv(fmt::format("map{}", map), 3, {.kernel = map % 2 == 0 ? 1 : 3, .pad = map % 2}));
  }
  net.add("sum", summed);
  net.relu("relu");
  net.flatten("flat");
  net.dense("fc", 2);
  return Graph(net.finish());
}

std::vector<double> opposed_weights(const Node& node, const ParameterSpec& parameter) {
  const double weight = node.layer.name == "map0" || node.layer.name == "map1" ? 1.9 : node.layer.name == "conv1" ? 1.5 : -1.1;
  return std::vector<double>(static_cast<size_t>(parameter.elements()), parameter.tensor == "weight" ? weight : 0);
}

TEST_F(Joins, SumsOfSeveralMapsSaturateOnce) {
  for (const int64_t maps : {2, 3, 4, 5}) {
    const Graph graph = sum_of(maps);
    const DeviceDesign design = device_design(cut_plan(graph, {{maps + 1, 0, 0}}, 5), graph, 0, opposed_weights);
    const DeviceVectors vectors = device_vectors(design, 4, 1, 3);
    const auto beats = [&](const std::vector<StreamVectors>& streams, const char* name) -> const std::vector<int16_t>& {
      return std::ranges::find(streams, name, &StreamVectors::name)->beats;
    };
    ArithmeticCounters counters;
    const auto sums_of = [&](const ShardDesign& shard, const std::vector<int16_t>& map) {
      std::vector<int32_t> sums(shard.shape.output_elements());
      accumulate_forward(shard.shape, map, shard.weight, sums, counters);
      return to_elements(sums, shard.formats.sum_shift(), counters);
    };
    const BeatOrder in{.channels = 2, .height = 4, .width = 5, .lanes = design.lanes};
    BeatOrder out = in;
    out.channels = 3;
    const std::vector<int16_t> input = sums_of(design.shards[0], map_of_beats(in, beats(vectors.inputs, "s_activation")));
    std::vector<int64_t> all(input.size()), first_two(input.size());
    for (size_t map = 1; map < design.shards.size(); ++map) {
      const std::vector<int16_t> made = sums_of(design.shards[map], input);
      for (size_t i = 0; i < made.size(); ++i) {
        all[i] += made[i];
        if (map <= 2) first_two[i] += made[i];
      }
    }
    const std::vector<int16_t> given = map_of_beats(out, beats(vectors.outputs, "m_activation"));
    int64_t out_of_range = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(given[i], std::max<int64_t>(0, saturated(all[i]))) << maps << " maps, element " << i;
      if (saturated(first_two[i]) != first_two[i] && saturated(all[i]) == all[i]) ++out_of_range;
    }
    EXPECT_TRUE(maps == 2 || out_of_range > 0) << maps;
  }
}

TEST_F(Joins, SumsOfSeveralMapsPassUnderIcarus) { pass_under_icarus(sum_of(3), {{4, 0, 0}}, {}, opposed_weights, {.first = 0, .end = 1}); }

TEST_F(JoinsLong, SumsOfMapsFromSeveralDevices) { ring_passes(sum_of(5), {{2, 0, 0}, {4, 1, 0}}, 5); }

TEST_F(JoinsLong, SumsOfSeveralMapsAreCleanWithoutWaivers) { are_clean(sum_of(5), {{4, 0, 0}}); }

TEST_F(Joins, NamesWhatItCannotJoin) {
  ModelBuilder net("sums", {2, 4, 4});
  const std::string a = net.conv("conv1", 2, {.kernel = 1});
  net.add("sum", {a, a});
  net.flatten("flat");
  net.dense("fc", 2);
  const Graph graph(net.finish());
  expect_error(ErrorCode::kUnavailable, "layer sum: it joins a map with itself",
               [&] { device_design(cut_plan(graph, {}, 5), graph, 0, some_weights); });
}

}  // namespace
}  // namespace millrace
