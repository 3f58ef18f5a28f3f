// Recurrent networks on rings, whole and in chunks of time: the next layer begins before this one has seen all steps, and the
// weights do not know.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/index.h"
#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/plan/flow_load.h"
#include "core/plan/parts.h"
#include "core/plan/recomputation.h"
#include "core/plan/time_chunking.h"
#include "core/train/executor.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace {
namespace {

using testing::Each;
using testing_support::EqualBits;
using testing_support::RingResult;
using testing_support::RingRun;

Model stack(bool bidirectional) {
  ModelBuilder net("stack", {3, 12, 1});
  for (const char* name : {"rnn1", "rnn2", "rnn3"}) {
    const bool both = bidirectional && name[3] == '2';
    net.layer(name, Recurrent{.cell = name[3] == '3' ? CellKind::kGru : CellKind::kLstm, .hidden = 5, .bidirectional = both});
  }
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  return net.finish();
}

Plan plan_of(const Graph& graph, Alignment alignment, int64_t chunks, int64_t devices) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", devices);
  request.alignment = alignment;
  request.mini_batch = 8;
  request.micro_batch = 2;
  request.time_chunks = chunks;
  std::vector<Cut> cuts;
  for (int64_t d = 1; d < devices; ++d) cuts.push_back({d, 0, 0});
  return assemble_plan(graph, request, shards_from_cuts(graph, cuts, {}));
}

TEST(RecurrentRing, ChunksOfTimeAndRanksDoNotChangeABit) {
  for (const bool bidirectional : {false, true}) {
    const Graph graph(stack(bidirectional));
    for (const Alignment alignment : {Alignment::kFlush, Alignment::kFpdeep, Alignment::kStash}) {
      EqualBits bits;
      for (const int64_t chunks : {1, 3, 5})
        for (const int64_t ranks : {1, 3}) {
          SCOPED_TRACE(fmt::format("{} chunks, {} ranks, {}", chunks, ranks, name_of(alignment)));
          const Plan plan = plan_of(graph, alignment, chunks, 3);
          RingRun run(graph, plan);
          run.open_device = [](int64_t) { return make_cpu_device(); };
          const RingResult result = run.train(ranks);
          bits.expect(result);
          // As many elements as planned, in a message for each chunk where time streams.
          const TimeChunking streams(plan, graph);
          for (size_t f = 0; f < plan.flows.size(); ++f) {
            EXPECT_EQ(result.bytes[f], plan.flows[f].elements_per_sample * plan.mini_batch * run.job.steps * 4) << plan.flows[f].tensor;
            EXPECT_EQ(result.messages[f], (streams.flow(static_cast<int64_t>(f)) ? chunks : 1) * plan.micro_batches() * run.job.steps);
          }
        }
    }
  }
}

TEST(RecurrentRing, WhatIsMadeAgainChangesNoBitOnAnyNumberOfRanks) {
  const Graph graph(stack(/*bidirectional=*/true));
  for (const Alignment alignment : testing_support::kEveryAlignment) {
    if (alignment == Alignment::kFpdeep) continue;
    EqualBits bits;
    for (const bool recompute : {false, true})
      for (const int64_t ranks : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, recompute {}", name_of(alignment), ranks, recompute));
        Plan plan = plan_of(graph, alignment, 1, 3);
        if (recompute) choose_recomputation(plan, graph);
        RingRun run(graph, plan);
        run.open_device = [](int64_t) { return make_cpu_device(); };
        const RingResult result = run.train(ranks);
        bits.expect(result);
      }
  }
}

TEST(RecurrentRing, ALayerOfBothDirectionsIsABarrier) {
  const Graph one_way(stack(false)), both(stack(true));
  const Plan plan = plan_of(both, Alignment::kFlush, 4, 3);
  const TimeChunking streams(plan, both);
  for (size_t f = 0; f < plan.flows.size(); ++f)
    EXPECT_EQ(streams.flow(static_cast<int64_t>(f)), plan.flows[f].tensor == "rnn1") << plan.flows[f].tensor;
  const Plan free = plan_of(one_way, Alignment::kFlush, 4, 3);
  const TimeChunking all(free, one_way);
  for (size_t f = 0; f < free.flows.size(); ++f) EXPECT_TRUE(all.flow(static_cast<int64_t>(f))) << free.flows[f].tensor;
}

