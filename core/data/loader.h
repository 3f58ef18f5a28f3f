// Micro-batches of samples, ready for the network, prepared by a thread of their own while the devices work.
//
//   Loader loader(data.train, ImageTransform(data.train, adapted.transform, job.augmentation, job.seed),
//                 BatchSampler::training(data.train.size(), job.seed, {.mini_batch = 32, .micro_batch = 8}));
//   const Batch& batch = loader.load(s);           // blocks until it is there; usually it is
//   device.write(*input, whole(*input), batch.pixels);
//   Loader sequences(sample_source(data.train, adapted.transform), BatchSampler::streams(...));     // core/data/sample_source.h
//
// Any micro-batch may be asked for; after load(s) the thread prepares s+1, s+2, ... up to `prefetch` ahead, so asking
// in ascending order rarely waits; a request for anything that is not being prepared makes the thread start over there.
// What a batch holds depends on s alone, never on the prefetch depth or on a timing, so two loaders on different ranks
// agree: the rank of the first device asks for pixels, the rank of the last for labels.
//
// Ownership: the data set is borrowed and must outlive the loader; a Batch is valid until the next load().
// Memory: prefetch + 1 micro-batches; nothing is allocated in steady state except an order of samples per epoch.
// An exception while preparing a micro-batch reaches the caller who asks for that one, after all before it; asking
// again tries again. One consumer thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

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
  int64_t prefetch = 2;  // micro-batches ahead; 0: no thread, everything is prepared inside load()
};

// Writes what the network sees of one sample in an epoch. Called from the loader's thread.
using SampleReader = std::function<void(int64_t epoch, int64_t sample, std::span<float> pixels)>;

// Where samples come from, of any kind. All functions are called from the loader's thread.
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
  struct Slot {
    std::vector<int64_t> sample_ids;
    std::vector<int32_t> labels;
    std::vector<int32_t> lengths;
    std::vector<uint8_t> fresh;
    std::vector<float> pixels;
    Batch batch;
  };

  Slot& slot_of(int64_t s) { return slots_[static_cast<size_t>(s) % slots_.size()]; }
  void prepare(Slot& slot, int64_t s);
  void prepare_ahead();
  bool may_prepare() const;

  SampleSource source_;
  BatchSampler batches_;
  LoaderOptions options_;
  int64_t end_;  // the first micro-batch that does not exist

  // Slot s % size holds micro-batch s. The consumer owns the slot of held_, the thread that of next_; slots between are
  // ready. Everything below is guarded by mutex_; slot contents pass from one thread to the other under it.
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable wanted_;    // the thread may have something to do
  std::condition_variable prepared_;  // next_ or failure_ changed
  int64_t held_ = -1;                 // what the last load() asked for; -1: nothing, or it failed
  int64_t next_ = -1;                 // what the thread prepares now or next
  int64_t restarts_ = 0;              // a batch begun before the latest restart is thrown away
  std::exception_ptr failure_;        // why next_ could not be prepared
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace millrace
