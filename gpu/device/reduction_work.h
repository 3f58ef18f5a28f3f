// What a device adds up: groups of terms, each summed in double by one block of threads in an order that its size alone decides, on the
// GPU and on the host. Each group then finishes by itself.
//
//   const ReductionWork work = ChannelSum{.values = error, .sums = gradient, ...};
//   std::visit([](const auto& w) { for (int64_t g = 0; g < w.groups; ++g) w.finish(g, reduced(w, g)); }, work);
//
// Plain values, no libraries: read by the CUDA compiler.
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "core/base/host_device.h"
#include "gpu/device/stored.h"
#include "gpu/device/window_work.h"

namespace millrace::gpu {

inline constexpr int kReductionThreads = 256;  // of a block; a power of two

struct Sums {
  double first = 0;
  double second = 0;

  MILLRACE_HOST_DEVICE Sums& operator+=(const Sums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

// What one thread adds up of a group.
template <typename Work>
MILLRACE_HOST_DEVICE Sums share_of_thread(const Work& work, int64_t group, int thread) {
  Sums sums;
  for (int64_t j = thread; j < work.length; j += kReductionThreads) sums += work.term(group, j);
  return sums;
}

// The host's way to the same sum.
template <typename Work>
Sums reduced(const Work& work, int64_t group) {
  Sums shares[kReductionThreads];
  for (int thread = 0; thread < kReductionThreads; ++thread) shares[thread] = share_of_thread(work, group, thread);
  for (int half = kReductionThreads / 2; half > 0; half /= 2)
    for (int thread = 0; thread < half; ++thread) shares[thread] += shares[thread + half];
  return shares[0];
}

// sums[c] (+)= all values of a channel.
struct ChannelSum {
  ConstFloats values = {};
  float* sums = nullptr;
  int64_t plane = 1;
  bool adds = false;
  int64_t groups = 0;  // channels
  int64_t length = 0;  // samples x plane

  MILLRACE_HOST_DEVICE Sums term(int64_t c, int64_t j) const {
    return {static_cast<double>(values.at((j / plane * groups + c) * plane + j % plane)), 0};
  }
  MILLRACE_HOST_DEVICE void finish(int64_t c, const Sums& total) const {
    const float sum = static_cast<float>(total.first);
    sums[c] = adds ? sums[c] + sum : sum;
  }
};

namespace detail {
// The index of a channel's j-th element.
MILLRACE_HOST_DEVICE inline int64_t element_of(const BatchExtent& extent, int64_t channel, int64_t j) {
  return (j / extent.plane() * extent.channels + channel) * extent.plane() + j % extent.plane();
}
}  // namespace detail

struct BatchMean {
  BatchExtent extent;
  const float* input = nullptr;
  float* mean = nullptr;
  double values = 1;
  int64_t groups = 0, length = 0;

  MILLRACE_HOST_DEVICE Sums term(int64_t c, int64_t j) const {
    const int64_t i = detail::element_of(extent, c, j);
    return {extent.counts(i) ? static_cast<double>(input[i]) : 0.0, 0};
  }
  MILLRACE_HOST_DEVICE void finish(int64_t c, const Sums& total) const { mean[c] = static_cast<float>(total.first / values); }
};

struct BatchVariance {
  BatchExtent extent;
  const float* input = nullptr;
  const float* mean = nullptr;
  float* variance = nullptr;
  double values = 1;
  int64_t groups = 0, length = 0;

  MILLRACE_HOST_DEVICE Sums term(int64_t c, int64_t j) const {
    const int64_t i = detail::element_of(extent, c, j);
    const double distance = extent.counts(i) ? static_cast<double>(input[i]) - static_cast<double>(mean[c]) : 0.0;
    return {distance * distance, 0};
  }
  MILLRACE_HOST_DEVICE void finish(int64_t c, const Sums& total) const { variance[c] = static_cast<float>(total.first / values); }
};

// Around the mean of the version before: distances, and their squares.
struct BatchDistances {
  BatchExtent extent;
  const float* input = nullptr;
  const float* mean = nullptr;
  float* sum = nullptr;
  float* squares = nullptr;
  int64_t groups = 0, length = 0;

  MILLRACE_HOST_DEVICE Sums term(int64_t c, int64_t j) const {
    const int64_t i = detail::element_of(extent, c, j);
    const double distance = extent.counts(i) ? static_cast<double>(input[i]) - static_cast<double>(mean[c]) : 0.0;
    return {distance, distance * distance};
  }
  MILLRACE_HOST_DEVICE void finish(int64_t c, const Sums& total) const {
    sum[c] = static_cast<float>(total.first);
    squares[c] = static_cast<float>(total.second);
  }
};

// The sums of the errors and of their products with the normalised input.
struct BatchErrorSums {
  BatchExtent extent;
  const float* input = nullptr;
  const float* output_error = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;
  float* error_sum = nullptr;
  float* projection = nullptr;
  double epsilon = 0;
  int64_t groups = 0, length = 0;

  MILLRACE_HOST_DEVICE Sums term(int64_t c, int64_t j) const {
    const int64_t i = detail::element_of(extent, c, j);
    if (!extent.counts(i)) return {};
    const double error = static_cast<double>(output_error[i]);
    return {error, error * (static_cast<double>(input[i]) - static_cast<double>(mean[c]))};
  }
  MILLRACE_HOST_DEVICE void finish(int64_t c, const Sums& total) const {
    error_sum[c] = static_cast<float>(total.first);
    projection[c] = static_cast<float>(total.second / std::sqrt(static_cast<double>(variance[c]) + epsilon));
  }
};

// Of pieces of a tensor: the sum of its squares, and how many of its values are no finite numbers.
struct PieceNorm {
  const float* values = nullptr;
  double* squares = nullptr;  // by piece, and as many counts behind them
  int64_t elements = 0;
  int64_t groups = 0;
  int64_t length = 0;  // of a piece; the last may be shorter

  MILLRACE_HOST_DEVICE Sums term(int64_t piece, int64_t j) const {
    const int64_t i = piece * length + j;
    if (i >= elements) return {};
    const double value = static_cast<double>(values[i]);
    const bool finite = value - value == 0;
    return {value * value, finite ? 0.0 : 1.0};
  }
  MILLRACE_HOST_DEVICE void finish(int64_t piece, const Sums& total) const {
    squares[piece] = total.first;
    squares[groups + piece] = total.second;
  }
};

using ReductionWork = std::variant<ChannelSum, BatchMean, BatchVariance, BatchDistances, BatchErrorSums, PieceNorm>;

}  // namespace millrace::gpu