// x W of the first layer on two devices, its steps beside x W of the next, and so on; a residual add behind the second.
Plan plan_by_kind(const Graph& graph, Alignment alignment, int64_t chunks, const std::vector<int64_t>& loading = {}) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 5);
  request.alignment = alignment;
  request.mini_batch = 8;
  request.micro_batch = 2;
  request.time_chunks = chunks;
  std::vector<Shard> shards;
  const auto place = [&](int64_t device, const std::string& layer, const std::vector<Block>& blocks) {
    Shard& shard = shards.emplace_back();
    shard.device = device;
    shard.layer = layer;
    shard.blocks = blocks;
  };
  place(0, "rnn1", {{{0, 1}, {0, 20}}});
  place(1, "rnn1", {{{1, 3}, {0, 20}}});
  place(2, "rnn1", {});
  place(2, "rnn2", {{{0, 5}, {0, 40}}});
  place(3, "rnn2", {});
  place(3, "rnn3", {{{0, 10}, {0, 15}}});
  place(4, "rnn3", {});
  place(4, "fc", {{{0, 5}, {0, 3}}});
  for (const int64_t device : loading)
    for (ParameterHome& home : homes_before_steps(graph.node(graph.index_of(fmt::format("rnn{}", device - 1))), device))
      request.remote_homes.push_back(std::move(home));
  return assemble_plan(graph, request, shards);
}

Model three_cells() {
  ModelBuilder net("divided", {3, 12, 1});
  net.layer("rnn1", Recurrent{.hidden = 5, .truncation = 5});
  net.layer("rnn2", Recurrent{.hidden = 5, .bidirectional = true});
  net.layer("rnn3", Recurrent{.cell = CellKind::kGru, .hidden = 5, .reset_after = true});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  return net.finish();
}

TEST(RecurrentRing, LayersDividedByKindAreTheSameOnEveryNumberOfRanks) {
  ModelBuilder net("divided", {3, 12, 1});
  net.layer("rnn1", Recurrent{.hidden = 5, .truncation = 5});
  net.layer("rnn2", Recurrent{.hidden = 5, .bidirectional = true});
  const std::string both = net.last();
  net.layer("tanh", Activation{.kind = ActivationKind::kTanh});
  net.add("join", {net.last(), both});
  net.layer("rnn3", Recurrent{.cell = CellKind::kGru, .hidden = 5});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  const Graph graph(net.finish());
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kFpdeep, Alignment::kStash, Alignment::kZeroBubble}) {
    EqualBits bits;
    for (const int64_t chunks : {1, 4})
      for (const int64_t ranks : {1, 2, 3, 4, 5}) {
        SCOPED_TRACE(fmt::format("{} chunks, {} ranks, {}", chunks, ranks, name_of(alignment)));
        const Plan plan = plan_by_kind(graph, alignment, chunks);
        RingRun run(graph, plan);
        run.open_device = [](int64_t) { return make_cpu_device(); };
        const RingResult result = run.train(ranks);
        bits.expect(result);
        for (size_t f = 0; f < plan.flows.size(); ++f)
          EXPECT_EQ(result.bytes[f], plan.flows[f].elements_per_sample * plan.mini_batch * run.job.steps * 4) << plan.flows[f].tensor;
      }
  }
}

