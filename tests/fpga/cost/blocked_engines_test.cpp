// What a recurrent layer's engine costs in a plan for inference, against every way to build it.
#include "fpga/cost/blocked_engines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/frozen_model.h"
#include "core/graph/zoo.h"
#include "fpga/cost/fpga_cost_model.h"
#include "tests/fpga/cost/boards.h"

namespace millrace {
namespace {

const Node& first_recurrent(const Graph& graph) {
  return *std::ranges::find_if(graph.nodes(), [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; });
}

TEST(BlockedEngines, TheFastestIsThatOfEveryWayToBuildIt) {
  const FpgaResources resources = fpga_resources_of(testing_support::vc709(), 16);
  const SbeBoard board = sbe_board_of(resources);
  const Graph graph(frozen_model(zoo_model("text-classifier")));
  const Node& node = first_recurrent(graph);
  for (const int64_t streams : {1, 2}) {
    const BlockedEngines engines(resources, streams);
    double fastest = 1e9;
    const SbeSpace space = planned_space(sbe_shape_of(node), node.output.height, streams);
    for_each_config(space, board.words_per_cycle(), [&](const SbeConfig& config) {
      const SbePoint point = point_of(config, board);
      if (!point.use.fits(board) || !point.timing.tail_keeps_up) return;
      fastest = std::min(fastest, point.seconds * static_cast<double>(node.output.height / config.steps) / static_cast<double>(streams));
    });
    const BlockedEngine* const found = engines.within(node, fastest * (1 + 1e-9));
    ASSERT_NE(found, nullptr);
    EXPECT_NEAR(found->seconds_per_sample, fastest, 1e-9 * fastest);
    EXPECT_EQ(engines.within(node, fastest * (1 - 1e-6)), nullptr);
    double share = 2;
    for (double period = fastest * (1 + 1e-9); period < 1000 * fastest; period *= 1.3) {
      const BlockedEngine* const slower = engines.within(node, period);
      ASSERT_NE(slower, nullptr);
      EXPECT_LE(slower->seconds_per_sample, period);
      EXPECT_LE(slower->share, share);
      share = slower->share;
      EXPECT_EQ(slower->point.config.streams, streams);
      EXPECT_EQ(node.output.height % slower->point.config.steps, 0);
    }
  }
}

TEST(BlockedEngines, AreThoseOfPlansForInferenceAlone) {
  const Graph graph(frozen_model(zoo_model("text-classifier")));
  const Node& node = first_recurrent(graph);
  const Arithmetic arithmetic{.compute = ElementType::kFixed16, .wire = ElementType::kFixed16};
  const auto inference = make_fpga_cost_model(testing_support::vc709(), arithmetic, 2);
  const auto training = make_fpga_cost_model(testing_support::vc709(), arithmetic);
  ShardQuestion question;
  question.node = &node;
  question.micro_batch = 2;
  question.period_seconds = 1e-3;
  EXPECT_EQ(training->cost_of(question).phases.at(0).engine, "pe_chain");
  const ShardCost cost = inference->cost_of(question);
  ASSERT_EQ(cost.phases.size(), 1u);
  EXPECT_EQ(cost.phases[0].engine, "sbe");
  EXPECT_LE(cost.seconds_per_sample, 1e-3 * 1.02);
  const ShardDemand demand = inference->demand_of(question);
  EXPECT_EQ(cost.resources.at(0).amount, demand.amounts[0]);
  ShardQuestion impossible = question;
  impossible.period_seconds = 1e-9;
  EXPECT_GT(inference->demand_of(impossible).amounts[0], 1e20);
}

}  // namespace
}  // namespace millrace
