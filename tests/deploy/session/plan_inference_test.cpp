// Plans for inference beside what they stand on: every placement of the recurrent layers, and the words that engines fetch.
#include "deploy/session/plan_inference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/graph/frozen_model.h"
#include "core/graph/zoo.h"
#include "core/plan/off_chip.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/rtl_inference.h"
#include "fpga/sbe/phases/blocked_forward.h"
#include "fpga/sbe/timing.h"
#include "fpga/sbe/weight_stream.h"
#include "node/simulate/simulate.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/sbe/phases/random_layer.h"

namespace millrace {
namespace {

// LSTMs one behind the other, and a dense layer.
Graph chain_of(const std::vector<int64_t>& hidden, int64_t inputs, int64_t steps) {
  std::string text =
      fmt::format("version: 1\nname: \"chain\"\ninput {{ channels: {} height: {} width: 1 }}\ninput_kind: FEATURES\n", inputs, steps);
  for (size_t i = 0; i < hidden.size(); ++i) text += fmt::format("layers {{ name: \"lstm{}\" lstm {{ hidden: {} }} }}\n", i, hidden[i]);
  text += "layers { name: \"last\" last_step {} }\nlayers { name: \"fc\" dense { out_features: 4 } }\n";
  text += "layers { name: \"loss\" softmax_cross_entropy {} }\n";
  return Graph(frozen_model(parse_model(text, "chain")));
}

Outcome planned(const Graph& graph, const char* cluster, const InferenceRequest& request, std::map<std::string, int64_t> pins = {}) {
  PlanTask task;
  task.graph = &graph;
  task.cluster = cluster_from(cluster, shipped_catalogue());
  task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
  task.options.pins = std::move(pins);
  account(task, Accounting::kFull);
  CostModels models;
  return plan_inference(request, shipped_catalogue(), task, models);
}

// By hand every way to give the layers to the boards.
double best_by_hand(const Graph& graph, const char* cluster, int64_t boards, const std::vector<std::string>& layers) {
  double best = 0;
  std::vector<std::map<std::string, int64_t>> ways{{}};
  for (size_t i = 0; i < layers.size(); ++i) {
    std::vector<std::map<std::string, int64_t>> longer;
    for (const auto& way : ways)
      for (int64_t board = i == 0 ? 0 : way.at(layers[i - 1]); board < boards; ++board) {
        longer.push_back(way);
        longer.back()[layers[i]] = board;
      }
    ways = std::move(longer);
  }
  for (const auto& way : ways)
    if (const Outcome found = planned(graph, cluster, {.streams = 1, .steps_per_pass = {}, .blocks = {}}, way); found.feasible)
      best = std::max(best, found.summary.images_per_second);
  return best;
}

}  // namespace

// Layers of so different sizes that a cut by products alone puts together what shares a board badly.
TEST(PlanInference, CutsAndEnginesAreFoundTogether) {
  struct Case {
    std::vector<int64_t> hidden;
    const char* cluster;
    int64_t boards;
  };
  for (const Case& one : {Case{{64, 96, 32}, "zc706x2", 2}, Case{{128, 128, 64, 64}, "zc706x2", 2}, Case{{96, 96, 96}, "zc706+vc709", 2}}) {
    const Graph graph = chain_of(one.hidden, 24, 8);
    std::vector<std::string> layers;
    for (size_t i = 0; i < one.hidden.size(); ++i) layers.push_back(fmt::format("lstm{}", i));
    const Outcome found = planned(graph, one.cluster, {.streams = 1, .steps_per_pass = {}, .blocks = {}});
    ASSERT_TRUE(found.feasible) << found.reason.text;
    const double by_hand = best_by_hand(graph, one.cluster, one.boards, layers);
    RecordProperty(fmt::format("gap_{}_{}", one.hidden.size(), one.cluster),
                   fmt::format("{:.5f}", 1 - found.summary.images_per_second / by_hand));
    EXPECT_GT(by_hand, 0);
    EXPECT_GE(found.summary.images_per_second, by_hand * (1 - 2e-3)) << one.hidden.size() << " layers on " << one.cluster;
  }
}

// Two recurrent layers that stream their weights: what the simulator counts is what the functional model fetches, which RTL's beats are
// compared with elsewhere.
TEST(PlanInference, SimulatorCountsTheWordsThatAreFetched) {
  const Graph graph = chain_of({16, 8}, 48, 8);
  const Outcome found = planned(graph, "zc706", {.streams = 2, .steps_per_pass = 4, .blocks = 3});
  ASSERT_TRUE(found.feasible && found.plan) << found.reason.text;
  constexpr int64_t kSamples = 12;
  const SimulationResult result = simulate(*found.plan, graph, {.samples = kSamples});
  testing_support::Dice dice(5);
  int64_t engines = 0;
  for (const SimulatedStage& stage : result.stages) {
    if (stage.shard < 0) continue;
    const Shard& shard = found.plan->shards[static_cast<size_t>(stage.shard)];
    const Node& node = graph.node(graph.index_of(shard.layer));
    if (role_of(node.layer.operation) != Role::kRecurrence) {
      EXPECT_EQ(stage.weight_words, 0);
      continue;
    }
    const SbeConfig config = weight_stream_of(shard, node).value();
    const FixedRecurrent layer =
        testing_support::random_layer(dice, CellKind::kLstm, config.shape.inputs, config.shape.hidden, config.shape.projection);
    const RecurrentRun run{.streams = config.streams, .steps = config.steps, .lengths = {}};
    BlockedTraffic traffic;
    const int64_t batches = kSamples / config.streams * (node.output.height / config.steps);
    RecurrentState state = zero_state(layer, config.streams);
    RecurrentCounters counters;
    for (int64_t batch = 0; batch < batches; ++batch)
      blocked_forward(config, layer, weight_image(config, layer), run,
                      testing_support::random_elements(dice, config.vectors() * layer.inputs, 9000), state, counters, traffic);
    EXPECT_GT(traffic.weight_words, 0);
    EXPECT_EQ(stage.weight_words, traffic.weight_words) << shard.layer;
    EXPECT_EQ(stage.weight_words, batches * batch_timing(config).weight_words) << shard.layer;
    ++engines;
  }
  EXPECT_EQ(engines, 2);
}

// Two products of each weight of a forward pass; and no bound is below what is reached, though engines chosen together may be faster than
// the period that they were looked for.
TEST(PlanInference, FiguresAreOfForwardPasses) {
  const Graph graph(frozen_model(zoo_model("text-classifier")));
  const Outcome found = planned(graph, "zc706x2", {.streams = 1, .steps_per_pass = {}, .blocks = {}});
  ASSERT_TRUE(found.feasible && found.plan) << found.reason.text;
  const PlanSummary& summary = found.summary;
  constexpr double kProducts = 2.0 * 20 * 4 * 256 * 512;  // two layers, twenty steps, four gates of 256, inputs and state of 256 each
  EXPECT_NEAR(summary.gops_per_device * 2, 2e-9 * kProducts * summary.images_per_second, 1e-6 * summary.gops_per_device);
  EXPECT_GE(summary.lower_bound_images_per_second, summary.images_per_second);
  EXPECT_LE(found.plan->lower_bound_seconds_per_image, summary.seconds_per_image);
}

// What no engine follows is refused by whoever reads the plan, by layer and setting.
TEST(PlanInference, EnginesThatCannotBeAreRefused) {
  const Graph graph = chain_of({16, 8}, 48, 8);
  const Outcome found = planned(graph, "zc706", {.streams = 2, .steps_per_pass = 4, .blocks = 3});
  ASSERT_TRUE(found.feasible && found.plan) << found.reason.text;
  EXPECT_NO_THROW(check_engines(*found.plan, graph));
  const auto refuses = [&](const std::string& name, double amount, const std::string& why) {
    Plan plan = *found.plan;
    for (Shard& shard : plan.shards)
      for (NamedAmount& resource : shard.resources)
        if (resource.name == "weight_stream_" + name) resource.amount = amount;
    expect_error(ErrorCode::kMalformed, why, [&] { check_engines(plan, graph); });
  };
  refuses("row_lanes", 6, "layer \"lstm0\": 6 lanes");
  refuses("row_lanes", 1e5, "layer \"lstm0\": 100000 lanes");
  refuses("columns", 0, "0 columns a cycle");
  refuses("tail_units", 0, "0 tail units");
  refuses("block_chunks", 0, "layer \"lstm0\": ");
  refuses("slots", 1, "1 slots");
  refuses("pinned", 3, "weight_stream_pinned is 3");
  refuses("words_per_cycle", 0, "0 words a cycle");
  refuses("streams", 0, "a batch of 0 streams");
  refuses("steps", 3, "passes of 3 do not make them up");
  Plan plan = *found.plan;
  plan.time_chunks = 9;
  expect_error(ErrorCode::kMalformed, "time_chunks is 9", [&] { check_engines(plan, graph); });
}

// A dense layer of 3.7 million weights, which no board has room for: what it fetches is what its engine fetches, once for the steps of a
// pass, and the ring is as fast as the port and the memory let it be. By hand: 32 steps, 16 of which share a pass.
TEST(PlanInference, StepsOfADenseLayerShareAPassOverItsWeights) {
  const Graph graph(frozen_model(zoo_model("lrcn-lstm-256")));
  const Outcome found = planned(graph, "zc706", {.streams = 1, .steps_per_pass = {}, .blocks = {}});
  ASSERT_TRUE(found.feasible && found.plan) << found.reason.text;
  const Shard& dense = found.plan->shards.at(0);
  ASSERT_EQ(dense.layer, "fc_in");
  EXPECT_EQ(steps_of_pass(dense, graph.node(graph.index_of("fc_in"))), 16);
  EXPECT_EQ(off_chip_bytes_per_sample(dense, graph.node(graph.index_of("fc_in")), 1), 2.0 * 2048 * 1792 * 2);
  EXPECT_NEAR(inference_pace_ratio(*found.plan, graph).value(), 1, 0.01);
  const Outcome alone = planned(graph, "zc706", {.streams = 1, .steps_per_pass = 1, .blocks = {}});
  ASSERT_TRUE(alone.feasible && alone.plan) << alone.reason.text;
  EXPECT_EQ(steps_of_pass(alone.plan->shards.at(0), graph.node(graph.index_of("fc_in"))), 1);
  EXPECT_LE(alone.summary.images_per_second, 125e6 * 64 / (2.0 * 2048 * 1792 * 32)) << "more than the port lets through";
  EXPECT_NEAR(inference_pace_ratio(*alone.plan, graph).value(), 1, 0.01);
}

}  // namespace millrace
