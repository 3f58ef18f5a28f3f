// Devices whose errors go back through strides, averages, their ReLU and folded batch norms: their testbenches hold the functional
// model's streams and gradients, and pass under Icarus.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/files.h"
#include "core/graph/model_builder.h"
#include "fpga/conv_ce/generator/device_files.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"

namespace millrace {
namespace {

Pool2d average(const Window& window, bool count_padding) {
  return {.kind = PoolKind::kAverage,
          .kernel_h = window.kernel,
          .kernel_w = window.kernel,
          .stride_h = window.stride,
          .stride_w = window.stride,
          .pad_h = window.pad,
          .pad_w = window.pad,
          .count_include_pad = count_padding};
}

// Strides of two behind a pooling whose windows overlap, and again behind that.
Model strided_model() {
  ModelBuilder net("strided", {2, 9, 10});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv2", 4, {.kernel = 3, .stride = 2, .pad = 1});
  net.relu("relu2");
  net.conv("conv3", 3, {.kernel = 1, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Averages with and without a ReLU before them, over padding that counts and that does not, and over a whole map.
Model average_model() {
  ModelBuilder net("averages", {2, 9, 10});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("pool1", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.layer("pool2", average({.kernel = 2, .stride = 2, .pad = 1}, true));
  net.conv("conv3", 3, {.kernel = 3, .pad = 1});
  net.relu("relu3");
  net.layer("pool3", GlobalPool{});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

class LayersBehind : public testing::Test {
 protected:
  void pass_under_icarus(const Graph& graph, const std::vector<Cut>& cuts, const std::vector<Split>& splits = {}) {
    if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
    const Plan plan = cut_plan(graph, cuts, /*tiles=*/5, splits);
    for (int64_t device = 0; device < plan.devices(); ++device) {
      const auto place = folder_.path() / std::to_string(device);
      write_device(device_design(plan, graph, device, some_weights), place, {.test_samples = 2});
      EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus")) << "device " << device;
    }
  }
  void are_clean(const Graph& graph, const std::vector<Cut>& cuts, const std::vector<Split>& splits = {}) {
    if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
    const Plan plan = cut_plan(graph, cuts, /*tiles=*/5, splits);
    for (int64_t device = 0; device < plan.devices(); ++device) {
      const auto place = folder_.path() / std::to_string(device);
      write_device(device_design(plan, graph, device, some_weights), place, {});
      const bool clean = std::system(fmt::format("make -C {0} lint > {0}/lint.log 2>&1", place.string()).c_str()) == 0;
      EXPECT_TRUE(clean) << "device " << device << "\n" << read_text(place / "lint.log");
    }
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(LayersBehind, ErrorsGoBackThroughStrides) { pass_under_icarus(Graph(strided_model()), {{2, 1, 0}}); }

// A cut inside a group of lanes: errors of both devices meet row by row.
TEST_F(LayersBehind, ErrorsOfADividedStrideMeet) { pass_under_icarus(Graph(strided_model()), {{1, 3, 2}}); }

TEST_F(LayersBehind, StridesAreCleanWithoutWaivers) { are_clean(Graph(strided_model()), {{1, 2, 0}}); }

TEST_F(LayersBehind, ErrorsGoBackThroughAverages) { pass_under_icarus(Graph(average_model()), {{2, 1, 0}}); }

// The last device of a group un-pools; the ones before get rows one by one where a ReLU came first, in blocks where none did.
TEST_F(LayersBehind, ErrorsOfADividedAverageMeet) { pass_under_icarus(Graph(average_model()), {{1, 3, 2}, {2, 2, 0}}); }

TEST_F(LayersBehind, AveragesAreCleanWithoutWaivers) { are_clean(Graph(average_model()), {{1, 2, 0}}); }

const std::vector<Split> kFirstByOutputs = {Split::kOutputChannels, Split::kInputChannels, Split::kInputChannels, Split::kInputChannels};

// Three devices make the first layer's outputs, one cut inside a group of lanes; the last pools and goes on.
TEST_F(LayersBehind, OutputsOfTheFirstLayerAreDivided) {
  const Graph graph(strided_model());
  const std::vector<Cut> cuts = {{0, 2, 0}, {0, 3, 0}};
  const Plan plan = cut_plan(graph, cuts, /*tiles=*/5, kFirstByOutputs);
  const DeviceDesign middle = device_design(plan, graph, 1, some_weights);
  EXPECT_EQ(middle.shards[0].inputs, (ChannelRange{0, 2})) << "all of them";
  EXPECT_EQ(middle.shards[0].outputs, (ChannelRange{2, 4}));
  EXPECT_EQ(middle.shards[0].outputs_before, 2);
  EXPECT_EQ(middle.shards[0].passed(), 2) << "and all go on";
  EXPECT_EQ(device_design(plan, graph, 2, some_weights).shards[0].outputs_before, 4) << "both hold the second group";
  pass_under_icarus(graph, cuts, kFirstByOutputs);
}

TEST_F(LayersBehind, DividedOutputsAreCleanWithoutWaivers) { are_clean(Graph(average_model()), {{0, 2, 0}, {0, 3, 0}}, kFirstByOutputs); }

TEST_F(LayersBehind, RefusesDividedOutputsBehindAnotherLayer) {
  const Graph graph(strided_model());
  const Plan plan = cut_plan(graph, {{1, 2, 0}}, /*tiles=*/5,
                             {Split::kInputChannels, Split::kOutputChannels, Split::kInputChannels, Split::kInputChannels});
  expect_error(ErrorCode::kUnavailable, "layer conv2: it is divided by output channels behind another layer",
               [&] { device_design(plan, graph, 0, some_weights); });
}

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
  // Four rows of two groups of five columns, in LUTs.
  EXPECT_EQ(first.shards[1].sorter(), (SorterMemory{.row_banks = 2, .address = 3}));
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

Model normalised_model(bool frozen) {
  ModelBuilder net("normalised", {2, 9, 10});
  net.conv_without_bias("conv1", 5, {.kernel = 3, .pad = 1});
  net.layer("norm1", BatchNorm{});
  net.relu("relu1");
  net.layer("pool1", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.layer("norm2", BatchNorm{});
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv3", 3, {.kernel = 3, .stride = 2, .pad = 1});
  net.layer("norm3", BatchNorm{});
  net.flatten("flat");
  net.dense("fc", 4);
  Model model = net.finish();
  for (Layer& layer : model.layers)
    if (std::holds_alternative<BatchNorm>(layer.operation)) layer.frozen = frozen;
  return model;
}

// Scales of both signs, some above one.
std::vector<double> normalising_weights(const Node& node, const ParameterSpec& parameter) {
  std::vector<double> values = some_weights(node, parameter);
  if (parameter.tensor == "running_var")
    for (double& value : values) value = 0.02 + value * value;
  return values;
}

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

TEST_F(LayersBehind, RefusesABatchNormThatIsTrained) {
  const Graph graph(normalised_model(/*frozen=*/false));
  expect_error(ErrorCode::kUnavailable, "layer norm1: it is a trained batch norm", [&] {
    device_design(cut_plan(graph, {{2, 1, 0}}), graph, 0, normalising_weights);
  });
}

}  // namespace
}  // namespace millrace
