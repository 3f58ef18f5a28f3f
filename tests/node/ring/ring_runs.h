// Trainings on rings whose ranks are threads, on generated images that fit any small network.
//
//   RingRun run(graph, plan);                              // a task with a folder of its own
//   const RingResult result = run.train(/*ranks=*/3);      // weights, counts by flow, metrics
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/plan/assemble.h"
#include "core/reference/reference_device.h"
#include "core/train/checkpoint.h"
#include "core/train/weights_digest.h"
#include "node/ring/ring_trainer.h"
#include "tests/core/random_plans.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"

namespace millrace::testing_support {

inline constexpr Alignment kEveryAlignment[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                                Alignment::kZeroBubble};

// The largest difference of a tensor, normwise.
inline double distance(const TensorMap& a, const TensorMap& b) {
  double most = 0;
  for (const auto& [name, tensor] : a) {
    std::vector<double> x(static_cast<size_t>(tensor.elements())), y(x.size());
    copy_values(tensor, std::span<double>(x), name);
    copy_values(b.at(name), std::span<double>(y), name);
    double difference = 0, norm = 1e-6;
    for (size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += x[i] * x[i];
    }
    most = std::max(most, std::sqrt(difference / norm));
  }
  return most;
}

struct RingResult {
  std::vector<std::string> errors;  // by rank, "" for none
  TrainingOutcome outcome;
  std::vector<int64_t> messages;  // received, by flow of the plan
  std::vector<int64_t> bytes;
};

// Trainings that end in equal bits, whatever else differs.
class EqualBits {
 public:
  void expect(const RingResult& result) {
    ASSERT_THAT(result.errors, ::testing::Each(""));
    if (digest_.empty()) digest_ = result.outcome.weights_digest;
    EXPECT_EQ(result.outcome.weights_digest, digest_);
  }

 private:
  std::string digest_;  // of the first
};

class RingRun {
 public:
  RingRun(const Graph& graph, const Plan& plan, int64_t mini_batches = 3, int64_t classes = 3) : plan_(plan) {
    const Shape& input = plan.model.input;
    job.model = graph.model().name;
    job.data = fmt::format("synthetic:{}x{}x{}:{}:{}:7", input.channels, input.height, input.width, classes, 6 * plan.mini_batch + 1);
    job.steps = mini_batches;
    job.mini_batch = plan.mini_batch;
    job.micro_batch = plan.micro_batch;
    job.alignment = plan.alignment;
    job.optimizer = plan.optimizer;
    job.seed = 5;
    job.learning_rate.base = 0.05;
    job.evaluate_every_epochs = 0;
    job.out = (folder_.path() / "run").string();
  }

  TrainingTask task() const {
    TrainingTask task;
    task.job = job;
    task.plan = plan_;
    task.data = data ? *data : load_data(job.data);
    task.transform.output = plan_.model.input;
    task.graph = std::make_unique<Graph>(plan_.model);
    return task;
  }

  RingResult train(int64_t ranks, TrainerOptions options = {}) const {
    LocalHub hub(ranks);
    RingResult result;
    result.messages.assign(plan_.flows.size(), 0);
    result.bytes.assign(plan_.flows.size(), 0);
    std::mutex mutex;
    result.errors = outcomes_on_threads(ranks, [&](int64_t rank) {
      const TrainingTask mine = task();
      Transport transport(hub.wire(rank), settings);
      Agreement agreement(transport);
      TrainerOptions own = options;
      if (const auto heard = signals.find(rank); heard != signals.end()) own.signals = heard->second;
      RingTrainer trainer(mine, transport, agreement, open_device, own);
      const TrainingOutcome outcome = trainer.run();
      const std::scoped_lock lock(mutex);
      if (rank == 0) result.outcome = outcome;
      for (size_t f = 0; f < plan_.flows.size(); ++f) {
        result.messages[f] += trainer.counters(static_cast<int64_t>(f)).received.messages;
        result.bytes[f] += trainer.counters(static_cast<int64_t>(f)).received.bytes;
      }
    });
    return result;
  }
  RingResult retrain(int64_t ranks, TrainerOptions options = {}) const {
    std::filesystem::remove_all(job.out);
    return train(ranks, std::move(options));
  }
  RingResult resume(int64_t ranks, TrainerOptions options = {}) const {
    options.resume = job.out;
    return train(ranks, std::move(options));
  }

