// The special-function unit in fixed point: scale and offset per channel, ReLU, pooling, and their way back.
//
//   const std::vector<int16_t> y = scaled_and_offset(sums, channels, {.scale = s, .offset = b, .offset_shift = 2, .shift = 10, .relu =
//   true},
//                                                    counters);
//   const PooledPlane pooled = pooled_forward(window, channels, y, counters);
//   const std::vector<int16_t> error = pooled_back(window, channels, pooled_error, pooled, counters);
//
// y = round((x * scale + offset * 2^offset_shift) * 2^-shift), then max(y, 0) with a ReLU. A bias is a scale of a power of
// two; a batch norm whose statistics stand still folds into the two numbers (folded_normalisation). The sum of both terms has
// 40 bits. Back through a scale an error is multiplied by it and rounded once.
// A maximum is exact; the first in row-major order wins, and its place in the window is kept for the way back. An average is
// round(sum * reciprocal * 2^-17) with reciprocal = round(2^17 / count): off by at most one step per 2^17/count of rounding.
// Windows may overlap; on the way back the errors that meet in one element are summed in 32 bits and rounded once. Through
// a ReLU errors pass where the OUTPUT was above zero. A leaky one leaves round(x * slope * 2^-15) of numbers below zero, and of
// their errors; its slope is rounded to fifteen bits, off by 1.6e-5 at most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fpga/common/arithmetic/fixed_point.h"

namespace millrace {

inline constexpr int kReciprocalBits = 17;
inline constexpr int kSlopeBits = 15;

// Of a leaky ReLU, from 0 to below 1.
int16_t slope_bits(double slope);

struct ScaleAndOffset {
  std::span<const int16_t> scale;   // per channel
  std::span<const int16_t> offset;  // per channel
  int offset_shift = 0;             // 0 to 15
  int shift = 0;                    // 0 to 31
  bool relu = false;
  int16_t slope = 0;  // with a ReLU: what it leaves of numbers below zero, of kSlopeBits
};

std::vector<int16_t> scaled_and_offset(std::span<const int16_t> sums, int64_t channels, const ScaleAndOffset& how,
                                       ArithmeticCounters& counters);
// The error before the ReLU, from the output behind it.
std::vector<int16_t> error_through_relu(std::span<const int16_t> output, std::span<const int16_t> error, int16_t slope = 0);

// Through the scale of ScaleAndOffset: round(error * scale * 2^-shift).
std::vector<int16_t> error_through_scale(std::span<const int16_t> error, int64_t channels, std::span<const int16_t> scale, int shift,
                                         ArithmeticCounters& counters);

// A batch norm with constant statistics as a scale and an offset, per channel:
// weight / sqrt(variance + epsilon), and bias + (bias of the sum - mean) * scale.
struct ConstantNormalisation {
  std::span<const double> weight, bias, mean, variance;
  double epsilon = 1e-5;
};
struct FoldedNormalisation {
  std::vector<int16_t> scale;   // of `shift` fraction bits, as many up to 15 as the largest scale leaves
  std::vector<int16_t> offset;  // of the sum's
  int shift = 0;
};
// Scales of 2^15 and more saturate, and are counted.
FoldedNormalisation folded_normalisation(const ConstantNormalisation& norm, std::span<const double> sum_bias, FixedFormat sum,
                                         ArithmeticCounters& counters);

// The largest window that is held whole, in all and on a side: an element of it takes a bank of the line buffer.
inline constexpr int64_t kLargestWindow = 64;
inline constexpr int64_t kLongestWindow = 16;
// Larger ones are gathered beat by beat, a global average among them. The reciprocal of so many elements is wrong by half a step of 2^-17,
// an average of them by 0.8% at most; a maximum's place has sixteen bits, with a sign.
inline constexpr int64_t kLargestAverage = 2048;
inline constexpr int64_t kLargestMaximum = 32768;

struct PoolingWindow {
  int64_t height = 1, width = 1;          // of the input
  int64_t out_height = 1, out_width = 1;  // as shape inference says: the last window may be partial
  int64_t kernel_h = 2, kernel_w = 2;
  int64_t stride_h = 2, stride_w = 2;
  int64_t pad_h = 0, pad_w = 0;
  bool average = false;
  bool count_padding = false;  // average only: always divide by the whole window

  bool is_square() const { return kernel_h == kernel_w && stride_h == stride_w && pad_h == pad_w; }
  int64_t elements() const { return kernel_h * kernel_w; }
  int64_t most_elements() const { return average ? kLargestAverage : kLargestMaximum; }
  // Gathered beat by beat (tiled_pooling.sv, overlapped_pooling.sv), for it is too large to be held; its errors leave row by row.
  bool is_large() const { return elements() > kLargestWindow || std::max(kernel_h, kernel_w) > kLongestWindow; }
  bool overlaps() const { return stride_h < kernel_h || stride_w < kernel_w; }
  // Of a place in the window, as the hardware keeps it behind a maximum.
  int place_bits() const;
};

struct PooledPlane {
  std::vector<int16_t> values;
  std::vector<int16_t> winners;  // max only: kernel row * kernel_w + kernel column
};

int32_t reciprocal_of(int64_t count);

PooledPlane pooled_forward(const PoolingWindow& window, int64_t channels, std::span<const int16_t> input, ArithmeticCounters& counters);
std::vector<int16_t> pooled_back(const PoolingWindow& window, int64_t channels, std::span<const int16_t> error, const PooledPlane& pooled,
                                 ArithmeticCounters& counters);

}  // namespace millrace
