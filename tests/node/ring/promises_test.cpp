// What a ring promises beyond the interpreter: equal bits where alignments agree, one device's results in double precision,
// and resumption at any update as if nothing had happened.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "tests/core/random_plans.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing_support::distance;
using testing_support::kEveryAlignment;
using testing_support::RandomPlans;
using testing_support::RingResult;
using testing_support::RingRun;

// By how much each weight moved: rate times gradient.
TensorMap moved(const TensorMap& from, const TensorMap& to) {
  TensorMap change;
  for (const auto& [name, tensor] : from) {
    std::vector<double> x(static_cast<size_t>(tensor.elements())), y(x.size());
    copy_values(tensor, std::span<double>(x), name);
    copy_values(to.at(name), std::span<double>(y), name);
    for (size_t i = 0; i < x.size(); ++i) y[i] -= x[i];
    change[name] = host_tensor(tensor.dimensions, std::span<const double>(y));
  }
  return change;
}

// All but statistics as one vector.
TensorMap joined(const TensorMap& tensors) {
  std::vector<double> all;
  for (const auto& [name, tensor] : tensors) {
    if (name.find("running") != std::string::npos) continue;
    std::vector<double> values(static_cast<size_t>(tensor.elements()));
    copy_values(tensor, std::span<double>(values), name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return {{"all", host_tensor({static_cast<int64_t>(all.size())}, std::span<const double>(all))}};
}

TEST(RingPromises, DrainedAlignmentsGiveEqualBits) {
  for (uint64_t seed = 40; seed < 46; ++seed) {
    RandomPlans random(seed);
    const Graph graph(random.model());
    const int64_t devices = random.between(2, 4);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const PlanRequest request = random.request(devices, Alignment::kFlush, 4);
    testing_support::expect_drained_alignments_agree(graph, request, random.shards(graph, devices));
  }
}

TEST(RingPromises, AHundredUpdatesInDoublePrecisionAreThoseOfOneDevice) {
  for (uint64_t seed = 50; seed < 53; ++seed) {
    RandomPlans random(seed);
    const Graph graph(random.model());
    PlanRequest request = random.request(3, Alignment::kFlush, 2);
    request.arithmetic = {ElementType::kFloat64, ElementType::kFloat64};
    request.optimizer = {.kind = OptimizerKind::kSgd};
    const std::vector<Shard> shards = random.shards(graph, 3);
    RingRun ring(graph, assemble_plan(graph, request, shards), 100);
    request.cluster = uniform_cluster("cpu", 1);
    RingRun alone(graph, single_device_plan(graph, request), 100);
    for (RingRun* run : {&ring, &alone}) {
      run->open_device = [](int64_t) { return make_reference_device(ElementType::kFloat64); };
      ASSERT_THAT(run->train(1).errors, Each(""));
    }
    EXPECT_LT(distance(ring.checkpoint().weights, alone.checkpoint().weights), 1e-10) << "seed " << seed;
  }
}

TEST(RingPromises, AStepFromEqualWeightsInSinglePrecisionIsNearlyThatOfOneDevice) {
  for (uint64_t seed = 60; seed < 66; ++seed) {
    RandomPlans random(seed);
    const Graph graph(random.model());
    PlanRequest request = random.request(3, Alignment::kFpdeep, 2);
    request.optimizer = {.kind = OptimizerKind::kSgd};
    const std::vector<Shard> shards = random.shards(graph, 3);
    RingRun ring(graph, assemble_plan(graph, request, shards), 1);
    request.cluster = uniform_cluster("cpu", 1);
    request.windows.clear();
    RingRun alone(graph, single_device_plan(graph, request), 1);
    for (RingRun* run : {&ring, &alone}) {
      run->open_device = [](int64_t) { return make_cpu_device(); };
      run->job.learning_rate.base = 1000;  // so that what the weights were hardly rounds by how much they move
      ASSERT_THAT(run->train(1).errors, Each(""));
    }
    RingRun start(graph, single_device_plan(graph, request), 1);
    start.job.learning_rate.base = 0;
    ASSERT_THAT(start.train(1).errors, Each(""));
    const TensorMap before = start.checkpoint().weights;
    const auto gradients = [&](const RingRun& run) { return joined(moved(before, run.checkpoint().weights)); };
    EXPECT_LT(distance(gradients(ring), gradients(alone)), 1e-5) << "seed " << seed;
  }
}

TEST(RingPromises, ResumesBitwiseOnAnyNumberOfRanks) {
  for (uint64_t seed = 70; seed < 80; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}, {}", seed, name_of(kEveryAlignment[seed % 5])));
    RandomPlans random(seed);
    const Graph graph(random.model());
    const int64_t devices = random.between(2, 4);
    PlanRequest request = random.request(devices, kEveryAlignment[seed % 5], 4);
    const std::vector<Shard> shards = random.shards(graph, devices);
    const Node& first = graph.node(graph.index_of(shards.front().layer));
    if (first.computes && seed % 2 == 0)  // some of the first layer lives at the other end
      request.remote_homes.push_back({shards.front().layer, "weight", 1, 2, devices - 1, shards.front().device});
    RingRun run(graph, assemble_plan(graph, request, shards), 6);
    run.job.checkpoint_every = 2;
    const std::string whole = run.train(devices).outcome.weights_digest;
    testing_support::expect_resumes(run, random, devices, whole);
  }
}

// Asks for checkpoints when the one before is there: all ranks twice, of whom one hears it while the checkpoint is made and the other
// after that; then rank 1 alone; and at last for the end. Between them pass some updates, before which what is not to count would come.
class Asker : public MetricsSink {
 public:
  void write(const MetricsRecord& record) override {
    if (record.event == "checkpoint") {
      ++checkpoints;
      updates_since_ = 0;
      if (checkpoints > asked) stop = unasked = true;
      if (checkpoints <= 2) ++heard[2 - checkpoints];
    }
    if (record.event != "step" || ++updates_since_ != 20 || checkpoints != asked) return;
    ++asked;
    if (checkpoints == 1) ++heard[1];
    if (checkpoints == 2) alone = true;
    if (checkpoints == 3) stop = true;
  }
  std::atomic<int64_t> heard[2] = {1, 0};  // by rank
  std::atomic<bool> alone = false, stop = false;
  int64_t asked = 1, checkpoints = 0;
  bool unasked = false;

 private:
  int64_t updates_since_ = 0;
};

TEST(RingPromises, ARequestOfAllRanksMakesOneCheckpointHoweverLateTheyHear) {
  RandomPlans random(82);
  const Graph graph(random.model());
  RingRun run(graph, assemble_plan(graph, random.request(2, Alignment::kFlush, 2), random.shards(graph, 2)), 1'000'000);
  Asker asker;
  run.signals[0] = {.stop = &asker.stop, .shared_checkpoints = &asker.heard[0]};
  run.signals[1] = {.checkpoint = &asker.alone, .shared_checkpoints = &asker.heard[1]};
  const RingResult result = run.train(2, {.sinks = {&asker}, .log_every = 1});
  ASSERT_THAT(result.errors, Each(""));
  EXPECT_EQ(result.outcome.reason, "signal");
  EXPECT_FALSE(asker.unasked);
  EXPECT_EQ(asker.checkpoints, 4) << "for two requests of all, one of rank 1, and at the end";
}

TEST(RingPromises, TakesTheGradientsNormOverTheWholeRing) {
  RandomPlans random(81);
  const Graph graph(random.model());
  PlanRequest request = random.request(3, Alignment::kFlush, 2);
  request.arithmetic = {ElementType::kFloat64, ElementType::kFloat64};
  request.optimizer = {.kind = OptimizerKind::kSgd};
  const std::vector<Shard> shards = random.shards(graph, 3);
  RingRun ring(graph, assemble_plan(graph, request, shards), 3);
  request.cluster = uniform_cluster("cpu", 1);
  RingRun alone(graph, single_device_plan(graph, request), 3);
  std::vector<std::string> digests;
  for (RingRun* run : {&ring, &alone}) {
    run->open_device = [](int64_t) { return make_reference_device(ElementType::kFloat64); };
    run->job.clip = ClipKind::kGlobalNorm;
    run->job.clip_limit = 0.01;
  }
  for (const int64_t ranks : {1, 2, 3}) {
    const RingResult result = ring.retrain(ranks);
    ASSERT_THAT(result.errors, Each(""));
    digests.push_back(result.outcome.weights_digest);
  }
  EXPECT_THAT(digests, Each(digests.front()));
  ASSERT_THAT(alone.train(1).errors, Each(""));
  EXPECT_LT(distance(ring.checkpoint().weights, alone.checkpoint().weights), 1e-12);
}

TEST(RingPromises, ReplicasTrainLikeOneRingWithTheirSamplesTogether) {
  RandomPlans random(90);
  const Graph graph(random.model());
  // Each micro-batch by itself is the same; only the statistics that evaluations use belong to one ring.
  testing_support::expect_replicas_are_one_ring(random, graph,
                                                [](const std::string& name) { return name.find("running") != std::string::npos; });
}

TEST(RingPromises, SavesWhatIsLargerThanAllMessagesUnderWay) {
  ModelBuilder net("wide", {4, 8, 8});
  net.flatten("flat");
  for (const char* name : {"fc1", "fc2", "fc3", "fc4"}) net.dense(name, name[2] == '4' ? 3 : 500);
  const Graph graph(net.finish());
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 4);
  request.alignment = Alignment::kFpdeep;
  request.mini_batch = 8;
  request.micro_batch = 2;
  const std::vector<Cut> cuts = {{2, 0, 0}, {3, 0, 0}, {4, 0, 0}};
  RingRun run(graph, assemble_plan(graph, request, shards_from_cuts(graph, cuts, {})), 2);
  run.open_device = [](int64_t) { return make_cpu_device(); };
  run.job.checkpoint_every = 1;
  const RingResult alone = run.train(1);
  ASSERT_THAT(alone.errors, Each(""));
  const RingResult apart = run.retrain(4);
  ASSERT_THAT(apart.errors, Each(""));
  EXPECT_EQ(apart.outcome.weights_digest, alone.outcome.weights_digest);
}

