// Batch norms that are trained with running statistics: what rings promise of weights they promise of these, too.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/reference/interpreter.h"
#include "tests/core/random_plans.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace {
namespace {

using testing::Each;
using testing_support::distance;
using testing_support::kEveryAlignment;
using testing_support::RandomPlans;
using testing_support::RingRun;

// Random networks in which most convolutions are normalised, one at least.
struct RunningPlans : RandomPlans {
  explicit RunningPlans(uint64_t seed) : RandomPlans(seed) {
    norms = 0.8;
    statistics = Statistics::kRunning;
  }
  Model normalised() {
    for (;;)
      if (Model model = this->model();
          std::ranges::any_of(model.layers, [](const Layer& layer) { return std::holds_alternative<BatchNorm>(layer.operation); }))
        return model;
  }
};

TEST(RunningStatistics, DrainedAlignmentsGiveEqualBits) {
  for (uint64_t seed = 140; seed < 144; ++seed) {
    RunningPlans random(seed);
    const Graph graph(random.normalised());
    const int64_t devices = random.between(2, 4);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const PlanRequest request = random.request(devices, Alignment::kFlush, 4);
    testing_support::expect_drained_alignments_agree(graph, request, random.shards(graph, devices));
  }
}

// All five alignments, twice, with some of the first layer's weights at the other end.
TEST(RunningStatistics, AnyNumberOfRanksGivesEqualBitsAndResumes) {
  for (uint64_t seed = 170; seed < 180; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}, {}", seed, name_of(kEveryAlignment[seed % 5])));
    RunningPlans random(seed);
    const Graph graph(random.normalised());
    const int64_t devices = random.between(2, 4);
    PlanRequest request = random.request(devices, kEveryAlignment[seed % 5], 4);
    const std::vector<Shard> shards = random.shards(graph, devices);
    const Node& first = graph.node(graph.index_of(shards.front().layer));
    if (first.computes && seed % 2 == 0 && shards.front().blocks.front().inputs.size() * shards.front().blocks.front().outputs.size() >= 3)
      request.remote_homes.push_back({shards.front().layer, "weight", 1, 2, devices - 1, shards.front().device});
    RingRun run(graph, assemble_plan(graph, request, shards), 6);
    run.job.checkpoint_every = 2;
    const bool cpu = seed >= 175;
    if (cpu) run.open_device = [](int64_t) { return make_cpu_device(); };
    const std::string whole = run.train(devices).outcome.weights_digest;
    for (int64_t ranks = 1; ranks < devices; ++ranks) EXPECT_EQ(run.retrain(ranks).outcome.weights_digest, whole) << ranks << " ranks";
    testing_support::expect_resumes(run, random, devices, whole);
  }
}

// What a mini-batch gathers is of all its samples, so that replicas' statistics are those of one ring, too.
TEST(RunningStatistics, ReplicasTrainLikeOneRingWithTheirSamplesTogether) {
  RunningPlans random(190);
  const Graph graph(random.normalised());
  testing_support::expect_replicas_are_one_ring(random, graph, [](const std::string&) { return false; });
}

// The average moves by its share towards mean and variance of all samples of the mini-batch, whichever of them had run ahead of an update.
TEST(RunningStatistics, AreThoseOfTheWholeMiniBatch) {
  ModelBuilder net("one", {2, 3, 3});
  net.layer("norm", BatchNorm{.momentum = 0.25, .statistics = Statistics::kRunning});
  net.flatten("flat");
  net.dense("fc", 3);
  const Graph graph(net.finish());
  constexpr int64_t kUpdates = 3, kMicroBatch = 2, kMicroBatches = 4;
  const auto pixel = [](int64_t id, int64_t i) {
    return static_cast<double>(Philox(7, 1).uniform(static_cast<uint64_t>(id * 18 + i))) * (i < 9 ? 3 : 1) + 5;
  };
  for (const Alignment alignment : kEveryAlignment) {
    SCOPED_TRACE(name_of(alignment));
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", 1);
    request.mini_batch = kMicroBatch * kMicroBatches;
    request.micro_batch = kMicroBatch;
    request.alignment = alignment;
    if (!drains(alignment)) request.windows = {3};
    const Plan plan = assemble_plan(graph, request, shards_from_cuts(graph, {}, {}));
    InterpreterOptions options;
    options.learning_rate = [](int64_t) { return 0.0; };
    Interpreter interpreter(plan, options, [&](int64_t s) {
      Samples samples;
      for (int64_t id = s * kMicroBatch; id < (s + 1) * kMicroBatch; ++id) {
        samples.ids.push_back(id);
        samples.labels.push_back(static_cast<int32_t>(id % 3));
        for (int64_t i = 0; i < 18; ++i) samples.pixels.push_back(pixel(id, i));
      }
      return samples;
    });
    for (const Node& node : graph.nodes())
      for (const ParameterSpec& parameter : node.parameters)
        if (parameter.trained)
          interpreter.set_parameter(node.layer.name, parameter.tensor, std::vector<double>(static_cast<size_t>(parameter.elements()), 0.5));
    interpreter.run(kUpdates);
    for (int64_t c = 0; c < 2; ++c) {
      double expected_mean = 0, expected_variance = 1;
      for (int64_t u = 0; u < kUpdates; ++u) {
        std::vector<double> values;
        for (int64_t id = u * request.mini_batch; id < (u + 1) * request.mini_batch; ++id)
          for (int64_t i = 9 * c; i < 9 * c + 9; ++i) values.push_back(pixel(id, i));
        double mean = 0, variance = 0;
        for (const double value : values) mean += value / static_cast<double>(values.size());
        for (const double value : values) variance += (value - mean) * (value - mean) / static_cast<double>(values.size() - 1);
        expected_mean += 0.25 * (mean - expected_mean);
        expected_variance += 0.25 * (variance - expected_variance);
      }
      EXPECT_NEAR(interpreter.parameter("norm", "running_mean")[static_cast<size_t>(c)], expected_mean, 1e-12);
      EXPECT_NEAR(interpreter.parameter("norm", "running_var")[static_cast<size_t>(c)], expected_variance, 1e-12);
    }
  }
}

}  // namespace
}  // namespace millrace
