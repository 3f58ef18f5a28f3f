#include "fpga/conv_ce/arithmetic/after_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

namespace {

// The part of a window that lies on the input.
struct Part {
  int64_t row_begin, row_end, column_begin, column_end;
  int64_t top, left;
  int64_t count() const { return (row_end - row_begin) * (column_end - column_begin); }
};

template <typename Visit>
void for_each_window(const PoolingWindow& w, int64_t channels, Visit visit) {
  size_t output = 0;
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t row = 0; row < w.out_height; ++row)
      for (int64_t column = 0; column < w.out_width; ++column, ++output) {
        const int64_t top = row * w.stride_h - w.pad_h;
        const int64_t left = column * w.stride_w - w.pad_w;
        const Part part{std::max<int64_t>(top, 0),
                        std::min(top + w.kernel_h, w.height),
                        std::max<int64_t>(left, 0),
                        std::min(left + w.kernel_w, w.width),
                        top,
                        left};
        MILLRACE_CHECK(part.count() > 0, "an empty window at row {}, column {}", row, column);
        visit(channel * w.height * w.width, output, part);
      }
}

// Of the elements on the map, or of those on map and padding: the last window may reach past it.
int32_t divisor_reciprocal(const PoolingWindow& w, const Part& part) {
  if (!w.count_padding) return reciprocal_of(part.count());
  return reciprocal_of((std::min(part.top + w.kernel_h, w.height + w.pad_h) - part.top) *
                       (std::min(part.left + w.kernel_w, w.width + w.pad_w) - part.left));
}

int16_t leaked(int16_t element, int16_t slope, ArithmeticCounters& counters) {
  return slope == 0 ? int16_t{0} : rounded_to_element(int64_t{element} * slope, kSlopeBits, counters);
}

}  // namespace

int16_t slope_bits(double slope) { return static_cast<int16_t>(saturated(std::llrint(std::ldexp(slope, kSlopeBits)))); }

std::vector<int16_t> scaled_and_offset(std::span<const int16_t> sums, int64_t channels, const ScaleAndOffset& how,
                                       ArithmeticCounters& counters) {
  const auto count = to_size(channels);
  MILLRACE_CHECK(count > 0 && sums.size() % count == 0 && how.scale.size() == count && how.offset.size() == count,
                 "{} sums, {} channels, {} scales, {} offsets", sums.size(), channels, how.scale.size(), how.offset.size());
  const size_t plane = sums.size() / count;
  std::vector<int16_t> outputs(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t channel = i / plane;
    const int64_t value = int64_t{sums[i]} * how.scale[channel] + (int64_t{how.offset[channel]} << how.offset_shift);
    const int16_t rounded = rounded_to_element(value, how.shift, counters);
    outputs[i] = how.relu && rounded < 0 ? leaked(rounded, how.slope, counters) : rounded;
  }
  return outputs;
}

std::vector<int16_t> error_through_relu(std::span<const int16_t> output, std::span<const int16_t> error, int16_t slope) {
  MILLRACE_CHECK(output.size() == error.size(), "{} outputs, {} errors", output.size(), error.size());
  std::vector<int16_t> before(error.size());
  ArithmeticCounters uncounted;  // never saturates
  for (size_t i = 0; i < error.size(); ++i) before[i] = output[i] > 0 ? error[i] : leaked(error[i], slope, uncounted);
  return before;
}

std::vector<int16_t> error_through_scale(std::span<const int16_t> error, int64_t channels, std::span<const int16_t> scale, int shift,
                                         ArithmeticCounters& counters) {
  const auto count = to_size(channels);
  MILLRACE_CHECK(count > 0 && error.size() % count == 0 && scale.size() == count, "{} errors, {} channels, {} scales", error.size(),
                 channels, scale.size());
  const size_t plane = error.size() / count;
  std::vector<int16_t> before(error.size());
  for (size_t i = 0; i < error.size(); ++i) before[i] = rounded_to_element(int64_t{error[i]} * scale[i / plane], shift, counters);
  return before;
}

