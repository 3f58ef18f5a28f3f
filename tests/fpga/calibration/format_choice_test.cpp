// Formats chosen from ranges: whatever the ranges, nothing wraps or saturates within the headroom, and the engine can do the shifts.
#include "fpga/calibration/format_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"

namespace millrace {
namespace {

// A convolution, pooled, a join of two convolutions, and a dense head.
Graph joined_graph() {
  ModelBuilder net("joined", {2, 8, 8});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 2, .stride = 2});
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.add("join", {"conv2", "pool1"});
  net.relu("relu2");
  net.flatten("flat");
  net.dense("fc", 3);
  return Graph(net.finish());
}

double drawn_size(std::mt19937_64& random) {
  if (random() % 10 == 0) return 0;
  return std::ldexp(1 + std::uniform_real_distribution<double>()(random), static_cast<int>(random() % 30) - 20);
}

NumberRanges drawn_ranges(const Graph& graph, std::mt19937_64& random) {
  NumberRanges ranges;
  for (const Node& node : graph.nodes()) {
    LayerRanges& seen = ranges[node.layer.name];
    for (double* number : {&seen.input, &seen.output, &seen.sum, &seen.weight, &seen.bias, &seen.output_error, &seen.input_error,
                           &seen.gradient, &seen.bias_gradient})
      *number = drawn_size(random);
  }
  return ranges;
}

bool multiplies(const Node& node) {
  return std::holds_alternative<Conv2d>(node.layer.operation) || std::holds_alternative<Dense>(node.layer.operation);
}

}  // namespace

TEST(FormatChoice, NeverWrapsOrShiftsTheWrongWay) {
  const Graph graph = joined_graph();
  std::mt19937_64 random(11);
  const FormatHeadroom headroom;
  for (int round = 0; round < 2000; ++round) {
    const NumberRanges ranges = drawn_ranges(graph, random);
    const auto formats = chosen_formats(graph, ranges, 1.0 / 32, headroom);
    for (const Node& node : graph.nodes()) {
      if (!formats.contains(node.layer.name)) continue;
      const EngineFormats& engine = formats.at(node.layer.name);
      const int activation = engine.activation.fraction_bits, weight = engine.weight.fraction_bits, sum = engine.sum.fraction_bits;
      const int error = engine.error.fraction_bits, input_error = engine.input_error.fraction_bits;
      for (const int bits : {activation, weight, sum, error, input_error}) ASSERT_TRUE(0 <= bits && bits <= kMostFractionBits);
      ASSERT_TRUE(0 <= engine.sum_shift() && engine.sum_shift() <= 31) << engine.sum_shift();
      ASSERT_TRUE(0 <= engine.error_shift() && engine.error_shift() <= 31) << engine.error_shift();
      if (!multiplies(node)) continue;
      const LayerRanges& seen = ranges.at(node.layer.name);
      // Where the sum itself is too large for an accumulator without fraction bits, nothing helps.
      const auto fits = [](double largest, int bits) { return bits == 0 || std::ldexp(largest, bits) <= std::ldexp(1.0, 31); };
      EXPECT_TRUE(fits(headroom.activation * seen.sum, activation + weight));
      EXPECT_TRUE(fits(headroom.error * seen.input_error, error + weight));
      EXPECT_TRUE(fits(headroom.error * seen.gradient, activation + error));
      EXPECT_TRUE(fits(headroom.error * seen.bias_gradient, error));
      const auto holds = [](double largest, int bits) { return bits == 0 || largest <= FixedFormat{bits}.largest(); };
      EXPECT_TRUE(holds(headroom.weight * seen.weight, weight));
      EXPECT_TRUE(holds(headroom.activation * std::max(seen.sum, seen.output), sum));
      EXPECT_TRUE(holds(headroom.activation * seen.input, activation));
      EXPECT_TRUE(holds(headroom.error * seen.output_error, error));
      EXPECT_TRUE(holds(headroom.error * seen.input_error, input_error));
    }
  }
}

TEST(FormatChoice, NumbersThatMeetShareAFormat) {
  const Graph graph = joined_graph();
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const auto formats = chosen_formats(graph, drawn_ranges(graph, random), 1.0 / 32, {});
    EXPECT_FALSE(formats.contains("loss"));
    for (const char* layer : {"relu1", "pool1", "join", "relu2", "flat", "conv2"}) {
      EXPECT_EQ(formats.at(layer).sum, formats.at("conv1").sum) << layer;
      EXPECT_EQ(formats.at(layer).error, formats.at("conv1").error) << layer;
    }
    EXPECT_EQ(formats.at("conv2").activation, formats.at("conv1").sum);
    EXPECT_EQ(formats.at("fc").activation, formats.at("relu2").sum);
    EXPECT_EQ(formats.at("fc").input_error, formats.at("relu2").error);
  }
}

TEST(FormatChoice, UsesEveryBitThatOrdinaryNumbersLeave) {
  const Graph graph = joined_graph();
  NumberRanges ranges;
  for (const char* layer : {"conv1", "conv2", "fc"})
    ranges[layer] = {.input = 1.9, .output = 1.9, .sum = 1.9, .weight = 0.24, .output_error = 0.01, .input_error = 0.01, .gradient = 0.1};
  for (const auto& [layer, one] : chosen_formats(graph, ranges, 1.0 / 32, {})) {
    EXPECT_EQ(one.sum.fraction_bits, 13) << layer;    // to 4: 1.9 * 2
    EXPECT_EQ(one.error.fraction_bits, 19) << layer;  // to 1/16: 0.01 * 4
    if (layer == "fc" || layer == "conv1") {
      EXPECT_EQ(one.weight.fraction_bits, 15) << layer;  // to 1: 0.24 * 4
    }
  }
}

// Nothing was seen: the engine's own.
TEST(FormatChoice, WithoutNumbersKeepsTheEnginesOwn) {
  const Graph graph = joined_graph();
  const EngineFormats own = default_formats(1.0 / 32);
  for (const auto& [layer, one] : chosen_formats(graph, {}, 1.0 / 32, {})) EXPECT_EQ(one, own) << layer;
}

// Words' numbers bind nothing; a state that a tangent bounds has all its bits, and a gate's accumulator room for weights that grow.
TEST(FormatChoice, GivesRecurrentLayersFormatsOfTheirOwn) {
  Model model = zoo_model("char-rnn");
  const Graph graph(model);
  NumberRanges ranges;
  ranges["embedding"] = {.input = 100, .output = 3.5};
  ranges["lstm1"] = {.input = 3.5, .output = 0.9, .sum = 0.4, .weight = 0.09, .hidden_weight = 0.09};
  const LayerFormats formats = chosen_formats(graph, ranges, 1.0 / 8, {});
  EXPECT_EQ(formats.at("embedding").sum.fraction_bits, 12);  // twice 3.5
  const EngineFormats& lstm = formats.at("lstm1");
  EXPECT_EQ(lstm.activation.fraction_bits, 12);
  EXPECT_EQ(lstm.sum.fraction_bits, 15);
  EXPECT_EQ(lstm.activation.fraction_bits + lstm.weight.fraction_bits, 27);  // of 31: it reaches 16
  ranges["lstm1"].sum = 20;
  const EngineFormats wider = chosen_formats(graph, ranges, 1.0 / 8, {}).at("lstm1");
  EXPECT_EQ(wider.activation.fraction_bits + wider.weight.fraction_bits, 25);
}

}  // namespace millrace
