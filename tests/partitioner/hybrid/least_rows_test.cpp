// How few rows a layer may hold before its ring stands still, against a run without any times in which everything goes on that can.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "partitioner/hybrid/lifetimes.h"
#include "tests/partitioner/hybrid/tiny_models.h"

namespace millrace {
namespace {

// One sample, forward and back, row by row. FP of a layer goes on only while the rows it has read and PG has not left behind are few
// enough.
class UntimedRun {
 public:
  UntimedRun(const Graph& graph, const std::vector<int64_t>& capacities) : graph_(graph) {
    for (const Node& node : graph.nodes()) {
      Layer layer;
      layer.works = std::holds_alternative<Conv2d>(node.layer.operation) || std::holds_alternative<Dense>(node.layer.operation);
      const bool first = node.inputs.front() == kNetworkInput;
      layer.above = first ? node.input_shapes[0].height : layers_[static_cast<size_t>(node.inputs[0])].here;
      layer.here = node.output.height;
      if (const auto* conv = std::get_if<Conv2d>(&node.layer.operation))
        layer.taps = {conv->kernel_h, conv->stride_h, conv->pad_h};
      else if (const auto* pool = std::get_if<Pool2d>(&node.layer.operation))
        layer.taps = {pool->kernel_h, pool->stride_h, pool->pad_h};
      else
        layer.here = layer.above;  // dense layers stream on in the map's rows
      layers_.push_back(layer);
    }
    for (size_t g = 0; g < graph.groups().size(); ++g) layers_[static_cast<size_t>(graph.groups()[g].head)].capacity = capacities[g];
  }

  bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < layers_.size(); ++i) moved = go_on(i) || moved;
    }
    return std::ranges::all_of(layers_, [](const Layer& l) { return !l.works || (l.forward == l.here && l.gradients == l.here); });
  }

 private:
  struct Taps {
    int64_t kernel = 1, stride = 1, pad = 0;
  };
  struct Layer {
    bool works = false;
    Taps taps;
    int64_t above = 1, here = 1, capacity = 1;
    int64_t forward = 0, gradients = 0, errors = 0;  // rows of FP, PG, EB
  };

  const Node& node(size_t i) const { return graph_.nodes()[i]; }
  // The last row that a row of output reads, and one.
  static int64_t reads(const Layer& l, int64_t row) {
    int64_t last = 0;
    for (int64_t tap = 0; tap < l.taps.kernel; ++tap) {
      const int64_t read = row * l.taps.stride - l.taps.pad + tap;
      if (read >= 0 && read < l.above) last = read;
    }
    return last + 1;
  }
  // Rows of output that have begun where this row of input is reached.
  static int64_t begun(const Layer& l, int64_t row) {
    int64_t count = 0;
    while (count < l.here && count * l.taps.stride - l.taps.pad <= row) ++count;
    return std::max<int64_t>(count, 1);
  }
  static int64_t left_behind(const Layer& l, int64_t gradients) {
    if (gradients == l.here) return l.above;
    return std::clamp<int64_t>(gradients * l.taps.stride - l.taps.pad, 0, l.above);
  }

  // Rows of its output that are there.
  int64_t made(int64_t index) const {
    if (index == kNetworkInput) return 1000;
    const Layer& l = layers_[static_cast<size_t>(index)];
    if (l.works) return l.forward;
    int64_t rows = 0;
    const auto there = [&](int64_t input) { return made(input) >= reads(l, rows); };
    while (rows < l.here && std::ranges::all_of(node(static_cast<size_t>(index)).inputs, there)) ++rows;
    return rows;
  }
  // Rows of its error that are there: of the last layer's scores what went forward.
  int64_t returned(int64_t index) const {
    int64_t rows = layers_[static_cast<size_t>(index)].here;
    for (const int64_t consumer : node(static_cast<size_t>(index)).consumers) {
      const Layer& reader = layers_[static_cast<size_t>(consumer)];
      int64_t of_reader = 0;
      if (consumer == graph_.loss())
        of_reader = made(index);
      else if (reader.works)
        of_reader = reader.errors;
      else
        for (const int64_t known = returned(consumer); of_reader < reader.above && begun(reader, of_reader) <= known;) ++of_reader;
      rows = std::min(rows, of_reader);
    }
    return rows;
  }

  bool go_on(size_t i) {
    Layer& l = layers_[i];
    if (!l.works) return false;
    const Layer before = l;
    const int64_t there = made(node(i).inputs[0]);
    const auto fits = [&] { return reads(l, l.forward) - left_behind(l, l.gradients) <= l.capacity; };
    while (l.forward < l.here && reads(l, l.forward) <= there && fits()) ++l.forward;
    const int64_t known = returned(static_cast<int64_t>(i));
    l.gradients = std::max(l.gradients, known);
    while (l.errors < l.above && begun(l, l.errors) <= known) ++l.errors;
    return l.forward != before.forward || l.gradients != before.gradients || l.errors != before.errors;
  }

  const Graph& graph_;
  std::vector<Layer> layers_;
};

