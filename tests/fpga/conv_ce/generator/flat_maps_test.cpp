// Dense layers over maps that are taken flat: which maps those are, and that the flat engine makes what the layer makes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "core/base/error.h"
#include "core/graph/model_builder.h"
#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/device_vectors.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"

namespace millrace {
namespace {

Model dense_over(int64_t channels, int64_t height, int64_t width, int64_t outputs) {
  ModelBuilder net("dense", {2, height, width});
  net.conv("conv1", channels, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.flatten("flat");
  net.dense("fc", outputs);
  net.relu("relu2");
  net.dense("scores", 3);
  return net.finish();
}

ConvolutionShape over(int64_t inputs, int64_t height, int64_t width) {
  return {.inputs = inputs,
          .outputs = 10,
          .height = height,
          .width = width,
          .kernel_h = height,
          .kernel_w = width,
          .stride_h = height,
          .stride_w = width};
}

TEST(FlatMaps, AreThoseThatAreLargeOrNotSquare) {
  EXPECT_FALSE(takes_map_flat(over(512, 1, 1)));
  EXPECT_FALSE(takes_map_flat(over(512, 8, 8)));
  EXPECT_TRUE(takes_map_flat(over(512, 9, 9)));
  EXPECT_TRUE(takes_map_flat(over(12, 4, 5)));
  EXPECT_TRUE(takes_map_flat(over(63, 128, 127))) << "64 channels of 16,256 pixels";
  EXPECT_FALSE(takes_map_flat(over(63, 128, 128))) << "64 channels of 16,384 pixels are one more than are counted";
  ConvolutionShape moving = over(3, 12, 12);
  moving.kernel_h = moving.kernel_w = 11;
  EXPECT_FALSE(takes_map_flat(moving));
  ConvolutionShape padded = over(3, 12, 12);
  padded.pad_h = 1;
  EXPECT_FALSE(takes_map_flat(padded));
}

TEST(FlatMaps, WithMoreElementsThanAreCountedAreRefused) {
  const auto refused = [](const Graph& graph, const std::string& reason) {
    expect_error(ErrorCode::kUnavailable, "layer fc: " + reason, [&] { buildable_shape(graph, graph.node(graph.index_of("fc"))); });
  };
  for (const int64_t width : {128, 129})
    refused(Graph(dense_over(64, 128, width, 4)),
            fmt::format("it has 64 x 128 x {} inputs, which with the channels in sixteens are more than the 1048575 that an engine counts "
                        "(pool the map before it, or give that fewer channels)",
                        width));
  refused(Graph(dense_over(4, 9, 9, 70'000)), "it has 70000 outputs, more than the 65535 that an engine counts");
}

// An image with more elements than channels are counted is a map that is taken flat.
TEST(FlatMaps, MayBeTheNetworksInput) {
  ModelBuilder image("image", {3, 224, 224});
  image.flatten("flat");
  image.dense("fc", 2);
  const Graph graph(image.finish());
  EXPECT_EQ(streamed_input(graph), (Shape{3, 224, 224}));
  EXPECT_TRUE(takes_map_flat(buildable_shape(graph, graph.node(graph.index_of("fc")))));
}

TEST(FlatMaps, HoldWholeBeats) {
  const ConvolutionShape held = held_shape(over(12, 9, 7), {{8, 12}, {0, 10}}, 8);
  EXPECT_EQ(held, (ConvolutionShape{.inputs = 8 * 63, .outputs = 10}));
  EXPECT_EQ(held_shape(over(12, 9, 7), {{0, 12}, {0, 10}}, 1).inputs, 12 * 63);
}

std::span<const int16_t> beats_of(const std::vector<StreamVectors>& streams, const std::string& name) {
  return std::ranges::find(streams, name, &StreamVectors::name)->beats;
}

// On a device of its own, of any size and behind streams of any width: sums and errors are those of a kernel over the whole map.
TEST(FlatMaps, ComputeWhatAKernelOverTheMapComputes) {
  std::mt19937_64 random(3);
  const auto draw = [&random](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  std::vector<int64_t> widths;
  for (int i = 0; i < 12; ++i) {
    const int64_t channels = draw(1, 19), height = draw(2, 12), width = height == 12 ? 12 : height + draw(1, 4), outputs = draw(1, 9);
    const Graph graph(dense_over(channels, height, width, outputs));
    const Plan plan = cut_plan(graph, {{1, 0, 0}, {2, 0, 0}}, /*tiles=*/draw(1, 300));
    const DeviceDesign design = device_design(plan, graph, 1, some_weights);
    const ShardDesign& shard = design.shards[0];
    ASSERT_TRUE(shard.flat);
    ASSERT_EQ(shard.engine.taps(), 1);
    widths.push_back(design.lanes);
    const DeviceVectors vectors = device_vectors(design, height, 1, 5);
    const ConvolutionShape layer = over(channels, height, width);
    ConvolutionShape whole = layer;
    whole.outputs = outputs;
    const BeatOrder map{.channels = channels, .height = height, .width = width, .lanes = design.lanes};
    const BeatOrder scores{.channels = outputs, .lanes = design.lanes};
    const Node& node = graph.node(graph.index_of("fc"));
    ArithmeticCounters counters;
    std::vector<int16_t> weight;
    for (const double value : some_weights(node, node.parameters[0])) weight.push_back(quantized(value, shard.formats.weight, counters));

    std::vector<int32_t> sums(whole.output_elements());
    accumulate_forward(whole, map_of_beats(map, beats_of(vectors.inputs, "s_activation")), weight, sums, counters);
    const std::vector<int16_t> outputs_made =
        scaled_and_offset(to_elements(sums, shard.formats.sum_shift(), counters), outputs,
                          {.scale = shard.scale, .offset = shard.bias, .offset_shift = 0, .shift = 0, .relu = true, .slope = 0}, counters);
    EXPECT_EQ(map_of_beats(scores, beats_of(vectors.outputs, "m_activation")), outputs_made);

    const std::vector<int16_t> raw = error_through_relu(outputs_made, map_of_beats(scores, beats_of(vectors.inputs, "s_error")), 0);
    std::vector<int32_t> errors(whole.input_elements());
    accumulate_error_back(whole, raw, weight, errors, counters);
    EXPECT_EQ(map_of_beats(map, beats_of(vectors.outputs, "m_input_error")), to_elements(errors, shard.formats.error_shift(), counters));
  }
  std::ranges::sort(widths);
  EXPECT_GT(widths.back(), widths.front());
}

using FlatMapsOfDevices = DeviceChecks;
using FlatMapsOfDevicesLong = FlatMapsOfDevices;

// Channels that are no multiple of the streams' lanes; a cut inside a channel.
TEST_F(FlatMapsOfDevices, PassUnderIcarus) {
  pass_under_icarus(Graph(dense_over(3, 3, 4, 5)), {{1, 17, 0}, {2, 0, 0}}, {}, some_weights, {.first = 0, .end = 2});
}

TEST_F(FlatMapsOfDevicesLong, LargerOnesPassUnderIcarus) { pass_under_icarus(Graph(dense_over(6, 9, 9, 7)), {{1, 300, 0}}); }

// Inputs that seventeen bits count.
TEST_F(FlatMapsOfDevices, OfMoreInputsThanSixteenBitsCountAreClean) {
  const Graph graph(dense_over(4, 160, 160, 2));
  are_clean(graph, {{1, 0, 0}, {2, 0, 0}}, {}, some_weights, {.first = 1, .end = 2});
  const std::string top = read_text(folder_.path() / "1/rtl/millrace_device_1.sv");
  EXPECT_EQ(top.find("16'd102400"), std::string::npos);
  EXPECT_NE(top.find(".CHANNEL_BITS(17)"), std::string::npos);
}

TEST_F(FlatMapsOfDevicesLong, AreCleanWithoutWaivers) { are_clean(Graph(dense_over(6, 5, 4, 7)), {{1, 47, 0}}); }

}  // namespace
}  // namespace millrace
