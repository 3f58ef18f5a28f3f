// Element work that looks at more than one element: windows of maps and of channels, and batch normalisation once its statistics are
// there. Part of element_work.h, which says how such work is run.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/device/running_statistics.h"

namespace millrace::gpu {

struct PoolWindow {
  int64_t channels = 1, height = 1, width = 1;  // of the input
  int64_t output_height = 1, output_width = 1;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool maximum = true;
  bool counts_padding = false;

  struct Part {
    int64_t top, bottom, left, right;
    int64_t counted;  // what an average divides by: the positions on the map, or those on map and padding
  };
  // What of a window lies on the map.
  MILLRACE_HOST_DEVICE Part part(int64_t row, int64_t column) const {
    const int64_t top = row * stride_h - pad_h, left = column * stride_w - pad_w;
    const int64_t bottom = top + kernel_h, right = left + kernel_w;
    Part p{top < 0 ? 0 : top, bottom > height ? height : bottom, left < 0 ? 0 : left, right > width ? width : right, 0};
    p.counted = (p.bottom - p.top) * (p.right - p.left);
    if (counts_padding)  // the last window of a ceil_mode may reach past the padding
      p.counted = ((bottom > height + pad_h ? height + pad_h : bottom) - top) * ((right > width + pad_w ? width + pad_w : right) - left);
    return p;
  }
  MILLRACE_HOST_DEVICE float divisor(const Part& p) const { return static_cast<float>(p.counted); }
  // The first largest in row-major order; a NaN counts as larger than anything.
  MILLRACE_HOST_DEVICE int64_t first_maximum(const float* map, const Part& p) const {
    int64_t best = p.top * width + p.left;
    for (int64_t r = p.top; r < p.bottom; ++r)
      for (int64_t c = p.left; c < p.right; ++c) {
        const float value = map[r * width + c], largest = map[best];
        if (value > largest || (value != value && largest == largest)) best = r * width + c;
      }
    return best;
  }
};

struct Pool {
  PoolWindow window;
  const float* input = nullptr;
  float* output = nullptr;
  int64_t elements = 0;  // of the output

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t plane = window.output_height * window.output_width;
    const float* map = input + i / plane * window.height * window.width;
    const PoolWindow::Part p = window.part(i % plane / window.output_width, i % window.output_width);
    if (window.maximum) {
      output[i] = map[window.first_maximum(map, p)];
      return;
    }
    float sum = 0;
    for (int64_t r = p.top; r < p.bottom; ++r)
      for (int64_t c = p.left; c < p.right; ++c) sum += map[r * window.width + c];
    output[i] = sum / window.divisor(p);
  }
};

// Gathers, for one element of the input, from every window that it lies in.
struct PoolError {
  PoolWindow window;
  const float* input = nullptr;
  const float* output_error = nullptr;
  float* input_error = nullptr;
  bool adds = false;
  int64_t elements = 0;  // of the input

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t plane = window.height * window.width;
    const int64_t map_index = i / plane;
    const int64_t at = i % plane, row = at / window.width, column = at % window.width;
    const float* map = input + map_index * plane;
    const float* errors = output_error + map_index * window.output_height * window.output_width;
    float sum = 0;
    for (int64_t y = first(row + window.pad_h, window.kernel_h, window.stride_h); y < window.output_height; ++y) {
      if (y * window.stride_h - window.pad_h > row) break;
      for (int64_t x = first(column + window.pad_w, window.kernel_w, window.stride_w); x < window.output_width; ++x) {
        if (x * window.stride_w - window.pad_w > column) break;
        const PoolWindow::Part p = window.part(y, x);
        const float error = errors[y * window.output_width + x];
        if (!window.maximum)
          sum += error / window.divisor(p);
        else if (window.first_maximum(map, p) == at)
          sum += error;
      }
    }
    input_error[i] = adds ? input_error[i] + sum : sum;
  }
  // The first window that reaches a padded position.
  MILLRACE_HOST_DEVICE static int64_t first(int64_t position, int64_t kernel, int64_t stride) {
    return position < kernel ? 0 : (position - kernel) / stride + 1;
  }
};

