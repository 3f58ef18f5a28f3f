// Chunks of time of a training that has no plan: whole unless told, and with auto what `millrace plan` chooses for the ring.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/zoo.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/ring_devices.h"
#include "deploy/session/ring_flags.h"
#include "partitioner/choice/choose.h"
#include "partitioner/planning/summary.h"

namespace millrace {
namespace {

Job job_of(int64_t time_chunks) {
  Job job;
  job.model = "char-rnn";
  job.data = "text";
  job.cluster = "h200x4";
  job.mini_batch = 64;
  job.time_chunks = time_chunks;
  return job;
}

Plan plan_of(const Graph& graph, const Job& job) { return planner_of(Accounting::kFull, "avx512_core")(graph, job).value(); }

double mini_batch_seconds(const Plan& plan) {
  const auto found = std::ranges::find(plan.constants, kMiniBatchSeconds, &Constant::name);
  return found == plan.constants.end() ? 0 : found->value;
}

}  // namespace

TEST(TimeChunksOfTraining, AreChosenAsPlanDoes) {
  const Graph graph(zoo_model("char-rnn"));
  const Plan chosen = plan_of(graph, job_of(0));
  EXPECT_GT(chosen.time_chunks, 1);
  EXPECT_EQ(text_of(plan_of(graph, job_of(0))), text_of(chosen)) << "a run that is resumed has the same";

  const Catalogue catalogue = shipped_catalogue();
  PlanTask task;
  task.graph = &graph;
  task.cluster = cluster_from("h200x4", catalogue);
  task.options.alignment = Alignment::kFlush;
  task.options.mini_batch = 64;
  task.options.time_chunks = 0;
  task.options.optimizer = job_of(0).optimizer;
  task.options.arithmetic = arithmetic_for(task.cluster, catalogue, std::nullopt);
  const CostModels models = models_for(task.cluster, catalogue, task.options.arithmetic, Accounting::kFull, graph);
  task.models = models.of_devices;
  account(task, Accounting::kFull);
  const Plan planned = choose_plan(task, {.leave_empty = false}).outcome.plan.value();
  EXPECT_EQ(chosen.time_chunks, planned.time_chunks);
  EXPECT_EQ(chosen.micro_batch, planned.micro_batch);
}

TEST(TimeChunksOfTraining, AreThoseThatAreStated) {
  const Graph graph(zoo_model("char-rnn"));
  EXPECT_EQ(plan_of(graph, job_of(1)).time_chunks, 1);
  EXPECT_EQ(plan_of(graph, job_of(5)).time_chunks, 5);
}

// The products with the inputs are made, and cross, beside a board's steps: FARNN's schedule, chosen without being asked for.
TEST(TimeChunksOfTraining, StrategyKindTakesProductsInThem) {
  const Graph graph(zoo_model("char-rnn"));
  Job job = job_of(0);
  job.cluster = "h200+vu9p+h200+vu9p+h200";
  job.strategy = "kind";
  job.mini_batch = 4;
  const Plan chosen = plan_of(graph, job);
  EXPECT_GT(chosen.time_chunks, 1);
  job.time_chunks = 1;
  job.micro_batch = chosen.micro_batch;
  const Plan whole = plan_of(graph, job);
  EXPECT_EQ(whole.time_chunks, 1);
  EXPECT_LT(mini_batch_seconds(chosen), 0.99 * mini_batch_seconds(whole));
  EXPECT_GT(mini_batch_seconds(chosen), 0);
  // As many as stated are planned for, too: each has kernels of its own. What else was looked at is not the same.
  job.time_chunks = chosen.time_chunks;
  const auto without_others = [](Plan plan) {
    std::erase_if(plan.constants, [](const Constant& constant) { return constant.name == kFasterBetweenUpdates; });
    return text_of(plan);
  };
  EXPECT_EQ(without_others(plan_of(graph, job)), without_others(chosen));
}

// A board that only slows others down has no work, as `plan` leaves it out, unless every board is to have some.
TEST(TrainingByKind, LeavesBoardsOutAsPlanDoes) {
  const Graph graph(zoo_model("char-rnn"));
  const Catalogue catalogue = shipped_catalogue_for("avx512_core");
  for (const auto& [division, busy] : {std::pair{"", 1}, std::pair{"boards", 2}}) {
    Job job = job_of(0);
    job.cluster = "cpu+vc709x2+cpu";
    job.strategy = "kind";
    job.divide = division;
    job.mini_batch = 32;
    const Plan chosen = plan_of(graph, job);
    const auto boards = std::ranges::count_if(chosen.shards, [](const Shard& shard) { return shard.device == 1 || shard.device == 2; });
    EXPECT_EQ(boards, busy) << division;

    PlanTask task;
    task.graph = &graph;
    task.cluster = cluster_from(job.cluster, catalogue);
    task.options.strategy = Strategy::kKind;
    task.options.alignment = job.alignment;
    task.options.mini_batch = job.mini_batch;
    task.options.time_chunks = 0;
    task.options.optimizer = job.optimizer;
    task.options.arithmetic = arithmetic_for(task.cluster, catalogue, std::nullopt);
    if (!job.divide.empty()) divide(task.options, division_from(job.divide));
    const CostModels models = models_for(task.cluster, catalogue, task.options.arithmetic, Accounting::kFull, graph);
    task.models = models.of_devices;
    account(task, Accounting::kFull);
    const Plan planned = choose_plan(task, usual_freedom(task)).outcome.plan.value();
    EXPECT_EQ(planned.shards, chosen.shards) << division;
    EXPECT_EQ(planned.time_chunks, chosen.time_chunks) << division;
  }
}

// What boards stream, and networks without steps, they take whole.
TEST(TimeChunksOfTraining, AreOneWhereNothingPassesInParts) {
  Job job = job_of(0);
  job.model = "digits-cnn";
  EXPECT_EQ(plan_of(Graph(zoo_model("digits-cnn")), job).time_chunks, 1);
  job = job_of(0);
  job.cluster = "u280x4";
  EXPECT_EQ(plan_of(Graph(zoo_model("char-rnn")), job).time_chunks, 1);
}

}  // namespace millrace
