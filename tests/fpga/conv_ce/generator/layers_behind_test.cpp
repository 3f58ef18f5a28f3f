// Devices whose errors go back through strides, averages, their ReLU and folded batch norms: their testbenches hold the functional
// model's streams and gradients, and pass under Icarus.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/conv_ce/arithmetic/square_kernel.h"
#include "fpga/conv_ce/generator/device_files.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/layers_without_hardware.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"
#include "tests/fpga/conv_ce/generator/layer_models.h"

namespace millrace {
namespace {

using LayersBehind = DeviceChecks;
using LayersBehindLong = LayersBehind;  // what a case of the other covers in part

TEST_F(LayersBehindLong, ErrorsGoBackThroughStrides) { pass_under_icarus(Graph(strided_model()), {{2, 1, 0}}); }

// A cut inside a group of lanes: errors of both devices meet row by row.
TEST_F(LayersBehind, ErrorsOfADividedStrideMeet) { pass_under_icarus(Graph(strided_model()), {{1, 3, 2}}); }

// Divided, DividedOutputs has them checked with every check.
TEST_F(LayersBehindLong, StridesAreCleanWithoutWaivers) { are_clean(Graph(strided_model()), {{1, 2, 0}}); }

TEST_F(LayersBehindLong, ErrorsGoBackThroughAverages) { pass_under_icarus(Graph(average_model()), {{2, 1, 0}}); }

// The last device of a group un-pools; the ones before get rows one by one where a ReLU came first, in blocks where none did.
TEST_F(LayersBehind, ErrorsOfADividedAverageMeet) { pass_under_icarus(Graph(average_model()), {{1, 3, 2}, {2, 2, 0}}); }

TEST_F(LayersBehindLong, AveragesAreCleanWithoutWaivers) { are_clean(Graph(average_model()), {{1, 2, 0}}); }

TEST_F(LayersBehind, CountsWhatStridesAndAveragesTake) {
  const Graph strided(strided_model());
  const DeviceDesign first = device_design(cut_plan(strided, {{2, 1, 0}}), strided, 0, some_weights);
  ASSERT_TRUE(first.shards[1].sorts_errors());
  EXPECT_FALSE(first.shards[0].sorts_errors());
  const auto use_of = [](const DeviceDesign& design, const std::string& layer, const std::string& module) -> std::optional<ModuleUse> {
    for (const ModuleUse& use : device_resources(design))
      if (use.layer == layer && use.module == module) return use;
    return std::nullopt;
  };
  // Four rows of as many groups of five columns as the engine makes, in LUTs.
  const ShardDesign& second_layer = first.shards[1];
  EXPECT_EQ(second_layer.sorter(), sorter_memory(second_layer.engine.groups_of_inputs(second_layer.shape.inputs), 5, 2));
  EXPECT_EQ(second_layer.sorter().row_banks, 2);
  EXPECT_GT(use_of(first, "conv2", "row_sorter (EB's rows)")->luts, 0);
  EXPECT_FALSE(use_of(first, "conv1", "row_sorter (EB's rows)"));

  const Graph averages(average_model());
  const DeviceDesign second = device_design(cut_plan(averages, {{2, 1, 0}}), averages, 0, some_weights);
  const auto lanes = static_cast<double>(second.lanes);
  EXPECT_EQ(use_of(second, "conv1", "special_function_unit")->dsp, 3 * lanes) << "a scale, and two for a sum of twenty bits";
  EXPECT_EQ(use_of(second, "conv1", "unpooling_unit")->dsp, lanes);
  EXPECT_TRUE(use_of(second, "conv1", "deep_fifo (ReLU's mask)"));
  EXPECT_TRUE(use_of(second, "conv1", "row_sorter (un-pooled rows)"));
  EXPECT_FALSE(use_of(second, "conv2", "deep_fifo (ReLU's mask)")) << "no ReLU before it";
  EXPECT_FALSE(use_of(second, "conv2", "deep_fifo (winners)"));
}

TEST_F(LayersBehind, DropoutIsMadeOnTheBoard) { pass_under_icarus(Graph(dropout_model()), {{1, 3, 2}, {2, 2, 0}}); }

// A testbench has no more samples than a mini-batch: dropout draws for so many.
TEST_F(LayersBehind, DropsOutOfMiniBatchesOfOne) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  ModelBuilder net("one", {1, 2, 2});
  net.conv("conv1", 2, {.kernel = 1});
  net.flatten("flat");
  net.dense("fc1", 2);
  net.dropout("drop", 0.5);
  net.dense("fc2", 2);
  const Graph graph(net.finish());
  Plan plan = cut_plan(graph, {}, /*tiles=*/2);
  plan.mini_batch = 1;
  write_device(device_design(plan, graph, 0, some_weights), folder_.path(), {.test_samples = 2});
  EXPECT_TRUE(succeeds("make -C " + folder_.path().string() + " icarus"));
  EXPECT_THAT(read_text(folder_.path() / "README.md"), testing::HasSubstr("vectors/ | 1 sample of"));
}

TEST_F(LayersBehind, DropoutIsCleanWithoutWaivers) { are_clean(Graph(dropout_model()), {{2, 1, 0}}); }

TEST_F(LayersBehind, CountsDropout) {
  const Graph graph(dropout_model());
  const DeviceDesign design = device_design(cut_plan(graph, {{2, 1, 0}}), graph, 0, some_weights);
  const auto uses = device_resources(design);
  const auto found = std::ranges::find(uses, "dropout_unit (forward, back)", &ModuleUse::module);
  ASSERT_NE(found, uses.end());
  EXPECT_EQ(found->dsp, 18) << "two products of 32 bits and a scale, forward and back";
}

// Whole, where groups take sweeps of their own, and divided.
TEST_F(LayersBehind, ChannelGroupsDoNotMix) { pass_under_icarus(Graph(grouped_model()), {{2, 0, 0}, {2, 6, 0}}); }

TEST_F(LayersBehind, ChannelGroupsTakeSweepsOfTheirOwn) {
  const Graph graph(grouped_model());
  const Plan plan = cut_plan(graph, {{2, 0, 0}, {2, 6, 0}}, /*tiles=*/5);
  const ShardDesign whole = device_design(plan, graph, 0, some_weights).shards[1],
                    part = device_design(plan, graph, 1, some_weights).shards[0];
  EXPECT_EQ(whole.engine.channel_groups, 2);
  EXPECT_EQ(3 % whole.engine.input_lanes, 0);
  EXPECT_EQ(4 % whole.engine.output_lanes, 0);
  EXPECT_EQ(part.engine.channel_groups, 1) << "kernels between channels that do not mix are zero";
  int64_t other = 0;  // of output 0, which takes inputs 0 and 1
  ASSERT_GT(part.shape.inputs, 2);
  for (int64_t input = 2; input < part.shape.inputs; ++input)
    for (int64_t tap = 0; tap < 9; ++tap) other += part.weight[static_cast<size_t>(input * 9 + tap)] != 0;
  EXPECT_EQ(other, 0);
}

TEST_F(LayersBehind, WindowsMayBeWide) { pass_under_icarus(Graph(wide_windows_model()), {{2, 0, 0}}); }

TEST_F(LayersBehindLong, AveragesMayBeOfWholeMaps) { pass_under_icarus(Graph(tiled_averages_model()), {{2, 0, 0}}); }

TEST_F(LayersBehind, MaximaMayBeOfWholeMaps) { pass_under_icarus(Graph(tiled_maxima_model()), {{1, 3, 0}}); }

TEST_F(LayersBehind, MaximaOfWholeMapsAreCleanWithoutWaivers) { are_clean(Graph(tiled_maxima_model()), {}); }

TEST_F(LayersBehindLong, AveragesOfWholeMapsAreCleanWithoutWaivers) { are_clean(Graph(tiled_averages_model()), {}); }

TEST_F(LayersBehind, LargeWindowsMayOverlap) { pass_under_icarus(Graph(overlapping_windows_model()), {{1, 3, 2}, {2, 1, 0}}); }

TEST_F(LayersBehind, LargeWindowsThatOverlapAreCleanWithoutWaivers) { are_clean(Graph(overlapping_windows_model()), {}); }

// A maximum compares all the windows that a pixel lies in, an average adds them up by rows and by columns.
TEST_F(LayersBehind, CountsLargeWindowsThatOverlap) {
  const Graph graph(overlapping_windows_model());
  const DeviceDesign design = device_design(cut_plan(graph, {}), graph, 0, some_weights);
  const std::vector<ModuleUse> uses = device_resources(design);
  const auto use_of = [&](const std::string& layer, const std::string& module) {
    return *std::ranges::find_if(uses, [&](const ModuleUse& use) { return use.layer == layer && use.module == module; });
  };
  const auto lanes = static_cast<double>(design.lanes);
  EXPECT_EQ(use_of("conv3", "special_function_unit").dsp, 3 * lanes) << "a scale, and two to divide a sum of 23 bits";
  EXPECT_EQ(use_of("conv3", "unpooling_unit").dsp, lanes);
  EXPECT_GT(use_of("conv1", "unpooling_unit").luts, 4 * use_of("conv3", "unpooling_unit").luts) << "81 windows over a pixel, or 7";
}

TEST_F(LayersBehind, ElementsMayLieBetweenWindows) { pass_under_icarus(Graph(sparse_windows_model()), {}); }

// A maximum has no reciprocal.
TEST_F(LayersBehind, RefusesWindowsThatArithmeticCannotHave) {
  const auto refused = [](const Pool2d& pool, const std::string& reason) {
    ModelBuilder net("huge", {1, 200, 200});
    net.conv("conv", 2, {.kernel = 3, .pad = 1});
    net.layer("pool", pool);
    net.flatten("flat");
    net.dense("fc", 2);
    const Graph graph(net.finish());
    const auto found = layers_without_hardware(graph);
    return reason.empty() ? found.empty() : found.contains("pool") && found.at("pool").starts_with(reason);
  };
  Pool2d pool{.kernel_h = 100, .kernel_w = 100, .stride_h = 10, .stride_w = 10};
  EXPECT_TRUE(refused(pool, ""));
  pool.kind = PoolKind::kAverage;
  EXPECT_TRUE(refused(pool, "its window has 10000 elements, more than 2048"));
}

// They were taken as a window over the whole sequence, of which another came out.
TEST_F(LayersBehind, RefusesDenseLayersThatWorkStepByStep) {
  ModelBuilder net("dense-steps", {5, 7, 1});
  net.conv("conv1", 6, {.kernel = 1});
  net.dense("dense2", 5);
  net.flatten("flat");
  net.dense("fc", 4);
  const auto refused = layers_without_hardware(Graph(net.finish()));
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_NE(refused.at("dense2").find("7 steps"), std::string::npos) << refused.at("dense2");
}

TEST_F(LayersBehind, KernelsMayBeDilated) { pass_under_icarus(Graph(dilated_model()), {{2, 2, 0}}); }

TEST_F(LayersBehind, KernelsMayBeOblong) { pass_under_icarus(Graph(oblong_kernels_model()), {{2, 2, 0}}); }

// The generator's kernels on the generator's map, computed as any convolution, are the layer's.
TEST_F(LayersBehind, AnOblongKernelIsALargerOneWithZeros) {
  std::mt19937_64 random(5);
  int64_t squares = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto draw = [&](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    ConvolutionShape shape{
        .inputs = 1, .outputs = 1, .height = draw(4, 12), .width = draw(4, 12), .kernel_h = draw(1, 4), .kernel_w = draw(1, 4)};
    shape.stride_h = shape.stride_w = draw(1, 3);
    shape.pad_h = draw(0, 3);
    shape.pad_w = draw(0, 3);
    shape.dilation_h = draw(1, 2);
    shape.dilation_w = draw(1, 2);
    if ((shape.kernel_h - 1) * shape.dilation_h >= shape.height + 2 * shape.pad_h ||
        (shape.kernel_w - 1) * shape.dilation_w >= shape.width + 2 * shape.pad_w)
      continue;
    const std::optional<ConvolutionShape> square = with_square_kernel(shape);
    if (!square) {
      EXPECT_TRUE(shape.kernel_h != shape.kernel_w || shape.pad_h != shape.pad_w || shape.dilation_h != shape.dilation_w);
      continue;
    }
    ++squares;
    ASSERT_EQ(square->kernel_h, square->kernel_w);
    std::vector<int16_t> input(shape.input_elements()), weight(shape.weight_elements()), larger(square->weight_elements());
    for (int16_t& element : input) element = static_cast<int16_t>(draw(-9, 9));
    for (int64_t tap = 0; tap < shape.kernel_h * shape.kernel_w; ++tap) {
      weight[static_cast<size_t>(tap)] = static_cast<int16_t>(draw(-9, 9));
      larger[static_cast<size_t>(square_place(shape, *square, tap / shape.kernel_w, tap % shape.kernel_w))] =
          weight[static_cast<size_t>(tap)];
    }
    ArithmeticCounters counters;
    std::vector<int32_t> expected(shape.output_elements()), found(square->output_elements());
    accumulate_forward(shape, input, weight, expected, counters);
    accumulate_forward(*square, input, larger, found, counters);
    ASSERT_EQ(found, expected) << "round " << round;
  }
  EXPECT_GT(squares, 300);
}

TEST_F(LayersBehind, ADilatedKernelIsALargerOneWithZerosBetween) {
  const Graph graph(dilated_model());
  const ShardDesign shard = device_design(cut_plan(graph, {{2, 0, 0}}), graph, 0, ones).shards[1];
  ASSERT_EQ(shard.engine.kernel, 5);
  for (size_t tap = 0; tap < 25; ++tap) EXPECT_EQ(shard.weight[tap] != 0, tap / 5 % 2 == 0 && tap % 5 % 2 == 0) << tap;
}

// Row by row, as the model has them: of a dilated kernel, and of a dense layer over its map.
TEST_F(LayersBehind, WeightsLieWhereTheLayerHasThem) {
  const auto lie_there = [](const Graph& graph, const std::string& layer, int64_t kernel, int64_t spread) {
    const DeviceDesign design = device_design(cut_plan(graph, {}), graph, 0, some_weights);
    const ShardDesign& shard = *std::ranges::find(design.shards, layer, &ShardDesign::layer);
    const int64_t side = (kernel - 1) * spread + 1, pairs = shard.shape.inputs * shard.shape.outputs;
    ASSERT_EQ(shard.engine.kernel, side) << layer;
    ASSERT_EQ(static_cast<int64_t>(shard.weight.size()), pairs * side * side) << layer;
    for (int64_t pair = 0; pair < pairs; ++pair)
      for (int64_t row = 0; row < kernel; ++row)
        for (int64_t column = 0; column < kernel; ++column) {
          const int64_t index = (pair * kernel + row) * kernel + column;
          const double value = static_cast<double>(index * 7919 % 1000) / 1000.0 - 0.5;  // of some_weights
          const int16_t there = shard.weight[static_cast<size_t>((pair * side + row * spread) * side + column * spread)];
          EXPECT_NEAR(static_cast<double>(there), std::ldexp(value, shard.formats.weight.fraction_bits), 0.5)
              << layer << " " << pair << ": " << row << ", " << column;
        }
  };
  lie_there(Graph(dilated_model()), "conv2", 3, 2);
  lie_there(Graph(dilated_model()), "conv3", 2, 2);
  lie_there(Graph(dense_model()), "fc1", 1, 1);
}

// A flattened input is channels of one pixel, whole and divided; nobody takes its errors.
TEST_F(LayersBehind, TheNetworksInputMayBeFlattened) {
  const Graph graph(dense_model());
  const DeviceDesign first = device_design(cut_plan(graph, {{2, 0, 0}}, 5), graph, 0, some_weights);
  ASSERT_EQ(first.shards.size(), 1U);
  EXPECT_EQ(first.shards[0].layer, "fc1");
  EXPECT_EQ(first.shards[0].engine.kernel, 1);
  EXPECT_FALSE(first.shards[0].error_back);
  ASSERT_FALSE(first.maps.empty());
  EXPECT_EQ(first.maps[0].channels.size(), 32);
  EXPECT_FALSE(first.maps[0].error_back);
  pass_under_icarus(graph, {{1, 20, 3}, {2, 3, 0}});
}

TEST_F(LayersBehind, RefusesWhatAFlattenedInputCannotHave) {
  const Graph graph(dense_model());
  expect_error(ErrorCode::kUnavailable, "layer flat: it computes nothing and is alone on its board", [&] {
    device_design(cut_plan(graph, {{1, 0, 0}}, 5), graph, 0, some_weights);
  });
  ModelBuilder net("dropped", {2, 4, 4});
  net.flatten("flat");
  net.dropout("drop", 0.5);
  net.dense("fc", 3);
  const Graph dropped(net.finish());
  expect_error(ErrorCode::kUnavailable, "layer drop: it works on the network's input",
               [&] { device_design(cut_plan(dropped, {}, 5), dropped, 0, some_weights); });
}

TEST_F(LayersBehind, RectifiersMayLeak) { pass_under_icarus(Graph(leaky_model()), {{2, 0, 0}}); }

TEST_F(LayersBehind, LeakyRectifiersAreCleanWithoutWaivers) { are_clean(Graph(leaky_model()), {{2, 0, 0}}); }

TEST_F(LayersBehind, ChannelsMayRespond) { pass_under_icarus(Graph(response_model()), {{2, 0, 0}}); }

TEST_F(LayersBehind, ResponsesAreCleanWithoutWaivers) { are_clean(Graph(response_model()), {{2, 0, 0}}); }

TEST_F(LayersBehind, ChannelsMayRespondToThemselvesAlone) {
  ModelBuilder net("alone", {3, 6, 6});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.layer("norm", LocalResponseNorm{.size = 1, .alpha = 0.5, .beta = 0.75, .k = 2});
  net.flatten("flat");
  net.dense("fc", 3);
  const Graph graph(net.finish());
  pass_under_icarus(graph, {});
  are_clean(graph, {});
}

TEST_F(LayersBehind, WindowsMayBeOblong) { pass_under_icarus(Graph(oblong_model()), {{2, 1, 1}}); }

TEST_F(LayersBehindLong, OblongWindowsAreCleanWithoutWaivers) { are_clean(Graph(oblong_model()), {}); }

TEST_F(LayersBehind, ActivationsMayBeSmooth) { pass_under_icarus(Graph(smooth_model()), {{2, 1, 1}}, {}, normalising_weights); }

TEST_F(LayersBehindLong, SmoothActivationsAreCleanWithoutWaivers) { are_clean(Graph(smooth_model()), {}, {}, normalising_weights); }

TEST_F(LayersBehind, ErrorsGoBackThroughFoldedBatchNorms) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  const Graph graph(normalised_model(/*frozen=*/true));
  const Plan plan = cut_plan(graph, {{1, 3, 2}, {2, 2, 0}}, /*tiles=*/5);
  for (int64_t device = 0; device < plan.devices(); ++device) {
    const auto place = folder_.path() / std::to_string(device);
    const DeviceDesign design = device_design(plan, graph, device, normalising_weights);
    EXPECT_EQ(design.weights_quantised.saturated, 0);
    write_device(design, place, {.test_samples = 2});
    EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus")) << "device " << device;
    EXPECT_TRUE(!succeeds("verilator --version") || succeeds("make -C " + place.string() + " lint")) << "device " << device;
  }
}

