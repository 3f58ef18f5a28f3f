// What a recurrent layer's engine costs in a plan for inference, against every way to build it.
#include "fpga/cost/blocked_engines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/graph/frozen_model.h"
#include "core/graph/zoo.h"
#include "fpga/cost/fpga_cost_model.h"
#include "fpga/sbe/rtl/engine_hardware.h"
#include "tests/fpga/cost/boards.h"

namespace millrace {
namespace {

const Node& first_recurrent(const Graph& graph) {
  return *std::ranges::find_if(graph.nodes(), [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; });
}

// What explorations leave out early is what the generator refuses.
TEST(BlockedEngines, PlansChooseFromEveryWayThatCanBeGenerated) {
  for (const GateMatrix& shape : {GateMatrix{24, 12, 4}, GateMatrix{10, 16, 3}, GateMatrix{16, 16, 4, 8}, GateMatrix{7, 32, 1}}) {
    const InferenceBatch batch{.streams = 2};
    const SbeSpace planned = planned_space(shape, 6, batch);
    std::vector<SbeConfig> chosen_from, generated;
    for_each_config(planned, 16, [&](const SbeConfig& config) { chosen_from.push_back(config); });
    SbeSpace all = planned;
    all.allowed = all.array_allowed = {};
    int64_t refused = 0;
    for_each_config(all, 16, [&](const SbeConfig& config) {
      try {
        check_buildable(config);
        generated.push_back(config);
      } catch (const Error&) {
        ++refused;
      }
    });
    EXPECT_GT(generated.size(), 20u);
    EXPECT_GT(refused, 20);
    ASSERT_EQ(chosen_from.size(), generated.size());
    for (size_t i = 0; i < generated.size(); ++i) ASSERT_EQ(text_of(chosen_from[i]), text_of(generated[i]));
  }
}

// Questions that were asked before have the same answers.
TEST(BlockedEngines, KnownEnginesAreThoseOfASearchAnew) {
  const Graph graph(frozen_model(zoo_model("text-classifier")));
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes())
    if (role_of(node.layer.operation) == Role::kRecurrence) nodes.push_back(&node);
  const FpgaResources resources = fpga_resources_of(testing_support::vc709(), 16);
  const InferenceBatch anew{.streams = 1, .steps = 20};
  InferenceBatch known = anew;
  known.known = std::make_shared<KnownEngines>();
  const auto seconds = [&](const InferenceBatch& batch, const BoardShare& taken) {
    return engines_together(nodes, resources, batch, taken).of_layers.begin()->second.seconds;
  };
  for (const BoardShare& taken : {BoardShare{}, BoardShare{.dsp = 3000, .lut = 1e5, .bram36 = 300}, BoardShare{}})
    EXPECT_EQ(seconds(known, taken), seconds(anew, taken));
  const BlockedEngines first(resources, known), second(resources, known);
  const BlockedEngine* const engine = first.within(*nodes[0], 1.0);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine, second.within(*nodes[0], 1.0));
}

