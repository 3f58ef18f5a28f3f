// From a task's data to the micro-batches that actions work on: the one place that knows how samples become MicroBatch.
//
//   const std::unique_ptr<Loader> loader = training_loader(task, {.pixels = device == 0, .labels = device == last});
//   HeldBatch held;                                        // one for each micro-batch under way
//   held.take(loader->load(s), {.training = true, .seed = job.seed, .error_scale = 1.0 / samples_per_update});
//   segment.forward(held.view(), loaded.pixels);
//   segment.error_back(held.view());                       // later, when the loader has moved on
//
// Images and sequences go the same way: a sequence brings its lengths, where it starts anew and as many labels as it has, and
// every rank's loader knows the first two, whatever it asks for.
// What a micro-batch holds depends on s alone, so ranks agree without talking. A loader borrows the task, which must outlive
// it. A HeldBatch owns copies of everything but pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/train/task.h"

namespace millrace {

// `ahead`: Course::ahead, where the training goes on with mini-batches of another size.
std::unique_ptr<Loader> training_loader(const TrainingTask& task, const LoaderOptions& options = {}, int64_t replica = 0,
                                        int64_t ahead = 0);
// All of `data` in order; its last micro-batch may be short.
std::unique_ptr<Loader> evaluation_loader(const Dataset& data, const DataTransform& transform, const Plan& plan,
                                          const LoaderOptions& options = {});
// How many micro-batches an evaluation has.
int64_t evaluation_micro_batches(const Dataset& data, const Plan& plan);

struct FeedFacts {
  bool training = true;
  uint64_t seed = 0;
  double error_scale = 1;
  double label_smoothing = 0;
  int64_t micro_batch = 1;  // samples; a short batch is filled up with samples of no steps that have no label
};

class HeldBatch {
 public:
  void take(const Batch& loaded, const FeedFacts& facts);
  const MicroBatch& view() const { return view_; }
  // The same samples, part `chunk` of `chunks` in time.
  MicroBatch part(int32_t chunk, int32_t chunks) const;

 private:
  std::vector<int64_t> ids_;
  std::vector<int32_t> labels_;
  std::vector<int32_t> lengths_;
  std::vector<uint8_t> fresh_;
  MicroBatch view_;
};

}  // namespace millrace
