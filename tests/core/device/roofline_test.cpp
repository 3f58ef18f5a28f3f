#include "core/device/roofline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/graph/model_builder.h"
#include "tests/core/device/nested_shards.h"

namespace millrace {
namespace {

// One multiply-accumulate and one element take a second each.
Roofline slow_device() {
  Roofline slow;
  slow.device = "slow";
  slow.macs_per_second = 1;
  slow.bytes_per_second = 4;
  slow.memory_bytes = 1e9;
  return slow;
}

Graph network(const Shape& input, std::vector<Operation> operations, InputKind kind = InputKind::kFeatures) {
  ModelBuilder net("net", input);
  int number = 0;
  for (Operation& operation : operations) net.layer("layer" + std::to_string(number++), std::move(operation));
  Model model = net.finish();
  model.input_kind = kind;
  return Graph(std::move(model));
}

ShardQuestion whole(const Node& node, int64_t micro_batch = 1) {
  ShardQuestion question;
  question.node = &node;
  question.micro_batch = micro_batch;
  return question;
}

double seconds_of(const ShardCost& cost, Phase phase) {
  for (const PhaseEngine& engine : cost.phases)
    if (engine.phase == phase) return static_cast<double>(engine.picoseconds_per_unit) / 1e12;
  return 0;
}

TEST(Roofline, CpusAnswerMonotonically) {
  expect_monotone(*make_cpu_cost_model(), 200);
  expect_monotone(*make_roofline_cost_model(slow_device()), 100);
}

TEST(Roofline, TheLongerOfArithmeticAndTrafficCounts) {
  const Graph graph = network({3, 1, 1}, {Dense{.out_features = 5}, Dense{.out_features = 2}});
  const Node& second = graph.node(1);
  // 10 weights, 2 biases: 10 macs against 5 in, 2 out and 12 of weights.
  Roofline slow = slow_device();
  const ShardCost traffic = make_roofline_cost_model(slow)->cost_of(whole(second));
  EXPECT_DOUBLE_EQ(seconds_of(traffic, Phase::kForward), 5 + 2 + 12);
  EXPECT_DOUBLE_EQ(seconds_of(traffic, Phase::kErrorBack), 5 + 2 + 12);
  EXPECT_DOUBLE_EQ(seconds_of(traffic, Phase::kParameterGradient), 5 + 2 + 4 * 12);
  slow.bytes_per_second = 1e9;
  slow.dense = {0.5, 0.25, 2};
  const ShardCost arithmetic = make_roofline_cost_model(slow)->cost_of(whole(second));
  EXPECT_DOUBLE_EQ(seconds_of(arithmetic, Phase::kForward), 20);
  EXPECT_DOUBLE_EQ(seconds_of(arithmetic, Phase::kErrorBack), 40);
  EXPECT_DOUBLE_EQ(seconds_of(arithmetic, Phase::kParameterGradient), 5);
}

// 10 weights and 2 biases, of which everything is read and all but the gradients written.
TEST(Roofline, AnUpdateMovesWeightsGradientsAndSlots) {
  Graph graph = network({3, 1, 1}, {Dense{.out_features = 5}, Dense{.out_features = 2}});
  Roofline slow = slow_device();
  const auto seconds_of_update = [&](int slots, std::vector<const Node*> after = {}) {
    ShardQuestion question = whole(graph.node(1), /*micro_batch=*/4);
    question.optimizer_slots = slots;
    question.after = after;
    return make_roofline_cost_model(slow)->cost_of(question).update_seconds;
  };
  EXPECT_DOUBLE_EQ(seconds_of_update(0), 3 * 12);
  EXPECT_DOUBLE_EQ(seconds_of_update(1), 5 * 12);
  EXPECT_DOUBLE_EQ(seconds_of_update(2), 7 * 12);
  const Graph normalised = network({3, 2, 2}, {Conv2d{.out_channels = 4}, BatchNorm{}});
  EXPECT_DOUBLE_EQ(seconds_of_update(1, {&normalised.node(1)}), 5 * (12 + 2 * 4));
  // A kernel for each tensor: weight and bias, scale and shift, and none for running statistics.
  slow.update_launch_seconds = 1000;
  EXPECT_DOUBLE_EQ(seconds_of_update(1), 5 * 12 + 2 * 1000);
  EXPECT_DOUBLE_EQ(seconds_of_update(1, {&normalised.node(1)}), 5 * (12 + 2 * 4) + 4 * 1000);
}

// Of a layer that two devices share, and of a cell whose products and steps are apart, each updates what it has.
TEST(Roofline, UpdatesLaunchForTensorsThatAShardHas) {
  Roofline slow = slow_device();
  slow.bytes_per_second = 1e12;
  slow.update_launch_seconds = 1;
  const auto model = make_roofline_cost_model(slow);
  const auto launches = [&](const Node& node, std::vector<Block> blocks, bool owner) {
    ShardQuestion question = whole(node);
    question.blocks = blocks;
    question.owner = owner;
    return std::round(model->cost_of(question).update_seconds);
  };
  const Graph graph =
      network({4, 5, 1}, {Recurrent{.cell = CellKind::kLstm, .hidden = 3, .bidirectional = true}, Dense{.out_features = 2}});
  const Node& dense = graph.node(1);
  EXPECT_EQ(launches(dense, {{{0, 3}, {0, 2}}}, false), 1);
  EXPECT_EQ(launches(dense, {{{3, 6}, {0, 2}}}, true), 2);
  const Node& cell = graph.node(0);
  ASSERT_EQ(cell.parameters.size(), 8);                      // of either direction: two weights, two biases
  EXPECT_EQ(launches(cell, {{{0, 4}, {0, 24}}}, false), 2);  // weight_ih
  EXPECT_EQ(launches(cell, {{{0, 0}, {0, 24}}}, true), 6);
  EXPECT_EQ(launches(cell, {{{0, 4}, {0, 24}}}, true), 8);
}

// What a micro-batch's steps leave, four gates, state and cell, in a place for all layers in place of a window of them; F twice.
TEST(Roofline, WhatIsMadeAgainTakesOnePlaceAndFTwice) {
  const Graph graph = network({3, 5, 1}, {Recurrent{.hidden = 4}, Recurrent{.hidden = 4}, Dense{.out_features = 2}});
  const std::unique_ptr<CostModel> model = make_roofline_cost_model(slow_device());
  constexpr double kKept = 4 * (4 + 1 + 1) * 4 * 5, kBatch = 2, kWindow = 3;
  for (const int64_t layer : {0, 1}) {
    ShardQuestion question = whole(graph.node(layer), 2);
    question.window = 3;
    const ShardCost kept = model->cost_of(question);
    const ShardDemand kept_demand = model->demand_of(question);
    question.recompute = true;
    const ShardCost again = model->cost_of(question);
    const ShardDemand demand = model->demand_of(question);
    EXPECT_DOUBLE_EQ(kept.resources[0].amount - again.resources[0].amount, kKept * kBatch * (kWindow - 1));
    EXPECT_DOUBLE_EQ(again.shared_bytes, kKept * kBatch);
    const Phase back = layer == 0 ? Phase::kParameterGradient : Phase::kErrorBack;
    EXPECT_NEAR(seconds_of(again, back), seconds_of(kept, back) + seconds_of(kept, Phase::kForward), 1e-9);
    EXPECT_NEAR(demand.seconds, kept_demand.seconds + seconds_of(kept, Phase::kForward), 1e-9);
    ShardDemand both = demand;
    both += demand;
    EXPECT_DOUBLE_EQ(both.amounts[0], 2 * demand.amounts[0] - kKept * kBatch);
    EXPECT_DOUBLE_EQ(both.shared, demand.shared);
  }
  ShardQuestion dense = whole(graph.node(2), 2);
  const ShardCost before = model->cost_of(dense);
  dense.recompute = true;
  EXPECT_EQ(before.resources, model->cost_of(dense).resources);
  EXPECT_EQ(before.phases, model->cost_of(dense).phases);
}

TEST(Roofline, EveryKernelIsLaunchedOncePerMicroBatch) {
  const Graph graph = network({3, 1, 1}, {Dense{.out_features = 5}, Activation{}, Dense{.out_features = 2}});
  Roofline slow = slow_device();
  const std::vector<const Node*> after = {&graph.node(1)};
  const auto forward = [&](double launch, int64_t micro_batch) {
    slow.launch_seconds = launch;
    ShardQuestion question = whole(graph.node(0), micro_batch);
    question.after = after;
    return seconds_of(make_roofline_cost_model(slow)->cost_of(question), Phase::kForward);
  };
  EXPECT_DOUBLE_EQ(forward(100, 1) - forward(0, 1), 2 * 100);
  EXPECT_DOUBLE_EQ(forward(100, 8) - forward(0, 8), 2 * 100 / 8.0);
}

// LSTM of 2 features and 3 units over 10 steps: x W has 24 weights, h U 36; a step makes 12 gate values.
class RooflineOfAnLstm : public testing::Test {
 protected:
  const Graph graph_ = network({2, 10, 1}, {Recurrent{.hidden = 3}, LastStep{}});
  const Node& lstm_ = graph_.node(0);
  Roofline slow_ = slow_device();