TEST(RecurrentRing, WhatStepsDividedByKindLeaveIsMadeAgainToTheBit) {
  const Graph graph(three_cells());
  // A CPU sums the gradients of a record, which the device before makes, in another order than those of steps.
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kStash}) {
    double without = 0;
    for (const bool loading : {false, true}) {
      EqualBits bits;
      for (const bool recompute : {false, true})
        for (const int64_t ranks : {1, 3}) {
          SCOPED_TRACE(fmt::format("{}, {} ranks, recompute {}, loading {}", name_of(alignment), ranks, recompute, loading));
          Plan plan = plan_by_kind(graph, alignment, 1, loading ? std::vector<int64_t>{2, 3, 4} : std::vector<int64_t>{});
          if (recompute) choose_recomputation(plan, graph);
          RingRun run(graph, plan);
          run.open_device = [](int64_t) { return make_cpu_device(); };
          const RingResult result = run.train(ranks);
          bits.expect(result);
          if (!loading && !recompute) without = result.outcome.test.loss;
          EXPECT_NEAR(result.outcome.test.loss, without, 1e-6 * without);
        }
    }
  }
  Plan plan = plan_by_kind(graph, Alignment::kFlush, 1);
  const auto activations = [&](int64_t device) {
    const auto cpu = make_cpu_device();
    return static_cast<double>(SegmentExecutor(plan, graph, device, *cpu).memory().activation_bytes);
  };
  std::vector<double> kept;
  for (int64_t device = 0; device < 5; ++device) kept.push_back(activations(device));
  choose_recomputation(plan, graph);
  for (int64_t device = 0; device < 5; ++device) {
    const RecomputationFigures figures = figures_of_recomputation(plan, graph, device);
    const double saved = kept[to_size(device)] - activations(device), counted = figures.bytes_kept - figures.bytes_shared;
    EXPECT_EQ(counted > 0, device >= 2) << device;
    EXPECT_LE(counted, saved) << device;
    EXPECT_GE(counted, 0.7 * saved) << device;  // sequences of 12 steps
  }
}

// Where the device before has the parameters of the steps and makes their gradients of a record, no bit is another on the reference
// device; what crosses is what the plan says, also with the norm clipped, after a resumption, and with averages of the weights.
TEST(RecurrentRing, StepsThatLoadTheirParametersChangeNoBit) {
  const Graph graph(three_cells());
  for (const Alignment alignment : testing_support::kEveryAlignment) {
    for (const bool clipped : {false, true}) {
      if (clipped && !drains(alignment)) continue;
      const auto plan_of = [&](const std::vector<int64_t>& loading, int64_t chunks = 1) {
        Plan plan = plan_by_kind(graph, alignment, chunks, loading);
        plan.optimizer.average_decay = 0.75;
        return plan;
      };
      const auto prepare = [&](RingRun& run) {
        if (clipped) run.job.clip = ClipKind::kGlobalNorm;
        run.job.clip_limit = 0.05;
      };
      RingRun alone(graph, plan_of({}));
      prepare(alone);
      const RingResult expected = alone.train(1);
      ASSERT_THAT(expected.errors, Each(""));
      for (const auto& [chunks, loading] : {std::pair{1, std::vector<int64_t>{3}}, std::pair{1, std::vector<int64_t>{2, 3, 4}},
                                            std::pair{4, std::vector<int64_t>{2, 3, 4}}}) {
        const Plan plan = plan_of(loading, chunks);
        RingRun run(graph, plan);
        prepare(run);
        for (const int64_t ranks : {1, 2, 5}) {
          SCOPED_TRACE(fmt::format("{} ranks, {}, {} load", ranks, name_of(alignment), loading.size()));
          const RingResult result = run.retrain(ranks);
          ASSERT_THAT(result.errors, Each(""));
          EXPECT_EQ(result.outcome.weights_digest, expected.outcome.weights_digest);
          EXPECT_EQ(result.outcome.test.loss, expected.outcome.test.loss);
          const TrainingTask task = run.task();
          for (size_t f = 0; f < plan.flows.size(); ++f) {
            const Flow& flow = plan.flows[f];
            int64_t elements = elements_per_mini_batch(flow, plan) * run.job.steps;
            if (flow.stream == Stream::kParameter) elements += flow.elements_per_pass * evaluation_micro_batches(task.data.test, plan);
            EXPECT_EQ(result.bytes[f], elements * 4) << flow.tensor;
          }
        }
        RingRun shorter(graph, plan);
        prepare(shorter);
        shorter.job.steps = 1;
        ASSERT_THAT(shorter.train(2).errors, Each(""));
        shorter.job.steps = run.job.steps;
        const RingResult resumed = shorter.resume(3);
        ASSERT_THAT(resumed.errors, Each(""));
        EXPECT_EQ(resumed.outcome.weights_digest, expected.outcome.weights_digest);
      }
    }
  }
}

TEST(RecurrentRing, MoreChunksThanStepsAreRefused) {
  const Graph graph(stack(false));
  const RingRun run(graph, plan_of(graph, Alignment::kFlush, 13, 2));
  EXPECT_THAT(run.train(2).errors,
              Each(testing::HasSubstr("--time-chunks 13: the longest sequence that model \"stack\" takes has 12 steps")));
}

}  // namespace
}  // namespace millrace