TEST(RingPromises, LossThatIsNotFiniteNamesTheFirstLayerOnWhicheverRank) {
  ModelBuilder net("steep", {1, 4, 4});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 3);
  const Graph graph(net.finish());
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 3);
  request.mini_batch = 8;
  request.micro_batch = 4;
  const std::vector<Cut> cuts = {{1, 0, 0}, {2, 0, 0}};
  RingRun run(graph, assemble_plan(graph, request, shards_from_cuts(graph, cuts, {})), 20);
  run.job.learning_rate.base = 1e30;
  run.job.checkpoint_every = 1;
  const RingResult result = run.train(3);
  EXPECT_THAT(result.errors[2], HasSubstr("the loss is not finite; the first layer whose output is not is \"conv"));
  EXPECT_THAT(result.errors[0], HasSubstr("the loss is not finite"));
  EXPECT_THAT(result.errors[0], HasSubstr("is intact"));
}

TEST(RingPromises, RefusesInTheSameWordsEverywhere) {
  RandomPlans random(95);
  const Graph graph(random.model());
  RingRun run(graph, random.plan(graph, 3, Alignment::kFpdeep, 4));
  run.job.clip = ClipKind::kGlobalNorm;
  const RingResult result = run.train(3);
  EXPECT_THAT(result.errors, Each(HasSubstr("--clip-norm with alignment fpdeep")));
  EXPECT_FALSE(std::filesystem::exists(run.job.out));
}

}  // namespace
}  // namespace millrace
