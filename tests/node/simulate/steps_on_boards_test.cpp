// A board that makes the steps of a recurrent layer with weights that it loads for every F and E: one action at a time, passes before them,
// the record with E, and what crosses as planned.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/plan/flow_load.h"
#include "core/plan/parts.h"
#include "node/simulate/simulate.h"
#include "tests/core/dataflow/plans_by_kind.h"
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

// As plan_of, with the steps on `boards` devices in a row, some cells each.
Plan shared_plan(const Graph& graph, Alignment alignment, std::vector<int64_t> cuts, int64_t steps_us, const LinkEntry& link,
                 int64_t micro_batches) {
  std::vector<ChannelRange> units;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) units.push_back({cuts[i], cuts[i + 1]});
  const auto boards = static_cast<int64_t>(units.size());
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 2 + boards, link);
  request.alignment = alignment;
  request.micro_batch = 2;
  request.mini_batch = 2 * micro_batches;
  request.remote_homes = homes_before_steps(graph.node(graph.index_of("lstm")), 1, units);
  std::vector<Shard> shards(static_cast<size_t>(2 + boards));
  for (size_t d = 0; d < shards.size(); ++d) {
    Shard& shard = shards[d];
    shard.device = static_cast<int64_t>(d);
    const bool steps = d > 0 && d + 1 < shards.size();
    shard.layer = d + 1 < shards.size() ? "lstm" : "fc";
    if (d == 0) shard.blocks = {{{0, 3}, {0, 4 * cuts.back()}}};
    if (d + 1 == shards.size()) shard.blocks = {{{0, graph.shape_of(graph.index_of("lstm")).channels}, {0, 3}}};
    if (steps) shard.units = units[d - 1];
    shard.unit = steps ? StreamingUnit::kStep : StreamingUnit::kSample;
    const int64_t time = (steps ? steps_us : 1) * kMicrosecond;
    shard.phases = {{Phase::kForward, "engine", 0, time}, {Phase::kErrorBack, "engine", 0, time}};
    if (!steps) shard.phases.push_back({Phase::kParameterGradient, "engine", 0, time});
  }
  return assemble_plan(graph, request, std::move(shards));
}

Model model_of(int64_t cells, int64_t projection = 0) {
  ModelBuilder net("lstm", {3, 6, 1});
  net.layer("lstm", Recurrent{.hidden = cells, .projection = projection});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  return net.finish();
}

// A board that waits at every step for the rows of the others: F and E of a micro-batch end so much later, on links that carry nothing
// else at the time.
TEST(StepsOnBoards, StepsWaitForTheOthersRows) {
  const Graph graph(model_of(6));
  for (const std::vector<int64_t>& cuts : std::vector<std::vector<int64_t>>{{0, 3, 6}, {0, 2, 4, 6}}) {
    const LinkEntry link{1000, 1000, 0, 5};  // 5 us, and next to nothing for the bits
    const Plan plan = shared_plan(graph, Alignment::kFlush, cuts, 2, link, 1);
    const SimulationResult result = simulate(plan, graph, {.samples = 8, .paced = false, .trace = true});
    const auto boards = static_cast<int64_t>(cuts.size()) - 1;
    int64_t spans = 0;
    for (const TraceSpan& span : result.trace) {
      if (span.device < 1 || span.device > boards || span.phase > 1) continue;
      // Six steps of two samples. Two ends wait for each other; who is between them is held up by both.
      const double step = 1e-12 * 2 * 2 * kMicrosecond;
      const double wait = exchange_seconds(plan.links, 1, boards, 1, 2 * (cuts[1] - cuts[0]) * 32 * (span.phase == 1 ? 4 : 1));
      const double seconds = 1e-12 * static_cast<double>(span.end - span.start);
      EXPECT_NEAR(seconds, 6 * (step + wait), 0.02 * seconds + 1e-12 * 5 * kMicrosecond * static_cast<double>(boards - 1)) << span.device;
      EXPECT_GE(seconds, 6 * step + 5 * wait);
      ++spans;
    }
    EXPECT_EQ(spans, 4 * 2 * boards);
    // What the plan's figures say of it.
    const Group& group = plan.groups.front();
    const double wait = exchange_seconds(plan, graph, group, 1);
    const int64_t row = 2 * (cuts[1] - cuts[0]) * 32;
    EXPECT_DOUBLE_EQ(wait, 3 * (exchange_seconds(plan.links, 1, boards, 1, row) + exchange_seconds(plan.links, 1, boards, 1, 4 * row)));
  }
}

// A layer that projects has two rows a step, in F and in E, and waits for the others' after each.
TEST(StepsOnBoards, ProjectedStepsWaitTwice) {
  const Graph graph(model_of(6, 3));
  for (const std::vector<int64_t>& cuts : std::vector<std::vector<int64_t>>{{0, 2, 6}, {0, 2, 4, 6}}) {
    const Plan plan = shared_plan(graph, Alignment::kFlush, cuts, 2, {1000, 1000, 0, 5}, 1);
    const SimulationResult result = simulate(plan, graph, {.samples = 8, .paced = false, .trace = true});
    const auto boards = static_cast<int64_t>(cuts.size()) - 1;
    int64_t spans = 0;
    for (const TraceSpan& span : result.trace) {
      if (span.device < 1 || span.device > boards || span.phase > 1) continue;
      const double step = 1e-12 * 2 * 2 * kMicrosecond, seconds = 1e-12 * static_cast<double>(span.end - span.start);
      const double wait = 2 * exchange_seconds(plan.links, 1, boards, 1, 1);
      EXPECT_NEAR(seconds, 6 * (step + wait), 0.02 * seconds + 1e-12 * 5 * kMicrosecond * static_cast<double>(boards - 1)) << span.device;
      EXPECT_GE(seconds, 6 * step + 5.5 * wait);
      ++spans;
    }
    EXPECT_EQ(spans, 4 * 2 * boards);
    const int64_t most = cuts.back() - cuts[cuts.size() - 2], cell = 2 * 32;
    const auto of = [&](int64_t elements) { return exchange_seconds(plan.links, 1, boards, 1, elements * cell); };
    EXPECT_DOUBLE_EQ(exchange_seconds(plan, graph, plan.groups.front(), 1), 3 * (of(most) + 2 * of(most / 2) + of(4 * most)));
  }
}