// Statistics of a version forward and back, and 64 bits of sums; whole, and on the last device of a divided layer.
TEST_F(LayersBehind, BatchNormsRunAlong) { pass_under_icarus(Graph(running_model()), {{2, 1, 1}, {4, 0, 0}}, {}, normalising_weights); }

TEST_F(LayersBehindLong, BatchNormsRunAlongOnOneDevice) { pass_under_icarus(Graph(running_model()), {}, {}, normalising_weights); }

TEST_F(LayersBehindLong, RunningBatchNormsAreCleanWithoutWaivers) {
  are_clean(Graph(running_model()), {{2, 1, 1}}, {}, normalising_weights);
}

TEST_F(LayersBehind, CountsRunningBatchNorms) {
  const Graph graph(running_model());
  const DeviceDesign design = device_design(cut_plan(graph, {}, 20), graph, 0, normalising_weights);
  const std::vector<ModuleUse> uses = device_resources(design);
  const auto found = std::ranges::find(uses, "running_norm_back", &ModuleUse::module);
  ASSERT_NE(found, uses.end());
  EXPECT_EQ(found->dsp, 4.0 * static_cast<double>(design.lanes)) << "scale, slope, a square, a product with the error";
  EXPECT_EQ(std::ranges::count(uses, "deep_fifo (what the norm is given)", &ModuleUse::module), 5);
  int64_t gathered = 0;
  for (const MemoryRegion& region : stored_regions(design)) gathered += region.kind == 3 ? 1 : 0;
  EXPECT_EQ(gathered, 5);
}

TEST_F(LayersBehind, RefusesABatchNormThatIsTrained) {
  const Graph graph(normalised_model(/*frozen=*/false));
  expect_error(ErrorCode::kUnavailable, "layer norm1: it is a trained batch norm", [&] {
    device_design(cut_plan(graph, {{2, 1, 0}}), graph, 0, normalising_weights);
  });
}

}  // namespace
}  // namespace millrace
