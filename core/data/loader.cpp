#include "core/data/loader.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {
namespace {

SampleSource labelled_source(SampleReader reader, int64_t elements, std::span<const int32_t> labels, const BatchSampler& batches) {
  MILLRACE_CHECK(static_cast<int64_t>(labels.size()) == batches.samples(), "{} labels for {} samples", labels.size(), batches.samples());
  return {
      .elements = elements, .labels_each = 1, .read = std::move(reader), .read_labels = [labels](int64_t sample, std::span<int32_t> row) {
        row[0] = item(labels, sample);
      }};
}

}  // namespace

SampleReader transformed_images(const Dataset& data, const ImageTransform& transform) {
  return [&data, transform, scratch = std::vector<uint8_t>(to_size(data.shape.elements()))](int64_t epoch, int64_t sample,
                                                                                            std::span<float> pixels) mutable {
    const std::optional<PictureDraw> draw = transform.draw_of(epoch, sample);
    transform.apply(image_of(data, sample, scratch, draw ? &*draw : nullptr), epoch, sample, pixels);
  };
}

Loader::Loader(const Dataset& data, const ImageTransform& transform, const BatchSampler& batches, const LoaderOptions& options)
    : Loader(transformed_images(data, transform), transform.output().elements(), data.labels, batches, options) {}

Loader::Loader(SampleReader reader, int64_t elements, std::span<const int32_t> labels, const BatchSampler& batches,
               const LoaderOptions& options)
    : Loader(labelled_source(std::move(reader), elements, labels, batches), batches, options) {}

Loader::Loader(SampleSource source, const BatchSampler& batches, const LoaderOptions& options)
    : batches_(batches),
      options_(options),
      end_(batches.is_training() ? std::numeric_limits<int64_t>::max() : batches.micro_batches_per_epoch()) {
  MILLRACE_CHECK(options.prefetch >= 0 && options.threads >= 1, "prefetch {} by {} threads", options.prefetch, options.threads);
  // Labels alone are read faster than threads are woken.
  const int64_t threads = options.prefetch == 0 || !options.pixels ? std::min<int64_t>(options.prefetch, 1) : options.threads;
  if (threads > options.prefetch) options_.prefetch = threads;
  slots_.resize(to_size(options_.prefetch) + 1);
  sources_.assign(to_size(std::max<int64_t>(threads, 1)), source);
  const auto samples = to_size(batches.micro_batch());
  for (Slot& slot : slots_) {
    slot.sample_ids.reserve(samples);
    slot.fresh.reserve(samples);
    slot.lengths.reserve(samples);
    slot.labels.reserve(samples * to_size(source.labels_each));
    if (options.pixels) slot.pixels.resize(samples * to_size(source.elements));
  }
  for (int64_t t = 0; t < threads; ++t) threads_.emplace_back([this, t] { prepare_ahead(item(sources_, t)); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

const Batch& Loader::load(int64_t s) {
  MILLRACE_CHECK(0 <= s && s < end_, "micro-batch {} of {}", s, end_);
  if (options_.waited == nullptr) return load_prepared(s);
  const auto began = std::chrono::steady_clock::now();
  const Batch& batch = load_prepared(s);
  *options_.waited += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began).count();
  return batch;
}

const Batch& Loader::load_prepared(int64_t s) {
  if (threads_.empty()) {
    begin(slots_.front(), s);
    prepare(sources_.front(), slots_.front());
    return slots_.front().batch;
  }

  std::unique_lock lock(mutex_);
  const bool under_way = held_ >= 0 && (s == held_ + 1 || (held_ <= s && s < next_));
  if (under_way) {
    // What lies behind is given up, so that its slots can be filled anew.
    for (; held_ < s; ++held_)
      if (held_ < next_) {
        prepared_.wait(lock, [&] { return slot_of(held_).state != SlotState::kTaken; });
        slot_of(held_).state = SlotState::kEmpty;
      }
    if (failed_ && s >= next_) start_over(lock, s);  // one that was passed over
  } else {
    start_over(lock, s);
  }
  wanted_.notify_all();
  Slot& slot = slot_of(s);
  prepared_.wait(lock, [&] { return next_ > s && (slot.state == SlotState::kReady || slot.state == SlotState::kFailed); });
  if (slot.state == SlotState::kReady) return slot.batch;
  const std::exception_ptr failure = slot.failure;
  start_over(lock, -1);
  std::rethrow_exception(failure);
}

// Waits until no thread prepares anything, and begins at `s`; -1: at whatever is asked for next.
void Loader::start_over(std::unique_lock<std::mutex>& lock, int64_t s) {
  held_ = -1;
  prepared_.wait(lock, [this] { return busy_ == 0; });
  for (Slot& slot : slots_) {
    slot.state = SlotState::kEmpty;
    slot.failure = nullptr;
  }
  failed_ = false;
  held_ = next_ = s;
}

// Which samples: quickly done, and in order.
void Loader::begin(Slot& slot, int64_t s) {
  batches_.sample_ids(s, slot.sample_ids);
  slot.fresh.assign(slot.sample_ids.size(), batches_.starts_anew(s) ? 1 : 0);
  slot.batch = {.index = s,
                .epoch = batches_.epoch_of(s),
                .sample_ids = slot.sample_ids,
                .labels = {},
                .labels_each = sources_.front().labels_each,
                .lengths = {},
                .fresh = slot.fresh,
                .pixels = {}};
}

void Loader::prepare(SampleSource& source, Slot& slot) const {
  if (source.steps) {
    slot.lengths.clear();
    for (const int64_t sample : slot.sample_ids) slot.lengths.push_back(source.steps(sample));
    slot.batch.lengths = slot.lengths;
  }
  if (options_.labels) {
    const auto each = to_size(source.labels_each);
    slot.labels.resize(slot.sample_ids.size() * each);
    for (size_t i = 0; i < slot.sample_ids.size(); ++i)
      source.read_labels(slot.sample_ids[i], std::span(slot.labels).subspan(i * each, each));
    slot.batch.labels = slot.labels;
  }
  if (options_.pixels) {
    std::span<float> rest(slot.pixels);
    const auto elements = to_size(source.elements);
    for (const int64_t sample : slot.sample_ids) {
      source.read(slot.batch.epoch, sample, rest.first(elements));
      rest = rest.subspan(elements);
    }
    std::fill(rest.begin(), rest.end(), 0.0F);
    slot.batch.pixels = slot.pixels;
  }
}

bool Loader::may_prepare() const { return held_ >= 0 && !failed_ && next_ < end_ && next_ <= held_ + options_.prefetch; }

void Loader::prepare_ahead(SampleSource& source) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return stop_ || may_prepare(); });
    if (stop_) return;
    Slot& slot = slot_of(next_);
    ++busy_;
    slot.state = SlotState::kTaken;
    try {
      begin(slot, next_++);
      lock.unlock();
      prepare(source, slot);
      lock.lock();
      slot.state = SlotState::kReady;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      slot.failure = std::current_exception();
      slot.state = SlotState::kFailed;
      failed_ = true;
    }
    --busy_;
    prepared_.notify_all();
  }
}

}  // namespace millrace
