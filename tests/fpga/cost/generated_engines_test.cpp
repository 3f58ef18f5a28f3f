#include "fpga/cost/generated_engines.h"

#include <gtest/gtest.h>

#include <random>

#include "core/graph/zoo.h"
#include "core/plan/cuts.h"

namespace millrace {
namespace {

constexpr double kClock = 200e6;

int64_t tiles(const std::optional<GeneratedEngine>& engine) { return engine->keeps_up ? engine->engine.tiles() : INT64_MAX; }

// The search over cuts stands on it: more channels, or less time, never take a smaller engine.
TEST(GeneratedEngines, AreMonotone) {
  std::mt19937_64 random(5);
  for (const char* model : {"alexnet", "vgg11-cifar", "lenet5"}) {
    const Graph graph(find_model(model));
    const GeneratedEngines engines(graph, kClock);
    for (const LayerGroup& group : graph.groups()) {
      const Node& node = graph.node(group.head);
      if (!node.divides) continue;
      const LayerExtent extent = extent_of(graph, node.group);
      for (int draw = 0; draw < 40; ++draw) {
        const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
        const CutPlace from{below(extent.inputs), 0}, to{from.channel + 1 + below(extent.inputs - from.channel), 0};
        const CutPlace later{from.channel + below(to.channel - from.channel), 0};
        const double period = 1e-5 * static_cast<double>(int64_t{1} << below(12));
        const BlockList wide = blocks_between(extent, Split::kInputChannels, from, to);
        const BlockList narrow = blocks_between(extent, Split::kInputChannels, later, to);
        const auto most = engines.engine_for(node, wide, period, kClock);
        ASSERT_TRUE(most) << node.layer.name;
        EXPECT_GE(tiles(most), tiles(engines.engine_for(node, narrow, period, kClock))) << node.layer.name;
        EXPECT_GE(tiles(most), tiles(engines.engine_for(node, wide, period * 1.3, kClock))) << node.layer.name;
      }
    }
  }
}

TEST(GeneratedEngines, KeepThePeriodOrSayThatTheyDoNot) {
  const Graph graph(find_model("alexnet"));
  const GeneratedEngines engines(graph, kClock);
  const Node& conv1 = graph.node(0);
  const auto slow = engines.engine_for(conv1, {}, 1e-3, kClock);
  ASSERT_TRUE(slow && slow->keeps_up);
  EXPECT_FALSE(slow->error_back);
  EXPECT_LE(std::max(slow->cycles.forward, slow->cycles.gradient), 200'000);
  EXPECT_LE(slow->stream_seconds, 1e-3);
  // A pixel of the image a cycle is the fastest that streams are.
  EXPECT_FALSE(engines.engine_for(conv1, {}, 227 * 227 / kClock / 2, kClock)->keeps_up);
}

TEST(GeneratedEngines, AreThereForLayersThatHardwareIsGeneratedFor) {
  const Graph graph(find_model("resnet18"));
  const GeneratedEngines engines(graph, kClock);
  for (const Node& node : graph.nodes()) {
    const bool computes = std::holds_alternative<Conv2d>(node.layer.operation) || std::holds_alternative<Dense>(node.layer.operation);
    EXPECT_EQ(engines.engine_for(node, {}, 1, kClock).has_value(), computes) << node.layer.name;
  }
}

}  // namespace
}  // namespace millrace
