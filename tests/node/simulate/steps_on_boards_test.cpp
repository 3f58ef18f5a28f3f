// A board that makes the steps of a recurrent layer with weights that it loads for every F and E: one action at a time, passes before them,
// the record with E, and what crosses as planned.
#include <gtest/gtest.h>

#include "core/plan/flow_load.h"
#include "core/plan/parts.h"
#include "node/simulate/simulate.h"
#include "tests/node/simulate/same_results.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace::steps_on_boards {
namespace {

using testing_support::kMicrosecond;

// x W of an LSTM on device 0, its steps on device 1, a dense layer on device 2; each phase takes what is given for a step of a sample.
Plan plan_of(const Graph& graph, Alignment alignment, int64_t steps_us, double gbps, int64_t micro_batches) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 3, {gbps, gbps, 0, 0});
  request.alignment = alignment;
  request.micro_batch = 2;
  request.mini_batch = 2 * micro_batches;
  request.remote_homes = homes_before_steps(graph.node(graph.index_of("lstm")), 1);
  std::vector<Shard> shards(3);
  shards[0].layer = "lstm";
  shards[0].blocks = {{{0, 3}, {0, 16}}};
  shards[1].device = 1;
  shards[1].layer = "lstm";
  shards[2].device = 2;
  shards[2].layer = "fc";
  shards[2].blocks = {{{0, 4}, {0, 3}}};
  for (Shard& shard : shards) {
    const bool steps = shard.device == 1;
    shard.unit = steps ? StreamingUnit::kStep : StreamingUnit::kSample;
    const int64_t time = (steps ? steps_us : 1) * kMicrosecond;
    shard.phases = {{Phase::kForward, "engine", 0, time}, {Phase::kErrorBack, "engine", 0, time}};
    if (!steps) shard.phases.push_back({Phase::kParameterGradient, "engine", 0, time});
  }
  return assemble_plan(graph, request, std::move(shards));
}

Model model() {
  ModelBuilder net("lstm", {3, 6, 1});
  net.layer("lstm", Recurrent{.hidden = 4});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  return net.finish();
}

constexpr Alignment kAll[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                              Alignment::kZeroBubble};

// Of every flow what the plan says: a pass for each F and each E, records among the rest.
TEST(StepsOnBoards, EveryFlowMovesWhatThePlanSays) {
  const Graph graph(model());
  for (const Alignment alignment : kAll) {
    const Plan plan = plan_of(graph, alignment, 2, 100, 4);
    const int64_t mini_batches = 5;
    const SimulationResult result = simulate(plan, graph, {.samples = mini_batches * plan.mini_batch});
    bool records = false;
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const Flow& flow = plan.flows[f];
      records = records || flow.stream == Stream::kRecord;
      EXPECT_NE(flow.stream, Stream::kGradient);
      if (flow.stream == Stream::kParameter) {
        EXPECT_EQ(flow.passes_per_mini_batch, 2 * plan.micro_batches());
      }
      EXPECT_EQ(result.flows[f].elements, mini_batches * elements_per_mini_batch(flow, plan))
          << name_of(alignment) << " " << name_of(flow.stream) << " " << flow.tensor;
    }
    EXPECT_TRUE(records);
    testing_support::expect_same(result, simulate(plan, graph, {.samples = mini_batches * plan.mini_batch}));
  }
}

// F and E of one board take turns: six steps of 2 us there and six back are all that a sample may take. Once a mini-batch the board waits
// for the parameters of the next version, whose last gradients are made behind its E.
TEST(StepsOnBoards, TheElementsSetThePace) {
  const Graph graph(model());
  const Plan plan = plan_of(graph, Alignment::kFpdeep, 2, 100, 8);
  const SimulationResult result = simulate(plan, graph, {.samples = 320, .paced = false});
  const double bound = 1e12 / (2 * 6 * 2 * kMicrosecond);
  EXPECT_LE(result.images_per_second, bound);
  EXPECT_GT(result.images_per_second, 0.94 * bound);
  for (const SimulatedStage& stage : result.stages)
    if (stage.device == 1) {
      EXPECT_GT(static_cast<double>(stage.busy), 0.93 * static_cast<double>(stage.window));
    }
}

// On a slow link passes are most of what crosses; the board waits for them.
TEST(StepsOnBoards, PassesTakeTheirLink) {
  const Graph graph(model());
  const Plan plan = plan_of(graph, Alignment::kFpdeep, 2, 0.02, 8);
  const SimulationResult result = simulate(plan, graph, {.samples = 320, .paced = false});
  const auto bits = static_cast<double>(load_of(plan, 0, Direction::kForward).bits_per_mini_batch);
  const double parameters = 2 * 8 * (4 * 4 * 4 + 2 * 16) * 32.0;
  EXPECT_DOUBLE_EQ(bits, parameters + 16 * 6 * 16 * 32.0);
  const double bound = 16 / (bits / 0.02e9);
  EXPECT_LE(result.images_per_second, 1.01 * bound);
  EXPECT_GT(result.images_per_second, 0.9 * bound);
}

}  // namespace
}  // namespace millrace::steps_on_boards