// y = x * base^-beta over a window of channels (core/reference/local_response_norm.cpp).
struct ResponseWindow {
  int64_t channels = 1, plane = 1, size = 1;
  float alpha = 0, beta = 0, k = 1;

  MILLRACE_HOST_DEVICE float base(const float* x, int64_t channel) const {
    const int64_t begin = channel - size / 2 < 0 ? 0 : channel - size / 2;
    const int64_t end = channel + (size - 1) / 2 >= channels ? channels - 1 : channel + (size - 1) / 2;
    float squares = 0;
    for (int64_t j = begin; j <= end; ++j) squares += x[j * plane] * x[j * plane];
    return k + alpha / static_cast<float>(size) * squares;
  }
};
struct NormaliseResponse {
  ResponseWindow window;
  const float* input = nullptr;
  float* output = nullptr;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t channel = i / window.plane % window.channels;
    const float* x = input + i - channel * window.plane;
    output[i] = input[i] * std::pow(window.base(x, channel), -window.beta);
  }
};
struct ResponseError {
  ResponseWindow window;
  const float* input = nullptr;
  const float* output_error = nullptr;
  float* input_error = nullptr;
  bool adds = false;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t c = i / window.plane % window.channels;
    const float* x = input + i - c * window.plane;
    const float* error = output_error + i - c * window.plane;
    const int64_t begin = c - (window.size - 1) / 2 < 0 ? 0 : c - (window.size - 1) / 2;
    const int64_t end = c + window.size / 2 >= window.channels ? window.channels - 1 : c + window.size / 2;
    float through = 0;
    for (int64_t j = begin; j <= end; ++j)
      through += error[j * window.plane] * x[j * window.plane] * std::pow(window.base(x, j), -window.beta - 1.0f);
    const float value = output_error[i] * std::pow(window.base(x, c), -window.beta) -
                        2.0f * window.alpha * window.beta / static_cast<float>(window.size) * input[i] * through;
    input_error[i] = adds ? input_error[i] + value : value;
  }
};

// Which elements of a normalised tensor count: rows in front of a sample's end (`valid` by sample; null: all).
struct BatchExtent {
  int64_t channels = 1, height = 1, width = 1;
  const int32_t* valid = nullptr;

  MILLRACE_HOST_DEVICE int64_t plane() const { return height * width; }
  MILLRACE_HOST_DEVICE int64_t channel(int64_t i) const { return i / plane() % channels; }
  MILLRACE_HOST_DEVICE bool counts(int64_t i) const { return valid == nullptr || i / width % height < valid[i / (plane() * channels)]; }
};

MILLRACE_HOST_DEVICE inline float inverse_deviation(float variance, double epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(variance) + epsilon));
}

// Rows of a normalisation's keep: what of the micro-batch E and G need again.
enum KeptRow : int {
  kMean = 0,
  kVariance = 1,
  kErrorSum = 2,
  kProjection = 3,
  kKeptRows = 4,
  // Where running statistics are trained with:
  kDistances = 4,
  kSquares = 5,
  kMeanError = 6,  // running averages, as F found them
  kMeanProjection = 7,
  kGatheringRows = 8
};

struct NormaliseBatch {
  BatchExtent extent;
  const float* input = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
  float* output = nullptr;
  double epsilon = 0;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t c = extent.channel(i);
    output[i] = extent.counts(i) ? (input[i] - mean[c]) * inverse_deviation(variance[c], epsilon) * scale[c] + shift[c] : 0.0f;
  }
};

