#include "core/train/feeding.h"

#include <algorithm>

#include "core/data/sampler.h"
#include "core/data/transform.h"

namespace millrace {

namespace {

BatchSampler evaluation_sampler(const Dataset& data, const Plan& plan) {
  return BatchSampler::evaluation(data.size(), {.mini_batch = plan.mini_batch, .micro_batch = plan.micro_batch});
}

}  // namespace

std::unique_ptr<Loader> training_loader(const TrainingTask& task, const LoaderOptions& options, int64_t replica) {
  const Job& job = task.job;
  const Dataset& data = task.data.train;
  return std::make_unique<Loader>(
      data, ImageTransform(data, task.transform, job.augmentation, job.seed),
      BatchSampler::training(
          data.size(), job.seed,
          {.mini_batch = task.plan.mini_batch, .micro_batch = task.plan.micro_batch, .replicas = job.replicas, .replica = replica}),
      options);
}

std::unique_ptr<Loader> evaluation_loader(const Dataset& data, const DataTransform& transform, const Plan& plan,
                                          const LoaderOptions& options) {
  return std::make_unique<Loader>(data, ImageTransform(data, transform), evaluation_sampler(data, plan), options);
}

int64_t evaluation_micro_batches(const Dataset& data, const Plan& plan) { return evaluation_sampler(data, plan).micro_batches_per_epoch(); }

void HeldBatch::take(const Batch& loaded, const FeedFacts& facts) {
  ids_.assign(static_cast<size_t>(facts.micro_batch), 0);
  std::copy(loaded.sample_ids.begin(), loaded.sample_ids.end(), ids_.begin());
  labels_.assign(loaded.labels.empty() ? 0 : static_cast<size_t>(facts.micro_batch), kNoLabel);
  std::copy(loaded.labels.begin(), loaded.labels.end(), labels_.begin());
  view_ = {.index = loaded.index,
           .epoch = loaded.epoch,
           .training = facts.training,
           .seed = facts.seed,
           .sample_ids = ids_,
           .labels = labels_,
           .error_scale = facts.error_scale};
}

MicroBatch HeldBatch::part(int32_t chunk, int32_t chunks) const {
  MicroBatch part = view_;
  part.chunk = chunk;
  part.chunks = chunks;
  return part;
}

}  // namespace millrace