  double seconds(Phase phase, int64_t micro_batch = 1) const {
    return seconds_of(make_roofline_cost_model(slow_)->cost_of(whole(lstm_, micro_batch)), phase);
  }
};

TEST_F(RooflineOfAnLstm, AllGatesAreComputed) {
  slow_.bytes_per_second = 1e9;
  EXPECT_NEAR(seconds(Phase::kForward), 10 * (24 + 36), 1e-3);
  // The network's input needs no error, yet errors go back through time; then come the gradients of W and U.
  EXPECT_EQ(seconds(Phase::kErrorBack), 0);
  EXPECT_NEAR(seconds(Phase::kParameterGradient), 10 * 36 + 10 * (24 + 36), 1e-3);
}

TEST_F(RooflineOfAnLstm, StatesReadTheirWeightsAtEveryStepUnlessTheyFitOnTheChip) {
  slow_.macs_per_second = 1e9;
  const double products = 2 * 10 + 12 * 10 + 24;  // x, x W and W
  const double pointwise = 2 * 12 * 10 + 3 * 10;  // gates written and read, states
  EXPECT_NEAR(seconds(Phase::kForward), products + pointwise + 10 * 36, 1e-3);
  slow_.on_chip_bytes = 4 * 36;
  EXPECT_NEAR(seconds(Phase::kForward), products + pointwise + 36, 1e-3);
  slow_.on_chip_bytes = 4 * 36 - 1;
  EXPECT_NEAR(seconds(Phase::kForward), products + pointwise + 10 * 36, 1e-3);
  EXPECT_NEAR(seconds(Phase::kForward, 4), 20 + 120 + 24 / 4.0 + pointwise + 10 * 36 / 4.0, 1e-3);
}

TEST_F(RooflineOfAnLstm, AStepTakesItsTimeHoweverSmall) {
  slow_.macs_per_second = slow_.bytes_per_second = 1e9;
  slow_.step_seconds = 7;
  EXPECT_NEAR(seconds(Phase::kForward), 10 * 7, 1e-3);
  EXPECT_NEAR(seconds(Phase::kForward, 5), 10 * 7 / 5.0, 1e-3);
}

TEST_F(RooflineOfAnLstm, WhatStepsLeaveIsHeldUntilTheGradient) {
  const auto model = make_roofline_cost_model(slow_);
  ShardQuestion question = whole(lstm_);
  question.window = 1;
  const double one = model->demand_of(question).amounts[0];
  question.window = 2;
  EXPECT_DOUBLE_EQ(model->demand_of(question).amounts[0] - one, 4 * (2 * 10 + 12 * 10 + 3 * 10 + 3 * 10));
  question.optimizer_slots = 1;
  EXPECT_DOUBLE_EQ(model->demand_of(question).parameters, 4 * 3 * (24 + 36 + 24.0));
}

TEST_F(RooflineOfAnLstm, StatesBelongToTheOwner) {
  slow_.bytes_per_second = 1e9;
  const Block first{{0, 1}, {0, 12}};
  ShardQuestion question = whole(lstm_);
  question.blocks = std::span(&first, 1);
  question.owner = false;
  const auto model = make_roofline_cost_model(slow_);
  EXPECT_NEAR(seconds_of(model->cost_of(question), Phase::kForward), 10 * 12, 1e-3);
  question.owner = true;
  EXPECT_NEAR(seconds_of(model->cost_of(question), Phase::kForward), 10 * (12 + 36), 1e-3);
}

// Plans always say which blocks, all of them too.
TEST_F(RooflineOfAnLstm, BlocksOfAllSumsAreTheWholeLayer) {
  const Block all{{0, 2}, {0, 12}};
  ShardQuestion question = whole(lstm_);
  question.blocks = std::span(&all, 1);
  const auto model = make_roofline_cost_model(slow_);
  EXPECT_EQ(model->cost_of(question).seconds_per_sample, model->cost_of(whole(lstm_)).seconds_per_sample);
  EXPECT_EQ(model->demand_of(question).parameters, model->demand_of(whole(lstm_)).parameters);
  EXPECT_EQ(model->demand_of(question).amounts[0], model->demand_of(whole(lstm_)).amounts[0]);
}

TEST(Roofline, BothDirectionsTakeTheirTurns) {
  Roofline slow = slow_device();
  slow.macs_per_second = slow.bytes_per_second = 1e12;
  slow.step_seconds = 1;
  const Graph one = network({2, 10, 1}, {Recurrent{.hidden = 3}});
  const Graph both = network({2, 10, 1}, {Recurrent{.hidden = 3, .bidirectional = true}});
  const auto model = make_roofline_cost_model(slow);
  EXPECT_NEAR(model->demand_of(whole(both.node(0))).seconds, 2 * model->demand_of(whole(one.node(0))).seconds, 1e-6);
}

TEST(Roofline, AnEmbeddingMovesTheRowsItLooksUp) {
  const auto seconds = [](int64_t vocabulary) {
    const Graph graph = network({1, 20, 1}, {Embedding{.vocabulary = vocabulary, .dimension = 8}, LastStep{}}, InputKind::kTokens);
    return make_roofline_cost_model(slow_device())->demand_of(whole(graph.node(0))).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(10), (20 + 2 * 160) + (20 + 3 * 160));
  EXPECT_DOUBLE_EQ(seconds(10), seconds(100'000)) << "whatever the vocabulary";
}

TEST(Roofline, AnLstmIsNearWhatWasMeasured) {
  // LSTM training, batch 1, 100 steps, one thread: 80 G and 34 G floating point operations a second at 256 and 1,024 units.
  const auto gigaflops = [](int64_t units) {
    const Graph graph = network({units, 100, 1}, {Recurrent{.hidden = units}, Recurrent{.hidden = units}});
    const Node& second = graph.node(1);
    const double seconds = make_cpu_cost_model()->demand_of(whole(second)).seconds;
    return 2e-9 * 3 * static_cast<double>(second.work.forward_macs) / seconds;
  };
  EXPECT_NEAR(gigaflops(256), 80, 0.35 * 80);
  EXPECT_NEAR(gigaflops(1024), 34, 0.35 * 34);
}

TEST(Roofline, RefusesDevicesThatDoNothing) {
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    Roofline roofline = slow_device();
    roofline.macs_per_second = rate;
    EXPECT_THROW(make_roofline_cost_model(roofline), Error) << rate;
    roofline = slow_device();
    roofline.bytes_per_second = rate;
    EXPECT_THROW(make_roofline_cost_model(roofline), Error) << rate;
    roofline = slow_device();
    roofline.memory_bytes = rate;
    EXPECT_THROW(make_roofline_cost_model(roofline), Error) << rate;
  }
}

}  // namespace
}  // namespace millrace
