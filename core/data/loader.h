// Micro-batches of samples, ready for the network, prepared by threads of their own while the devices work.
//
//   Loader loader(data.train, ImageTransform(data.train, adapted.transform, job.augmentation, job.seed),
//                 BatchSampler::training(data.train.size(), job.seed, {.mini_batch = 32, .micro_batch = 8}));
//   const Batch& batch = loader.load(s);           // blocks until it is there; usually it is
//   device.write(*input, whole(*input), batch.pixels);
//   Loader sequences(sample_source(data.train, adapted.transform), BatchSampler::streams(...));     // core/data/sample_source.h
//
// Any micro-batch may be asked for; after load(s) the threads prepare s+1, s+2, ... up to `prefetch` ahead, so asking
// in ascending order rarely waits; a request for anything that is not being prepared makes them start over there.
// What a batch holds depends on s alone, never on the prefetch depth, the threads or a timing, so two loaders on different ranks
// agree: the rank of the first device asks for pixels, the rank of the last for labels.
//
// Ownership: the data set is borrowed and must outlive the loader; a Batch is valid until the next load().
// Memory: prefetch + 1 micro-batches, `prefetch` being at least the number of threads; nothing is allocated in steady state except an order
// of samples per epoch. An exception while preparing a micro-batch reaches the caller who asks for that one, after all before it; asking
// again tries again. One consumer thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/base/index.h"
#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/data/transform.h"

namespace millrace {

struct Batch {
  int64_t index = 0;  // s
  int64_t epoch = 0;
  std::span<const int64_t> sample_ids;  // micro_batch of them; fewer at the end of an evaluation
  std::span<const int32_t> labels;      // [sample id][label], labels_each for each; empty when not wanted
  int64_t labels_each = 1;
  std::span<const int32_t> lengths;  // valid rows, one per sample id; empty: every sample fills the network's input
  std::span<const uint8_t> fresh;    // one per sample id; 0: continues the sample at its place of the mini-batch before
  // [micro_batch][channel][row][column], zeros behind a short batch's last sample; empty when not wanted.
  std::span<const float> pixels;
};

struct LoaderOptions {
  bool pixels = true;
  bool labels = true;
  int64_t prefetch = 2;                               // micro-batches ahead; 0: no thread, everything is prepared inside load()
  int64_t threads = 1;                                // that prepare, a micro-batch each, when there are any
  std::shared_ptr<std::atomic<int64_t>> waited = {};  // nanoseconds that load() has taken are added to it; null: not counted
};

// Writes what the network sees of one sample in an epoch. Each of the loader's threads calls a copy of its own.
using SampleReader = std::function<void(int64_t epoch, int64_t sample, std::span<float> pixels)>;

// Of an image data set: read, or drawn, and transformed. The data set is borrowed.
SampleReader transformed_images(const Dataset& data, const ImageTransform& transform);

// Where samples come from, of any kind. Each of the loader's threads calls copies of its own.
struct SampleSource {
  int64_t elements = 0;     // the network sees of one sample
  int64_t labels_each = 1;  // of one sample
  SampleReader read;
  std::function<void(int64_t sample, std::span<int32_t> labels)> read_labels;
  std::function<int32_t(int64_t sample)> steps = {};  // empty: every sample fills the network's input
};

class Loader {
 public:
  // Of an image data set; `transform` and `batches` are copied.
  Loader(const Dataset& data, const ImageTransform& transform, const BatchSampler& batches, const LoaderOptions& options = {});
  Loader(const Dataset&& data, const ImageTransform&, const BatchSampler&, const LoaderOptions& = {}) = delete;
  // Of anything else; what the functions borrow must outlive the loader.
  Loader(SampleSource source, const BatchSampler& batches, const LoaderOptions& options = {});
  // The same with one label each: `elements` per sample from `reader`, labels by sample id (borrowed).
  Loader(SampleReader reader, int64_t elements, std::span<const int32_t> labels, const BatchSampler& batches,
         const LoaderOptions& options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Batch& load(int64_t s);

 private:
  enum class SlotState { kEmpty, kTaken, kReady, kFailed };
  struct Slot {
    std::vector<int64_t> sample_ids;
    std::vector<int32_t> labels;
    std::vector<int32_t> lengths;
    std::vector<uint8_t> fresh;
    std::vector<float> pixels;
    Batch batch;
    SlotState state = SlotState::kEmpty;
    std::exception_ptr failure;
  };

  Slot& slot_of(int64_t s) { return slots_[to_size(s) % slots_.size()]; }
  const Batch& load_prepared(int64_t s);
  void begin(Slot& slot, int64_t s);
  void prepare(SampleSource& source, Slot& slot) const;
  void prepare_ahead(SampleSource& source);
  bool may_prepare() const;
  void start_over(std::unique_lock<std::mutex>& lock, int64_t s);

  std::vector<SampleSource> sources_;  // one per thread: reading may need room of its own
  BatchSampler batches_;
  LoaderOptions options_;
  int64_t end_;  // the first micro-batch that does not exist

  // Slot s % size holds micro-batch s, from held_ to held_ + prefetch: the consumer owns the slot of held_ once it is ready, a thread
  // one that it has taken. Everything below is guarded by mutex_; slot contents pass from one thread to the other under it.
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable wanted_;    // threads may have something to do
  std::condition_variable prepared_;  // a slot is ready or failed, or a thread has become idle
  int64_t held_ = -1;                 // what the last load() asked for; -1: nothing, or it failed
  int64_t next_ = -1;                 // the first one that no thread has taken
  int64_t busy_ = 0;                  // threads that prepare
  bool failed_ = false;               // one could not be prepared: nothing behind it is begun
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace millrace