  // Two rings of `ranks`, job.replicas of them; the digest of the weights.
  std::string train_replicas(int64_t ranks) const {
    std::filesystem::remove_all(job.out);
    LocalHub rings[2] = {LocalHub(ranks), LocalHub(ranks)};
    std::vector<std::unique_ptr<LocalHub>> columns;
    for (int64_t rank = 0; rank < ranks; ++rank) columns.push_back(std::make_unique<LocalHub>(2));
    std::string digest;
    const auto errors = outcomes_on_threads(2 * ranks, [&](int64_t thread) {
      const int64_t replica = thread / ranks, rank = thread % ranks;
      const TrainingTask mine = task();
      Transport transport(rings[replica].wire(rank));
      Transport column_transport(columns[static_cast<size_t>(rank)]->wire(replica));
      Agreement agreement(transport);
      ReplicaColumn column(column_transport);
      TrainerOptions options;
      options.column = &column;
      const TrainingOutcome outcome = RingTrainer(mine, transport, agreement, open_device, options).run();
      if (thread == 0) digest = outcome.weights_digest;
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    return digest;
  }

  CheckpointContent checkpoint() const { return read_checkpoint(locate_checkpoint(job.out)); }
  std::vector<double> weights(const std::string& name) const {
    const CheckpointContent content = checkpoint();
    std::vector<double> values(static_cast<size_t>(content.weights.at(name).elements()));
    copy_values(content.weights.at(name), std::span<double>(values), name);
    return values;
  }

  Job job;
  std::optional<DataSplit> data;  // instead of the job's
  OpenDevice open_device = [](int64_t) { return make_reference_device(ElementType::kFloat32); };
  TransportSettings settings;
  std::map<int64_t, RankSignals> signals;  // by rank

 private:
  TemporaryFolder folder_;
  Plan plan_;
};

// Alignments that drain the ring between two updates differ in time alone.
inline void expect_drained_alignments_agree(const Graph& graph, PlanRequest request, const std::vector<Shard>& shards) {
  EqualBits bits;
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}) {
    SCOPED_TRACE(name_of(alignment));
    request.alignment = alignment;
    request.windows.clear();
    bits.expect(RingRun(graph, assemble_plan(graph, request, shards)).train(2));
  }
}

// Stopped after two updates of six and after four, and resumed on ranks as `random` draws them: the bits of the run that ended in `whole`.
inline void expect_resumes(RingRun& run, RandomPlans& random, int64_t devices, const std::string& whole) {
  for (const int64_t stop : {2, 4}) {
    run.job.steps = stop;
    ASSERT_THAT(run.retrain(devices).errors, ::testing::Each(""));
    run.job.steps = 6;
    const RingResult resumed = run.resume(random.between(1, devices));
    ASSERT_THAT(resumed.errors, ::testing::Each(""));
    EXPECT_EQ(resumed.outcome.weights_digest, whole) << "stopped after " << stop;
  }
}

// Two replicas of a ring of two, on one rank and on two, against one ring with their samples together; all but the tensors that `belong` to
// one ring.
inline void expect_replicas_are_one_ring(RandomPlans& random, const Graph& graph, const std::function<bool(const std::string&)>& belong) {
  PlanRequest request = random.request(2, Alignment::kFlush, 2);
  request.arithmetic = {ElementType::kFloat64, ElementType::kFloat64};
  request.optimizer = {.kind = OptimizerKind::kSgd};
  const std::vector<Shard> shards = random.shards(graph, 2);
  RingRun run(graph, assemble_plan(graph, request, shards), 4);
  run.open_device = [](int64_t) { return make_reference_device(ElementType::kFloat64); };
  run.job.replicas = 2;
  const std::string digest = run.train_replicas(1);
  const TensorMap weights = run.checkpoint().weights;
  EXPECT_EQ(run.train_replicas(2), digest);

  request.mini_batch *= 2;
  RingRun one(graph, assemble_plan(graph, request, shards), 4);
  one.open_device = run.open_device;
  one.job.data = run.job.data;
  ASSERT_THAT(one.train(1).errors, ::testing::Each(""));
  TensorMap expected = one.checkpoint().weights;
  std::erase_if(expected, [&](const auto& entry) { return belong(entry.first); });
  EXPECT_LT(distance(expected, weights), 1e-12);
}

}  // namespace millrace::testing_support
