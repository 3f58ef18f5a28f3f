#include "core/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/random.h"

namespace millrace {
namespace {

void check(const BatchCut& cut) {
  if (cut.micro_batch < 1) fail(ErrorCode::kUsage, "micro-batch {}: at least 1 sample is needed", cut.micro_batch);
  MILLRACE_CHECK(0 <= cut.replica && cut.replica < cut.replicas, "replica {} of {}", cut.replica, cut.replicas);
}

// Before anything is arranged: there is at least one update.
void check_training(int64_t samples, const BatchCut& cut) {
  check(cut);
  if (cut.mini_batch < 1 || cut.mini_batch % cut.micro_batch != 0)
    fail(ErrorCode::kUsage, "mini-batch {} is not a multiple of micro-batch {}", cut.mini_batch, cut.micro_batch);
  if (samples / cut.replicas < cut.mini_batch)
    fail(ErrorCode::kUsage, "mini-batch {} with {} replica{}: the training set has only {} samples; choose a smaller mini-batch",
         cut.mini_batch, cut.replicas, cut.replicas == 1 ? "" : "s", samples);
}

Sampler::Arrangement shuffled(int64_t size, uint64_t seed) {
  return [size, seed](int64_t epoch) { return shuffled_indices(size, seed, stream_id("shuffle", fmt::format("epoch {}", epoch))); };
}

}  // namespace

Sampler::Sampler(int64_t size, uint64_t seed, bool shuffle) : Sampler(size, shuffle ? shuffled(size, seed) : Arrangement()) {}

Sampler::Sampler(int64_t size, Arrangement arrange) : size_(size), arrange_(std::move(arrange)) {
  MILLRACE_CHECK(size >= 0, "{} samples", size);
}

int64_t Sampler::sample_at(int64_t epoch, int64_t position) {
  MILLRACE_CHECK(epoch >= 0 && 0 <= position && position < size_, "epoch {}, position {} of {}", epoch, position, size_);
  return arrange_ ? order_of(epoch).at(to_size(position)) : position;
}

const std::vector<int64_t>& Sampler::order_of(int64_t epoch) {
  if (recent_[0].epoch == epoch) return recent_[0].samples;
  std::swap(recent_[0], recent_[1]);
  if (recent_[0].epoch != epoch) recent_[0] = {epoch, arrange_(epoch)};
  return recent_[0].samples;
}

BatchSampler::BatchSampler(Sampler order, const BatchCut& cut, bool training) : order_(std::move(order)), cut_(cut), training_(training) {}

BatchSampler BatchSampler::trained(Sampler order, const BatchCut& cut) {
  const int64_t updates = order.size() / (cut.mini_batch * cut.replicas);
  BatchSampler batches(std::move(order), cut, /*training=*/true);
  batches.per_epoch_ = updates * (cut.mini_batch / cut.micro_batch);
  return batches;
}

BatchSampler BatchSampler::training(int64_t samples, uint64_t seed, const BatchCut& cut) {
  check_training(samples, cut);
  return trained(Sampler(samples, seed, /*shuffle=*/true), cut);
}

BatchSampler BatchSampler::streams(int64_t samples, const BatchCut& cut) {
  check_training(samples, cut);
  const int64_t streams = cut.mini_batch * cut.replicas;
  const int64_t updates = samples / streams;
  BatchSampler batches = trained(Sampler(samples,
                                         [streams, updates](int64_t) {
                                           std::vector<int64_t> order;
                                           order.reserve(to_size(streams * updates));
                                           for (int64_t update = 0; update < updates; ++update)
                                             for (int64_t stream = 0; stream < streams; ++stream)
                                               order.push_back(stream * updates + update);
                                           return order;
                                         }),
                                 cut);
  batches.flows_ = true;
  return batches;
}

BatchSampler BatchSampler::buckets(std::span<const int32_t> lengths, uint64_t seed, const BatchCut& cut) {
  const auto samples = static_cast<int64_t>(lengths.size());
  check_training(samples, cut);
  const int64_t per_update = cut.mini_batch * cut.replicas;
  const auto arrange = [own = std::vector<int32_t>(lengths.begin(), lengths.end()), shuffle = shuffled(samples, seed), seed,
                        per_update](int64_t epoch) {
    std::vector<int64_t> order = shuffle(epoch);
    const int64_t updates = static_cast<int64_t>(order.size()) / per_update;
    order.resize(to_size(updates * per_update));
    std::vector<int64_t> arranged;
    arranged.reserve(order.size());
    for (int64_t first = 0; first < updates; first += kBucketUpdates) {
      const int64_t count = std::min(kBucketUpdates, updates - first);
      const auto begin = order.begin() + first * per_update;
      std::stable_sort(begin, begin + count * per_update, [&own](int64_t a, int64_t b) { return item(own, a) < item(own, b); });
      for (const int64_t update : shuffled_indices(count, seed, stream_id("buckets", fmt::format("epoch {} pool {}", epoch, first))))
        arranged.insert(arranged.end(), begin + update * per_update, begin + (update + 1) * per_update);
    }
    return arranged;
  };
  return trained(Sampler(samples, arrange), cut);
}

BatchSampler BatchSampler::evaluation(int64_t samples, const BatchCut& cut) {
  check(cut);
  BatchSampler batches(Sampler(samples, 0, /*shuffle=*/false), cut, /*training=*/false);
  const int64_t micro_batches = (samples + cut.micro_batch - 1) / cut.micro_batch;
  batches.per_epoch_ = (micro_batches - cut.replica + cut.replicas - 1) / cut.replicas;
  return batches;
}

void BatchSampler::sample_ids(int64_t s, std::vector<int64_t>& ids) {
  const int64_t place = place_of(s);
  MILLRACE_CHECK(place >= 0 && (training_ || place < per_epoch_), "micro-batch {} of {}", place, per_epoch_);
  int64_t begin = 0;
  if (training_) {
    const int64_t per_mini_batch = cut_.mini_batch / cut_.micro_batch;
    const int64_t within_epoch = place % per_epoch_;
    const int64_t update = within_epoch / per_mini_batch;
    begin = (update * cut_.replicas + cut_.replica) * cut_.mini_batch + within_epoch % per_mini_batch * cut_.micro_batch;
  } else {
    begin = (place * cut_.replicas + cut_.replica) * cut_.micro_batch;
  }
  const int64_t end = std::min(begin + cut_.micro_batch, samples());
  ids.clear();
  for (int64_t position = begin; position < end; ++position) ids.push_back(order_.sample_at(training_ ? epoch_of(s) : 0, position));
}

}  // namespace millrace