// Kernels of one to three, strides of one to four, padding as far as a kernel reaches; joins of ways that stride alike.
Model network_of(testing_support::TinyInstances& draw) {
  ModelBuilder net("strides", {1, draw.between(4, 20), 1});
  const int64_t layers = draw.between(1, 4);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i);
    const int64_t kernel = draw.between(1, 3);
    net.layer("conv" + name,
              Conv2d{.out_channels = 1, .kernel_h = kernel, .stride_h = draw.between(1, 4), .pad_h = draw.between(0, kernel - 1)});
    if (draw.chance(0.3)) {
      const int64_t taps = draw.between(1, 3);
      net.layer("pool" + name,
                Pool2d{.kernel_h = taps, .kernel_w = 1, .stride_h = draw.between(1, 3), .stride_w = 1, .pad_h = draw.between(0, taps / 2)});
    }
    if (!draw.chance(0.4)) continue;
    const std::string fork = net.last();
    const auto branch = [&](const std::string& of, int64_t taps, int64_t stride) {
      return net.layer(of + name, Conv2d{.out_channels = 1, .kernel_h = taps, .stride_h = stride, .pad_h = taps / 2});
    };
    const int64_t stride = draw.between(1, 3);
    const std::string brief = branch("short", 1, stride);
    net.continue_from(fork);
    branch("long", 3, stride);
    if (draw.chance(0.5)) branch("longer", 3, 1);
    net.add("join" + name, {net.last(), brief});
  }
  net.flatten("flatten");
  net.dense("dense", 3);
  return net.finish();
}

// What a plan gives: whole rows of a lifetime, and the one that is being filled.
std::vector<int64_t> rows_planned(const Graph& graph, const LifetimeRules& rules) {
  const std::vector<double> lifetimes = activation_lifetimes(graph, rules);
  std::vector<int64_t> rows;
  for (size_t g = 0; g < lifetimes.size(); ++g) {
    const Node& head = graph.node(graph.groups()[g].head);
    const auto height = static_cast<double>(head.input_shapes[0].height);
    const std::optional<SlidingWindow> window = traits_of(head.layer.operation).row_window;
    const double reach = std::min(height, window ? static_cast<double>(window->reach()) : 1.0);
    rows.push_back(static_cast<int64_t>(std::max(std::floor(lifetimes[g] * height * (1 + 1e-9)), reach)) + 1);
  }
  return rows;
}

TEST(LeastRows, AreEnoughAndOneFewerStandsStill) {
  testing_support::TinyInstances draw(18);
  int drawn = 0, tight = 0, too_few = 0;
  while (drawn < 400) {
    std::optional<Graph> made;
    try {
      made.emplace(network_of(draw));
    } catch (const Error&) {  // a kernel larger than its map
      continue;
    }
    ++drawn;
    const Graph& graph = *made;
    const std::vector<int64_t> least = least_rows_held(graph, false);
    ASSERT_TRUE(UntimedRun(graph, least).ends()) << text_of(graph.model());
    for (size_t g = 0; g < least.size(); ++g) {
      std::vector<int64_t> fewer = least;
      if (--fewer[g] == 0) continue;
      ++tight;
      EXPECT_FALSE(UntimedRun(graph, fewer).ends()) << "group " << g << " of\n" << text_of(graph.model());
    }
    // Dense layers have a sample, whose rows they take as one.
    const auto runs = [&](const LifetimeRules& rules) {
      std::vector<int64_t> rows = rows_planned(graph, rules);
      rows.back() = least.back();
      return UntimedRun(graph, rows).ends();
    };
    EXPECT_TRUE(runs({.unpadded_ends = true, .least_rows = true})) << text_of(graph.model());
    too_few += runs({.unpadded_ends = true}) ? 0 : 1;
  }
  EXPECT_GT(tight, 400);
  EXPECT_GT(too_few, 20);
}

// Output row 1 of a 1x1 kernel that strides by two reads row 2, and 2x2 with padding gives no error before it: rows 0 to 2 wait.
TEST(LeastRows, CountThoseThatAStrideStepsOver) {
  ModelBuilder net("stride", {1, 6, 1});
  net.layer("strides", Conv2d{.out_channels = 1, .stride_h = 2});
  net.layer("grows", Conv2d{.out_channels = 1, .kernel_h = 2, .pad_h = 1});
  net.flatten("flatten");
  net.dense("dense", 3);
  const Graph graph(net.finish());
  EXPECT_EQ(least_rows_held(graph, false), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(rows_planned(graph, {.unpadded_ends = true}).front(), 2);
  EXPECT_EQ(rows_planned(graph, {.unpadded_ends = true, .least_rows = true}).front(), 3);
}

// Lags come to as much wherever rows come evenly.
TEST(LeastRows, ChangeNoNetworkOfTheZoo) {
  for (const char* name : {"lenet5", "alexnet", "vgg16", "resnet18", "resnet18-cifar", "resnet50", "googlenet"}) {
    const Graph graph(zoo_model(name));
    EXPECT_EQ(rows_planned(graph, {.unpadded_ends = true, .least_rows = true}), rows_planned(graph, {.unpadded_ends = true})) << name;
  }
}

}  // namespace
}  // namespace millrace