TEST(BlockedEngines, TheFastestIsThatOfEveryWayToBuildIt) {
  const FpgaResources resources = fpga_resources_of(testing_support::vc709(), 16);
  const SbeBoard board = sbe_board_of(resources);
  const Graph graph(frozen_model(zoo_model("text-classifier")));
  const Node& node = first_recurrent(graph);
  for (const int64_t streams : {1, 2}) {
    const BlockedEngines engines(resources, {.streams = streams});
    double fastest = 1e9;
    const SbeSpace space = planned_space(sbe_shape_of(node), node.output.height, {.streams = streams});
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
  const auto inference = make_fpga_cost_model(testing_support::vc709(), arithmetic, {.streams = 2});
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

TEST(BlockedEngines, StepsAndBlocksAreThoseAskedFor) {
  const Graph graph(frozen_model(zoo_model("text-classifier")));
  const Node& node = first_recurrent(graph);
  const FpgaResources resources = fpga_resources_of(testing_support::vc709(), 16);
  const BlockedEngines engines(resources, {.streams = 2, .steps = 5, .blocks = 3});
  const BlockedEngine* const found = engines.within(node, 1.0);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->point.config.streams, 2);
  EXPECT_EQ(found->point.config.steps, 5);
  EXPECT_EQ(blocks_of(found->point.config).size(), 3u);
}

// Why there is no engine, and sizes that have one.
TEST(BlockedEngines, SayWhyALayerHasNone) {
  const FpgaResources resources = fpga_resources_of(testing_support::vc709(), 16);
  const auto refusal = [](const FpgaResources& board, const char* cell) {
    const Graph graph(frozen_model(parse_model(fmt::format("version: 1 name: \"m\" input_kind: FEATURES input {{ channels: 40 height: 6 "
                                                           "width: 1 }} layers {{ name: \"rnn\" {} }} layers {{ name: \"fc\" dense {{ "
                                                           "out_features: 2 }} }} layers {{ name: \"loss\" softmax_cross_entropy {{}} }}",
                                                           cell),
                                               "m")));
    const Node& node = first_recurrent(graph);
    const BlockedEngines engines(board, {.streams = 1});
    const std::string why = engines.refusal(node);
    EXPECT_EQ(why.empty(), engines.within(node, 1e9) != nullptr) << cell;
    return why;
  };
  EXPECT_EQ(refusal(resources, "rnn_relu { hidden: 7 }"), "no engine of vc709 is generated for 7 hidden units; 4 or 8 would do");
  for (const char* cell : {"rnn_relu { hidden: 4 }", "rnn_relu { hidden: 8 }", "lstm { hidden: 16 }"})
    EXPECT_EQ(refusal(resources, cell), "");
  EXPECT_NE(refusal(resources, "gru { hidden: 16 }").find("set reset_after"), std::string::npos);
  FpgaResources small = resources;
  small.bram36 = 4;
  EXPECT_EQ(refusal(small, "lstm { hidden: 16 }").substr(0, 17), "its engine takes ");
}

// Chosen together they fit what is left of the board, and are no slower than each one's own best.
TEST(EnginesTogether, FitTheBoardAndAreNoSlowerThanOneByOne) {
  const Graph graph(frozen_model(zoo_model("text-classifier")));
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes())
    if (role_of(node.layer.operation) == Role::kRecurrence) nodes.push_back(&node);
  ASSERT_EQ(nodes.size(), 2u);
  const FpgaResources resources = fpga_resources_of(testing_support::vc709(), 16);
  const SbeBoard board = sbe_board_of(resources);
  const BoardShare taken{.dsp = board.dsp - 1000, .lut = 0.5 * board.lut, .bram36 = board.bram36 - 700};
  const InferenceBatch batch{.streams = 1, .steps = 4};
  const EnginesTogether chosen = engines_together(nodes, resources, batch, taken);
  ASSERT_EQ(chosen.of_layers.size(), 2u);
  const auto fits = [&](double dsp, double lut, double bram36, double bytes, double seconds) {
    return dsp <= board.dsp - taken.dsp && lut <= kUsableLuts * board.lut - taken.lut && bram36 <= board.bram36 - taken.bram36 &&
           bytes <= seconds * board.bytes_per_second * (1 + 1e-9);
  };
  const auto& first = chosen.of_layers.begin()->second;
  for (size_t i = 0; i < first.seconds.size(); ++i) {
    double dsp = 0, lut = 0, bram36 = 0, bytes = 0;
    for (const auto& [layer, ways] : chosen.of_layers) {
      EXPECT_EQ(ways.seconds, first.seconds);
      EXPECT_LE(ways.engines[i].seconds_per_sample, first.seconds[i] * (1 + 1e-9));
      const SbeUse& use = ways.engines[i].point.use;
      dsp += use.dsp, lut += use.lut, bram36 += use.bram36, bytes += ways.engines[i].bytes_per_sample;
    }
    EXPECT_TRUE(fits(dsp, lut, bram36, bytes, first.seconds[i])) << i;
    if (i > 0) {
      EXPECT_GT(first.seconds[i], first.seconds[i - 1]);
    }
  }
  const BlockedEngines alone(resources, batch);
  double one_by_one = first.seconds[0] / 2;
  for (;; one_by_one *= 1.002) {
    double dsp = 0, lut = 0, bram36 = 0, bytes = 0;
    bool all = true;
    for (const Node* node : nodes) {
      const BlockedEngine* const engine = alone.within(*node, one_by_one);
      all = all && engine != nullptr;
      if (engine == nullptr) continue;
      const SbeUse& use = engine->point.use;
      dsp += use.dsp, lut += use.lut, bram36 += use.bram36, bytes += engine->bytes_per_sample;
    }
    if (all && fits(dsp, lut, bram36, bytes, one_by_one)) break;
  }
  EXPECT_LE(first.seconds[0], one_by_one * (1 + 1e-9));
}

}  // namespace
}  // namespace millrace
