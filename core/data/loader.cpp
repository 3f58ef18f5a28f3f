#include "core/data/loader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace {
namespace {

SampleReader image_reader(const Dataset& data, const ImageTransform& transform) {
  return [&data, transform, scratch = std::vector<uint8_t>(static_cast<size_t>(data.shape.elements()))](int64_t epoch, int64_t sample,
                                                                                                        std::span<float> pixels) mutable {
    transform.apply(image_of(data, sample, scratch), epoch, sample, pixels);
  };
}

SampleSource labelled_source(SampleReader reader, int64_t elements, std::span<const int32_t> labels, const BatchSampler& batches) {
  MILLRACE_CHECK(static_cast<int64_t>(labels.size()) == batches.samples(), "{} labels for {} samples", labels.size(), batches.samples());
  return {
      .elements = elements, .labels_each = 1, .read = std::move(reader), .read_labels = [labels](int64_t sample, std::span<int32_t> row) {
        row[0] = labels[static_cast<size_t>(sample)];
      }};
}

}  // namespace

Loader::Loader(const Dataset& data, const ImageTransform& transform, const BatchSampler& batches, const LoaderOptions& options)
    : Loader(image_reader(data, transform), transform.output().elements(), data.labels, batches, options) {}

Loader::Loader(SampleReader reader, int64_t elements, std::span<const int32_t> labels, const BatchSampler& batches,
               const LoaderOptions& options)
    : Loader(labelled_source(std::move(reader), elements, labels, batches), batches, options) {}

Loader::Loader(SampleSource source, const BatchSampler& batches, const LoaderOptions& options)
    : source_(std::move(source)),
      batches_(batches),
      options_(options),
      end_(batches.is_training() ? std::numeric_limits<int64_t>::max() : batches.micro_batches_per_epoch()),
      slots_(static_cast<size_t>(options.prefetch) + 1) {
  MILLRACE_CHECK(options.prefetch >= 0, "prefetch {}", options.prefetch);
  const auto samples = static_cast<size_t>(batches.micro_batch());
  for (Slot& slot : slots_) {
    slot.sample_ids.reserve(samples);
    slot.fresh.reserve(samples);
    slot.lengths.reserve(samples);
    slot.labels.reserve(samples * static_cast<size_t>(source_.labels_each));
    if (options.pixels) slot.pixels.resize(samples * static_cast<size_t>(source_.elements));
  }
  if (options.prefetch > 0) thread_ = std::thread([this] { prepare_ahead(); });
}

Loader::~Loader() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

const Batch& Loader::load(int64_t s) {
  MILLRACE_CHECK(0 <= s && s < end_, "micro-batch {} of {}", s, end_);
  if (!thread_.joinable()) {
    prepare(slots_.front(), s);
    return slots_.front().batch;
  }

  std::unique_lock lock(mutex_);
  const bool under_way = held_ >= 0 && (s == held_ + 1 || (held_ <= s && s < next_));
  held_ = s;
  if (!under_way) {
    next_ = s;
    failure_ = nullptr;
    ++restarts_;
  }
  wanted_.notify_one();
  prepared_.wait(lock, [&] { return next_ > s || failure_ != nullptr; });
  if (next_ > s) return slot_of(s).batch;
  held_ = -1;
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Loader::prepare(Slot& slot, int64_t s) {
  batches_.sample_ids(s, slot.sample_ids);
  slot.fresh.assign(slot.sample_ids.size(), batches_.starts_anew(s) ? 1 : 0);
  slot.batch = {.index = s,
                .epoch = batches_.epoch_of(s),
                .sample_ids = slot.sample_ids,
                .labels = {},
                .labels_each = source_.labels_each,
                .lengths = {},
                .fresh = slot.fresh,
                .pixels = {}};
  if (source_.steps) {
    slot.lengths.clear();
    for (const int64_t sample : slot.sample_ids) slot.lengths.push_back(source_.steps(sample));
    slot.batch.lengths = slot.lengths;
  }
  if (options_.labels) {
    const auto each = static_cast<size_t>(source_.labels_each);
    slot.labels.resize(slot.sample_ids.size() * each);
    for (size_t i = 0; i < slot.sample_ids.size(); ++i)
      source_.read_labels(slot.sample_ids[i], std::span(slot.labels).subspan(i * each, each));
    slot.batch.labels = slot.labels;
  }
  if (options_.pixels) {
    std::span<float> rest(slot.pixels);
    const auto elements = static_cast<size_t>(source_.elements);
    for (const int64_t sample : slot.sample_ids) {
      source_.read(slot.batch.epoch, sample, rest.first(elements));
      rest = rest.subspan(elements);
    }
    std::fill(rest.begin(), rest.end(), 0.0F);
    slot.batch.pixels = slot.pixels;
  }
}

bool Loader::may_prepare() const { return held_ >= 0 && failure_ == nullptr && next_ < end_ && next_ <= held_ + options_.prefetch; }

void Loader::prepare_ahead() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return stop_ || may_prepare(); });
    if (stop_) return;
    const int64_t s = next_;
    const int64_t restarts = restarts_;
    std::exception_ptr failure;
    lock.unlock();
    try {
      prepare(slot_of(s), s);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (restarts != restarts_) continue;
    if (failure == nullptr) {
      ++next_;
    } else {
      failure_ = failure;
    }
    prepared_.notify_one();
  }
}

}  // namespace millrace