// `error_sum` and `projection` null: the statistics are constants.
struct BatchError {
  BatchExtent extent;
  const float* input = nullptr;
  const float* output_error = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;
  const float* scale = nullptr;
  const float* error_sum = nullptr;
  const float* projection = nullptr;
  float* input_error = nullptr;
  double epsilon = 0;
  float values = 1;  // that count, by channel
  bool adds = false;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t c = extent.channel(i);
    float error = 0;
    if (extent.counts(i)) {
      const float inverse = inverse_deviation(variance[c], epsilon);
      const float through = error_sum == nullptr ? 0.0f : (error_sum[c] + (input[i] - mean[c]) * inverse * projection[c]) / values;
      error = scale[c] * inverse * (output_error[i] - through);
    }
    input_error[i] = adds ? input_error[i] + error : error;
  }
};

// G of a channel whose statistics are running ones: what F added up, moved from the mean of then to that of now.
struct GatherBatchNorm {
  const float* keep = nullptr;  // kGatheringRows rows of channels
  const float* running_mean = nullptr;
  float* gathered = nullptr;  // sum, sum of squares, count
  double count = 0;           // of the micro-batch
  int64_t elements = 0;       // channels

  MILLRACE_HOST_DEVICE void operator()(int64_t c) const {
    const double moved = static_cast<double>(keep[kMean * elements + c]) - static_cast<double>(running_mean[c]);
    const double sum = static_cast<double>(keep[kDistances * elements + c]);
    const double squares = static_cast<double>(keep[kSquares * elements + c]);
    gathered[c] += static_cast<float>(sum + count * moved);
    gathered[elements + c] += static_cast<float>(squares + 2 * moved * sum + count * moved * moved);
    gathered[2 * elements + c] += static_cast<float>(count);
    gathered[3 * elements + c] += keep[kErrorSum * elements + c];
    gathered[4 * elements + c] += keep[kProjection * elements + c];
  }
};

// U of a channel: running statistics one update further.
struct CommitGathered {
  float* gathered = nullptr;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  float* running_error = nullptr;
  float* running_projection = nullptr;
  double momentum = 0, epsilon = 0;
  int64_t elements = 0;  // channels

  MILLRACE_HOST_DEVICE void operator()(int64_t c) const {
    const RunningStatistics before{static_cast<double>(running_mean[c]), static_cast<double>(running_variance[c]),
                                   static_cast<double>(running_error[c]), static_cast<double>(running_projection[c])};
    const GatheredSums sums{static_cast<double>(gathered[c]), static_cast<double>(gathered[elements + c]),
                            static_cast<double>(gathered[2 * elements + c]), static_cast<double>(gathered[3 * elements + c]),
                            static_cast<double>(gathered[4 * elements + c])};
    const RunningStatistics after = updated(before, sums, momentum, epsilon);
    running_mean[c] = static_cast<float>(after.mean);
    running_variance[c] = static_cast<float>(after.variance);
    running_error[c] = static_cast<float>(after.error);
    running_projection[c] = static_cast<float>(after.projection);
    for (int64_t row = 0; row < kGatheredSums; ++row) gathered[row * elements + c] = 0;
  }
};

// G of a channel: the gradients of scale and shift, and the running statistics one micro-batch further.
struct CommitBatchNorm {
  const float* keep = nullptr;  // kKeptRows rows of channels
  float* scale_gradient = nullptr;
  float* shift_gradient = nullptr;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  bool adds = false;
  float momentum = 0;
  float unbiased = 1;
  bool commits = true;
  int64_t elements = 0;  // channels

  MILLRACE_HOST_DEVICE void operator()(int64_t c) const {
    if (scale_gradient != nullptr) {
      const float scale = keep[kProjection * elements + c], shift = keep[kErrorSum * elements + c];
      scale_gradient[c] = adds ? scale_gradient[c] + scale : scale;
      shift_gradient[c] = adds ? shift_gradient[c] + shift : shift;
    }
    if (!commits) return;
    running_mean[c] = (1.0f - momentum) * running_mean[c] + momentum * keep[kMean * elements + c];
    running_variance[c] = (1.0f - momentum) * running_variance[c] + momentum * unbiased * keep[kVariance * elements + c];
  }
};

}  // namespace millrace::gpu
