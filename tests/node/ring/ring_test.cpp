// Plans trained on rings of threads: bit by bit what the interpreter makes of them, on any number of ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plan/schedule_cursor.h"
#include "core/plan/validate.h"
#include "core/reference/interpreter.h"
#include "core/train/initialize.h"
#include "tests/core/random_plans.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace {
namespace {

using testing::Each;
using testing_support::kEveryAlignment;
using testing_support::RandomPlans;
using testing_support::RingResult;
using testing_support::RingRun;

Interpreter::Source source_of(const TrainingTask& task) {
  const std::shared_ptr<Loader> loader = training_loader(task, {.prefetch = 0});
  return [loader](int64_t s) {
    const Batch& batch = loader->load(s);
    Samples samples;
    samples.epoch = batch.epoch;
    samples.ids.assign(batch.sample_ids.begin(), batch.sample_ids.end());
    samples.labels.assign(batch.labels.begin(), batch.labels.end());
    samples.pixels.assign(batch.pixels.begin(), batch.pixels.end());
    return samples;
  };
}

std::unique_ptr<Interpreter> interpreted(const TrainingTask& task, ElementType type = ElementType::kFloat32) {
  InterpreterOptions options;
  options.type = type;
  options.seed = task.job.seed;
  options.learning_rate = [rate = task.job.learning_rate.base](int64_t) { return rate; };
  auto interpreter = std::make_unique<Interpreter>(task.plan, options, source_of(task));
  for (const Node& node : task.graph->nodes())
    for (const ParameterSpec& parameter : node.parameters) {
      if (!parameter.trained) continue;
      std::vector<double> full(static_cast<size_t>(parameter.elements()));
      InitialValues(node.layer, parameter, fans_of(node.parameters.front()), task.job.seed).fill(std::span<double>(full));
      interpreter->set_parameter(node.layer.name, parameter.tensor, full);
    }
  interpreter->run(task.job.steps);
  return interpreter;
}

void expect_like_interpreter(const RingRun& run, const TrainingTask& task, const Interpreter& interpreter) {
  const CheckpointContent content = run.checkpoint();
  for (const Node& node : task.graph->nodes())
    for (const ParameterSpec& parameter : node.parameters) {
      const std::string name = node.layer.name + "." + parameter.tensor;
      std::vector<double> values(static_cast<size_t>(parameter.elements()));
      copy_values(content.weights.at(name), std::span<double>(values), name);
      EXPECT_EQ(values, interpreter.parameter(node.layer.name, parameter.tensor)) << name;
    }
}

// Some slices of some weights live on other devices, near and far.
void spread_parameters(RandomPlans& random, const Graph& graph, PlanRequest& request, const std::vector<Shard>& shards) {
  const int64_t devices = static_cast<int64_t>(request.cluster.devices.size());
  for (const Shard& shard : shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    if (!node.computes || !random.chance(0.5)) continue;
    int64_t elements = 0;
    for (const Block& block : shard.blocks) elements += weight_elements(graph, graph.index_of(shard.layer), block);
    const int64_t offset = random.between(0, elements - 1), count = random.between(1, elements - offset);
    const int64_t home = random.between(0, devices - 1);
    if (home != shard.device) request.remote_homes.push_back({shard.layer, "weight", offset, count, home, shard.device});
  }
}

TEST(Ring, TrainsBitByBitLikeTheInterpreterOnAnyNumberOfRanks) {
  int64_t spread = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomPlans random(seed);
    const Graph graph(random.model());
    const int64_t devices = random.between(1, 5);
    PlanRequest request = random.request(devices, kEveryAlignment[seed % 5], 4);
    const std::vector<Shard> shards = random.shards(graph, devices);
    if (seed % 2 == 0) spread_parameters(random, graph, request, shards);
    const Plan plan = assemble_plan(graph, request, shards);
    spread += static_cast<int64_t>(request.remote_homes.size());
    const RingRun run(graph, plan);
    const TrainingTask task = run.task();
    const auto interpreter = interpreted(task);
    for (int64_t ranks = 1; ranks <= devices; ++ranks) {
      TrainerOptions options;
      options.deal = (seed / 5 + static_cast<uint64_t>(ranks)) % 2 == 0 && can_take_turns(devices, ranks) ? Deal::kTurns : Deal::kBlocks;
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, name_of(options.deal)));
      const RingResult result = run.retrain(ranks, options);
      ASSERT_THAT(result.errors, Each(""));
      expect_like_interpreter(run, task, *interpreter);
      for (size_t f = 0; f < plan.flows.size(); ++f) {
        const Flow& flow = plan.flows[f];
        const int64_t bytes = bits_of(flow.wire) / 8;
        int64_t expected = interpreter->moved()[f] * bytes;
        if (flow.stream == Stream::kParameter)  // the evaluation at the end takes passes of its own
          expected += flow.elements_per_pass * bytes * evaluation_micro_batches(task.data.test, plan);
        EXPECT_EQ(result.bytes[f], expected) << "flow " << f << " of " << flow.tensor;
      }
    }
  }
  EXPECT_GT(spread, 5) << "no parameters were spread: the test has lost its point";
}

