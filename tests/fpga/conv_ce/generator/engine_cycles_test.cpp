// The closed form that sizes engines beside the walk that follows every row of line buffers and streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/graph/graph.h"
#include "core/graph/zoo.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {
namespace {

template <typename Cycles>
int64_t steady(Cycles cycles, const EngineParallelism& engine, const ConvolutionShape& shape) {
  return cycles(engine, shape, 3) - cycles(engine, shape, 2);
}

// Of every layer of these networks, of some of its channels, for engines of all sizes.
TEST(EngineCycles, AreThoseOfTheWalk) {
  std::mt19937_64 random(11);
  int64_t compared = 0;
  for (const char* model : {"lenet5", "alexnet", "vgg11-cifar", "resnet18-cifar", "googlenet"}) {
    const Graph graph(find_model(model));
    for (const Node& node : graph.nodes()) {
      std::optional<ConvolutionShape> shape = layer_shape(graph, node);
      if (!shape || shape->groups != 1 || shape->kernel_h != shape->kernel_w) continue;
      shape->inputs = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(shape->inputs));
      for (int draw = 0; draw < 3; ++draw) {
        const auto lanes = [&random](int64_t channels) {
          return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min(channels, kMostEngineLanes)));
        };
        const EngineParallelism engine = engine_of(*shape, lanes(shape->inputs), lanes(shape->outputs));
        const EngineCycles closed = engine_cycles(engine, *shape);
        const auto near = [&](int64_t form, int64_t walk, const char* phase) {
          // Never faster than it is; EB of few rows is a little slower, for it counts whole steps, and whole cycles of each row.
          const double ratio = static_cast<double>(form) / static_cast<double>(walk);
          EXPECT_TRUE(ratio >= 0.99 && ratio <= 1.1)
              << model << " " << node.layer.name << " " << phase << ": " << form << " against " << walk << ", " << engine.input_lanes
              << " x " << engine.output_lanes << " lanes, " << shape->inputs << " inputs";
          ++compared;
        };
        near(closed.forward, steady(forward_cycles, engine, *shape), "FP");
        near(closed.error_back, steady(error_back_cycles, engine, *shape), "EB");
        near(closed.gradient, steady(gradient_cycles, engine, *shape), "PG");
      }
    }
  }
  EXPECT_GT(compared, 500);
}

}  // namespace
}  // namespace millrace
