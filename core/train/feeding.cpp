#include "core/train/feeding.h"

#include <algorithm>

#include "core/base/index.h"
#include "core/data/sample_source.h"

namespace millrace {

namespace {

BatchSampler evaluation_sampler(const Dataset& data, const Plan& plan) {
  return BatchSampler::evaluation(data.size(), {.mini_batch = plan.mini_batch, .micro_batch = plan.micro_batch});
}

}  // namespace

std::unique_ptr<Loader> training_loader(const TrainingTask& task, const LoaderOptions& options, int64_t replica, int64_t ahead) {
  const Job& job = task.job;
  const Dataset& data = task.data.train;
  const BatchCut cut{.mini_batch = task.plan.mini_batch,
                     .micro_batch = task.plan.micro_batch,
                     .replicas = job.replicas,
                     .replica = replica,
                     .ahead = ahead};
  LoaderOptions all = options;
  all.threads = data.readers;
  if (options.pixels) all.waited = task.data_wait;
  return std::make_unique<Loader>(sample_source(data, task.transform, job.augmentation, job.seed), training_order(data, job.seed, cut),
                                  all);
}

std::unique_ptr<Loader> evaluation_loader(const Dataset& data, const DataTransform& transform, const Plan& plan,
                                          const LoaderOptions& options) {
  LoaderOptions all = options;
  all.threads = data.readers;
  return std::make_unique<Loader>(sample_source(data, transform), evaluation_sampler(data, plan), all);
}

int64_t evaluation_micro_batches(const Dataset& data, const Plan& plan) { return evaluation_sampler(data, plan).micro_batches_per_epoch(); }

void HeldBatch::take(const Batch& loaded, const FeedFacts& facts) {
  const auto samples = to_size(facts.micro_batch);
  const auto fill_up = [](auto& own, const auto& loaded_values, size_t count, auto filler) {
    own.assign(loaded_values.empty() ? 0 : count, filler);
    std::copy(loaded_values.begin(), loaded_values.end(), own.begin());
  };
  ids_.assign(samples, 0);
  std::copy(loaded.sample_ids.begin(), loaded.sample_ids.end(), ids_.begin());
  fill_up(labels_, loaded.labels, samples * to_size(loaded.labels_each), kNoLabel);
  fill_up(lengths_, loaded.lengths, samples, int32_t{0});
  fill_up(fresh_, loaded.fresh, samples, uint8_t{1});
  view_ = {.index = loaded.index,
           .epoch = loaded.epoch,
           .training = facts.training,
           .seed = facts.seed,
           .sample_ids = ids_,
           .labels = labels_,
           .error_scale = facts.error_scale,
           .lengths = lengths_,
           .fresh = fresh_,
           .label_smoothing = facts.label_smoothing};
}

MicroBatch HeldBatch::part(int32_t chunk, int32_t chunks) const {
  MicroBatch part = view_;
  part.chunk = chunk;
  part.chunks = chunks;
  return part;
}

}  // namespace millrace
