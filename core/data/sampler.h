// Which samples come when: a pure function of (seed, epoch), so that every rank can answer for itself and nobody sends
// sample ids around.
//
//   Sampler order(data.train.size(), seed, /*shuffle=*/true);
//   int64_t sample = order.sample_at(epoch, position);
//
//   BatchSampler batches = BatchSampler::training(data.train.size(), seed, {.mini_batch = 32, .micro_batch = 8});
//   batches.sample_ids(s, ids);                       // of the micro-batch with global index s
//
//   BatchSampler text = BatchSampler::streams(...);   // a sample goes on where the one at its place an update before ended
//   BatchSampler speech = BatchSampler::buckets(...); // samples of like lengths come together
//
// In training a short tail (less than a mini-batch of all replicas) is dropped, anew after each epoch's shuffle; in
// evaluation nothing is dropped or shuffled and the last micro-batch may be short.
// Not thread safe (the order of recent epochs is cached): one per thread. Memory: 16 bytes per sample when shuffling.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace millrace {

class Sampler {
 public:
  // The samples of an epoch in order.
  using Arrangement = std::function<std::vector<int64_t>(int64_t epoch)>;

  Sampler(int64_t size, uint64_t seed, bool shuffle);
  // `arrange` is pure, and yields the samples 0 to size-1, or fewer of them when a tail is never asked for.
  Sampler(int64_t size, Arrangement arrange);

  int64_t size() const { return size_; }
  int64_t sample_at(int64_t epoch, int64_t position);

 private:
  struct Order {
    int64_t epoch = -1;
    std::vector<int64_t> samples;
  };
  const std::vector<int64_t>& order_of(int64_t epoch);

  int64_t size_;
  Arrangement arrange_;  // empty: in order
  // Two epochs, newest first: around an epoch's end a pipeline asks for both in turn.
  std::array<Order, 2> recent_;
};

// How an epoch is cut. One update consumes mini_batch samples of each replica.
struct BatchCut {
  int64_t mini_batch = 1;
  int64_t micro_batch = 1;
  int64_t replicas = 1;
  int64_t replica = 0;
  int64_t ahead = 0;  // training: micro-batches count from so many mini-batches behind the first, or before it (Course::ahead)
};

class BatchSampler {
 public:
  // Micro-batches are numbered through all epochs without end. Of an update's samples, replica r takes the r-th
  // mini_batch. Fails with kUsage when mini_batch is no multiple of micro_batch or exceeds the data set.
  static BatchSampler training(int64_t samples, uint64_t seed, const BatchCut& cut);
  // Data that flows on (text): it is parted into mini_batch * replicas streams of equal length, and each update takes the next
  // sample of every stream, so that sample i of a mini-batch continues sample i of the one before. The same in each epoch.
  static BatchSampler streams(int64_t samples, const BatchCut& cut);
  // As training, but an update's samples are of like lengths: after each epoch's shuffle, pools of kBucketUpdates updates are
  // sorted by length, and the updates of a pool come in random order.
  static BatchSampler buckets(std::span<const int32_t> lengths, uint64_t seed, const BatchCut& cut);
  static constexpr int64_t kBucketUpdates = 16;
  // One pass in order; replica r takes every `replicas`-th micro-batch, starting at its r-th. mini_batch is not used.
  static BatchSampler evaluation(int64_t samples, const BatchCut& cut);

  int64_t samples() const { return order_.size(); }
  int64_t micro_batch() const { return cut_.micro_batch; }
  bool is_training() const { return training_; }
  // Of this replica, in one epoch.
  int64_t micro_batches_per_epoch() const { return per_epoch_; }
  int64_t epoch_of(int64_t s) const { return place_of(s) / per_epoch_; }
  // The samples of micro-batch s do not continue those of the mini-batch before.
  bool starts_anew(int64_t s) const { return !flows_ || place_of(s) % per_epoch_ < cut_.mini_batch / cut_.micro_batch; }

  // The samples of micro-batch s, micro_batch of them or, for the last in evaluation, fewer.
  void sample_ids(int64_t s, std::vector<int64_t>& ids);

 private:
  BatchSampler(Sampler order, const BatchCut& cut, bool training);
  int64_t place_of(int64_t s) const { return training_ ? s + cut_.ahead * (cut_.mini_batch / cut_.micro_batch) : s; }
  static BatchSampler trained(Sampler order, const BatchCut& cut);

  Sampler order_;
  BatchCut cut_;
  bool training_;
  bool flows_ = false;
  int64_t per_epoch_ = 0;
};

}  // namespace millrace
