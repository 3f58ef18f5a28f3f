#include "core/cpu/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/index.h"
#include "core/cpu/threading.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

int64_t channel_block(const Shape& shape, int64_t vector_length) {
  constexpr int64_t kMostImageChannels = 4;
  constexpr int64_t kSmallMap = 4;
  if (shape.width == 1 || shape.plane() <= kSmallMap) return shape.channels;
  return shape.channels <= kMostImageChannels ? 1 : vector_length;
}

Layout canonical_layout(const Shape& shape, int64_t samples) {
  return {.samples = samples, .channels = shape.channels, .plane = shape.plane(), .block = 1};
}

CpuTensor::CpuTensor(const TensorSpec& spec, int64_t vector_length)
    : Tensor(spec),
      layout_{.samples = spec.batch,
              .channels = spec.shape.channels,
              .plane = spec.shape.plane(),
              .block = channel_block(spec.shape, vector_length)},
      stored_(layout_.stored()),
      buffer_(to_size(stored_) * sizeof(float)) {}

CpuTensor::CpuTensor(const Shape& shape, std::shared_ptr<const Packing> packing)
    : Tensor({.shape = shape, .batch = 1}),
      layout_(canonical_layout(shape, 1)),
      packing_(std::move(packing)),
      stored_(packing_ ? packing_->stored() : shape.elements()),
      buffer_(to_size(stored_) * sizeof(float)) {}

CpuTensor& own(Tensor* tensor) {
  auto* mine = dynamic_cast<CpuTensor*>(tensor);
  MILLRACE_CHECK(mine != nullptr, "{} tensor handed to the CPU device", tensor == nullptr ? "a missing" : "another device's");
  return *mine;
}
const CpuTensor& own(const Tensor* tensor) {
  const auto* mine = dynamic_cast<const CpuTensor*>(tensor);
  MILLRACE_CHECK(mine != nullptr, "{} tensor handed to the CPU device", tensor == nullptr ? "a missing" : "another device's");
  return *mine;
}

namespace {

// One channel block of the source against one of the target: `run` channels at every position.
void copy_run(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t run, int64_t plane, bool add) {
  if (run == from_step && run == to_step) {
    if (add) return add_to(to, from, run * plane);
    std::memcpy(to, from, to_size(run * plane) * sizeof(float));
    return;
  }
  if (run == 1) return copy_strided(from, from_step, to, to_step, plane, add);
  for (int64_t position = 0; position < plane; ++position, from += from_step, to += to_step)
    for (int64_t c = 0; c < run; ++c) to[c] = add ? to[c] + from[c] : from[c];
}

}  // namespace

void copy_channels(int threads, const Layout& from_layout, const float* from, ChannelRange channels, const Layout& to_layout, float* to,
                   int64_t to_begin, bool add) {
  // Whole tensors of one layout are one array, and padding is copied with the rest.
  if (from_layout == to_layout && channels.size() == from_layout.channels) {
    parallel_chunks(threads, from_layout.stored(), [&](int64_t begin, int64_t size) {
      if (add) return add_to(to + begin, from + begin, size);
      std::memcpy(to + begin, from + begin, to_size(size) * sizeof(float));
    });
    return;
  }
  const int64_t plane = from_layout.plane;
  const bool small = channels.size() * plane * from_layout.samples <= kChunk;
  parallel_for(small ? 1 : threads, from_layout.samples, [&](int64_t sample) {
    for (int64_t c = channels.begin; c < channels.end;) {
      const int64_t target = to_begin + c - channels.begin;
      const int64_t run =
          std::min({channels.end - c, from_layout.block - c % from_layout.block, to_layout.block - target % to_layout.block});
      copy_run(from + from_layout.offset(sample, c), from_layout.block, to + to_layout.offset(sample, target), to_layout.block, run, plane,
               add);
      c += run;
    }
  });
}

void clear_padding(int threads, const Layout& layout, float* values) {
  if (!layout.padded()) return;
  const int64_t first = layout.channels % layout.block;
  parallel_for(threads, layout.samples, [&](int64_t sample) {
    float* block = values + layout.offset(sample, layout.channels - first);
    for (int64_t position = 0; position < layout.plane; ++position)
      std::fill(block + position * layout.block + first, block + (position + 1) * layout.block, 0.0f);
  });
}

}  // namespace millrace::cpu
