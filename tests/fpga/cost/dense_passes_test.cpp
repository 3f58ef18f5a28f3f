// Steps that share a pass over a dense layer's weights, by hand, and what a search relies on where they do.
#include "fpga/cost/dense_passes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/graph/frozen_model.h"
#include "core/graph/zoo.h"
#include "fpga/cost/fpga_cost_model.h"
#include "tests/fpga/cost/boards.h"

namespace millrace {
namespace {

// LRCN's, 2,048 to 1,792, of 32 steps.
ShardGeometry dense() {
  ShardGeometry shard;
  shard.unit = StreamingUnit::kStep;
  shard.forward = {32, 2048 * 1792};
  shard.place = WeightPlace::kOffChip;
  shard.inputs = shard.layer_inputs = 2048;
  shard.outputs = shard.layer_outputs = 1792;
  shard.output = {1792, 32, 1};
  return shard;
}

}  // namespace

TEST(DensePasses, AreADivisorThatAnEighthOfTheMemoryHolds) {
  const double bits_of_one = 2 * (2048 + 1792) * 16;
  EXPECT_EQ(steps_of_dense_pass(dense(), 0, 16, 8 * 32 * bits_of_one), 32);
  EXPECT_EQ(steps_of_dense_pass(dense(), 0, 16, 8 * 31 * bits_of_one), 16);
  EXPECT_EQ(steps_of_dense_pass(dense(), 5, 16, 8 * 32 * bits_of_one), 4);
  EXPECT_EQ(steps_of_dense_pass(dense(), 64, 16, 8 * 32 * bits_of_one), 32);
  EXPECT_EQ(steps_of_dense_pass(dense(), 1, 16, 8 * 32 * bits_of_one), 1);
  EXPECT_EQ(bits_of_dense_pass(dense(), 16, 16), 16 * bits_of_one);
  EXPECT_EQ(bits_of_dense_pass(dense(), 1, 16), 0);
  ShardGeometry at_home = dense();
  at_home.place = WeightPlace::kOnChip;
  EXPECT_EQ(steps_of_dense_pass(at_home, 0, 16, 1e9), 1);
}

// A longer period never asks for more, a part never for more than the whole; a port that is too slow for the period is no engine.
TEST(DensePasses, AreMonotone) {
  const Graph graph(frozen_model(zoo_model("lrcn-lstm-256")));
  const Node& node = graph.node(graph.index_of("fc_in"));
  const auto model = make_fpga_cost_model(testing_support::vc709(), {ElementType::kFixed16, ElementType::kFixed16}, {.streams = 1});
  const Block half{{0, 1024}, {0, 1792}};
  ShardQuestion question;
  question.node = &node;
  question.gradient_samples = 1;
  ShardDemand shorter;
  for (double period = 1e-5; period < 1; period *= 1.3) {
    question.period_seconds = period;
    question.blocks = {};
    const ShardDemand whole = model->demand_of(question);
    question.blocks = {&half, 1};
    const ShardDemand part = model->demand_of(question);
    EXPECT_LE(part.seconds, whole.seconds);
    EXPECT_NEAR(part.seconds * 2, whole.seconds, 1e-9);
    const double port = 2.0 * 2048 * 1792 / 64 / 200e6;
    EXPECT_EQ(whole.amounts[0] > 1e20, period < port) << period;
    for (size_t i = 0; i < whole.amounts.size(); ++i) {
      EXPECT_LE(part.amounts[i], whole.amounts[i]) << i;
      if (period > 1e-5) {
        EXPECT_LE(whole.amounts[i], shorter.amounts[i]) << i;
      }
    }
    shorter = whole;
  }
}

}  // namespace millrace