TEST(StepsOnBoards, SharedStepsMoveWhatThePlanSays) {
  for (const bool projects : {false, true}) {
    const Graph graph(projects ? model_of(14, 7) : model_of(7));
    for (const Alignment alignment : kAll)
      for (std::vector<int64_t> cuts : std::vector<std::vector<int64_t>>{{0, 5, 7}, {0, 1, 4, 7}}) {
        if (projects)
          for (int64_t& cut : cuts) cut *= 2;
        const Plan plan = shared_plan(graph, alignment, cuts, 2, {10, 10, 0, 0.5}, 4);
        const int64_t mini_batches = 5;
        const SimulationOptions options{.samples = mini_batches * plan.mini_batch};
        const SimulationResult result = simulate(plan, graph, options);
        int64_t states = 0;
        for (size_t f = 0; f < plan.flows.size(); ++f) {
          const Flow& flow = plan.flows[f];
          EXPECT_EQ(result.flows[f].elements, mini_batches * elements_per_mini_batch(flow, plan))
              << name_of(alignment) << " " << name_of(flow.stream) << " " << flow.tensor;
          if (flow.stream != Stream::kState) continue;
          ++states;
          EXPECT_EQ(result.flows[f].messages, mini_batches * plan.micro_batches() * 6);  // a message a step
        }
        EXPECT_EQ(states, (cuts.size() == 3 ? 4 : 12) * (projects ? 2 : 1));
        if (alignment != Alignment::kFpdeep && alignment != Alignment::kFlush) continue;
        for (const int64_t ranks : {int64_t{2}, plan.devices() - 1}) {
          SCOPED_TRACE(fmt::format("{} ranks", ranks));
          testing_support::expect_same(result, testing_support::on_ranks(ranks, plan, graph, options));
        }
      }
  }
}

// Beside a device whose engines work row by row.
TEST(StepsOnBoards, SharedStepsBesideEnginesAreRefused) {
  const Graph graph(model_of(6));
  Plan plan = shared_plan(graph, Alignment::kFpdeep, {0, 3, 6}, 2, {10, 10, 0, 0.5}, 4);
  for (Shard& shard : plan.shards)
    if (shard.device == 0)
      for (PhaseEngine& phase : shard.phases) phase.multipliers = 1;
  try {
    simulate(plan, graph, {.samples = 8});
    FAIL() << "simulated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("layer \"lstm\": several devices share its steps, which is simulated where all devices take turns"));
  }
}

// Drawn networks and plans, as the trainer and the interpreter have them: every flow moves what the plan says, on any number of ranks and
// with few cores.
TEST(StepsOnBoards, DrawnPlansMoveWhatTheySay) {
  int64_t shared = 0, projected = 0, records = 0, flows = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    testing_support::DrawnByKind draw(seed);
    const Graph graph(draw.model());
    Plan plan = draw.plan(graph, kAll[seed % 5], true, seed % 3 != 0);
    for (LinkEntry& link : plan.cluster.links) link.latency_us = 0.1 * static_cast<double>(draw.from_to(1, 20));
    plan.links = links_of(plan.cluster);
    for (Shard& shard : plan.shards) {
      shard.unit = draw.one_in(2) ? StreamingUnit::kStep : StreamingUnit::kSample;
      for (const Phase phase : {Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient})
        shard.phases.push_back({phase, "engine", 0, draw.from_to(1, 3000) * 1000});
    }
    plan.time_chunks = draw.from_to(1, draw.steps);
    SimulationOptions options{.samples = 4 * plan.mini_batch};
    const SimulationResult result = simulate(plan, graph, options);
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const Flow& flow = plan.flows[f];
      records += flow.stream == Stream::kRecord ? 1 : 0;
      ASSERT_EQ(result.flows[f].elements, 4 * elements_per_mini_batch(flow, plan)) << "seed " << seed << " " << flow.tensor;
    }
    flows += static_cast<int64_t>(plan.flows.size());
    for (const Group& group : plan.groups) {
      if (!shares_steps(plan, graph, group)) continue;
      ++shared;
      projected += std::get<Recurrent>(graph.node(graph.index_of(group.layer)).layer.operation).projection > 0 ? 1 : 0;
    }
    if (seed % 4 == 0 && plan.devices() > 1)
      testing_support::expect_same(result, testing_support::on_ranks(1 + plan.devices() / 2, plan, graph, options));
    options.trainer_ranks = 1 + static_cast<int64_t>(seed) % plan.devices();
    options.cores = 1;
    const SimulationResult few = simulate(plan, graph, options);
    for (size_t f = 0; f < plan.flows.size(); ++f) ASSERT_EQ(few.flows[f].elements, result.flows[f].elements) << "seed " << seed;
  }
  EXPECT_GT(shared, 120);
  EXPECT_GT(projected, 3);
  EXPECT_GT(records, 160);
  EXPECT_GT(flows, 2000);
}

}  // namespace
}  // namespace millrace::steps_on_boards