FoldedNormalisation folded_normalisation(const ConstantNormalisation& norm, std::span<const double> sum_bias, FixedFormat sum,
                                         ArithmeticCounters& counters) {
  const size_t channels = norm.weight.size();
  MILLRACE_CHECK(
      norm.bias.size() == channels && norm.mean.size() == channels && norm.variance.size() == channels && sum_bias.size() == channels,
      "a batch norm of {} channels with {} biases, {} means, {} variances, behind {} biases", channels, norm.bias.size(), norm.mean.size(),
      norm.variance.size(), sum_bias.size());
  std::vector<double> scales;
  double largest = 0;
  for (size_t c = 0; c < channels; ++c) {
    scales.push_back(norm.weight[c] / std::sqrt(norm.variance[c] + norm.epsilon));
    largest = std::max(largest, std::fabs(scales.back()));
  }
  FoldedNormalisation folded;
  folded.shift = 15;
  while (folded.shift > 0 && std::ldexp(largest, folded.shift) > 32767) --folded.shift;
  for (size_t c = 0; c < channels; ++c) {
    folded.scale.push_back(quantized(scales[c], FixedFormat{folded.shift}, counters));
    folded.offset.push_back(quantized(norm.bias[c] + (sum_bias[c] - norm.mean[c]) * scales[c], sum, counters));
  }
  return folded;
}

int PoolingWindow::place_bits() const {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(kernel_h * kernel_w - 1))));
}

int32_t reciprocal_of(int64_t count) {
  MILLRACE_CHECK(count > 0, "the average of {} elements", count);
  return static_cast<int32_t>(((int64_t{2} << kReciprocalBits) / count + 1) / 2);
}

PooledPlane pooled_forward(const PoolingWindow& window, int64_t channels, std::span<const int16_t> input, ArithmeticCounters& counters) {
  MILLRACE_CHECK(static_cast<int64_t>(input.size()) == channels * window.height * window.width, "{} elements to pool", input.size());
  const auto outputs = to_size(channels * window.out_height * window.out_width);
  PooledPlane pooled{std::vector<int16_t>(outputs), std::vector<int16_t>(window.average ? 0 : outputs)};
  for_each_window(window, channels, [&](int64_t plane, size_t output, const Part& part) {
    int64_t sum = 0;
    int64_t best = -32769;
    int64_t winner = 0;
    for (int64_t row = part.row_begin; row < part.row_end; ++row)
      for (int64_t column = part.column_begin; column < part.column_end; ++column) {
        const int64_t value = fast_item(input, plane + row * window.width + column);
        sum += value;
        if (value <= best) continue;
        best = value;
        winner = (row - part.top) * window.kernel_w + column - part.left;
      }
    if (window.average) {
      pooled.values[output] = rounded_to_element(sum * divisor_reciprocal(window, part), kReciprocalBits, counters);
    } else {
      pooled.values[output] = static_cast<int16_t>(best);
      pooled.winners[output] = static_cast<int16_t>(winner);
    }
  });
  return pooled;
}

std::vector<int16_t> pooled_back(const PoolingWindow& window, int64_t channels, std::span<const int16_t> error, const PooledPlane& pooled,
                                 ArithmeticCounters& counters) {
  const auto outputs = to_size(channels * window.out_height * window.out_width);
  MILLRACE_CHECK(error.size() == outputs && (window.average || pooled.winners.size() == outputs), "{} errors, {} winners for {} windows",
                 error.size(), pooled.winners.size(), outputs);
  std::vector<int64_t> sums(to_size(channels * window.height * window.width));
  for_each_window(window, channels, [&](int64_t plane, size_t output, const Part& part) {
    if (!window.average) {
      const int64_t row = part.top + pooled.winners[output] / window.kernel_w;
      const int64_t column = part.left + pooled.winners[output] % window.kernel_w;
      fast_item(sums, plane + row * window.width + column) += error[output];
      return;
    }
    for (int64_t row = part.row_begin; row < part.row_end; ++row)
      for (int64_t column = part.column_begin; column < part.column_end; ++column)
        fast_item(sums, plane + row * window.width + column) += int64_t{error[output]} * divisor_reciprocal(window, part);
  });
  std::vector<int16_t> errors(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) errors[i] = rounded_to_element(sums[i], window.average ? kReciprocalBits : 0, counters);
  return errors;
}

}  // namespace millrace