// 3, 5 and 8 devices on up to four ranks, stopped under one dealing of devices and resumed under the other on other ranks.
TEST(Ring, GoesOnBitByBitUnderAnotherDealing) {
  for (const int64_t devices : {3, 5, 8}) {
    RandomPlans random(static_cast<uint64_t>(devices));
    const Graph graph(random.model());
    const Plan plan = assemble_plan(graph, random.request(devices, Alignment::kFlush, 4), random.shards(graph, devices));
    const RingRun run(graph, plan, /*mini_batches=*/4);
    const RingResult whole = run.train(1);
    ASSERT_THAT(whole.errors, Each(""));
    for (int64_t ranks = 2; ranks <= std::min<int64_t>(devices, 4); ++ranks)
      for (const Deal first : {Deal::kBlocks, Deal::kTurns}) {
        SCOPED_TRACE(fmt::format("{} devices, {} ranks, first {}", devices, ranks, name_of(first)));
        TrainerOptions options;
        options.deal = first;
        options.stop_after = 2;
        ASSERT_THAT(run.retrain(ranks, options).errors, Each(""));
        options.deal = first == Deal::kTurns ? Deal::kBlocks : Deal::kTurns;
        options.stop_after = 0;
        const RingResult resumed = run.resume(ranks == 2 ? 3 : ranks - 1, options);
        ASSERT_THAT(resumed.errors, Each(""));
        EXPECT_EQ(resumed.outcome.weights_digest, whole.outcome.weights_digest);
      }
  }
}

// Slices on other devices keep their part of the average and send it out for evaluations.
TEST(Ring, EvaluatesAveragesAlikeWhereverParametersLive) {
  int64_t spread = 0;
  for (uint64_t seed = 0; seed < 15; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomPlans random(100 + seed);
    const Graph graph(random.model());
    const int64_t devices = random.between(2, 4);
    PlanRequest request = random.request(devices, kEveryAlignment[seed % 5], 4);
    request.optimizer.average_decay = 0.75;
    const std::vector<Shard> shards = random.shards(graph, devices);
    const RingRun at_users(graph, assemble_plan(graph, request, shards));
    const RingResult alone = at_users.retrain(1);
    ASSERT_THAT(alone.errors, Each(""));
    spread_parameters(random, graph, request, shards);
    spread += static_cast<int64_t>(request.remote_homes.size());
    const RingRun apart(graph, assemble_plan(graph, request, shards));
    for (const int64_t ranks : {int64_t{1}, devices}) {
      const RingResult result = apart.retrain(ranks);
      ASSERT_THAT(result.errors, Each(""));
      EXPECT_EQ(result.outcome.test.loss, alone.outcome.test.loss) << ranks << " ranks";
      EXPECT_EQ(apart.checkpoint().weights, at_users.checkpoint().weights);
      EXPECT_EQ(apart.checkpoint().optimizer, at_users.checkpoint().optimizer);
    }
    request.optimizer.average_decay = 0;
    const RingRun without(graph, assemble_plan(graph, request, shards));
    const RingResult plain = without.retrain(devices);
    EXPECT_EQ(without.checkpoint().weights, at_users.checkpoint().weights);
    EXPECT_NE(plain.outcome.test.loss, alone.outcome.test.loss);
  }
  EXPECT_GT(spread, 5) << "no parameters were spread: the test has lost its point";
}

}  // namespace
}  // namespace millrace
