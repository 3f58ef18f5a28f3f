// A batch norm that is trained with running statistics, in fixed point: its way back, and the sums that the next statistics are made of.
//
//   const FoldedNormalisation folded = folded_normalisation(statistics, sum_bias, formats.sum, counters);     // forward: after_sum.h
//   const RunningNorm norm = running_norm(statistics, averages, sum_bias, folded.shift, formats.sum, formats.error, counters);
//   const std::vector<int16_t> raw = error_through_running_norm(norm, folded.scale, folded.shift, channels, x, error, sums, counters);
//
// x is the raw sum, as it was given forward. With the statistics of one version, as constants, forward is a scale and an offset. Back,
//   error of x = (e * scale - (x - centre) * slope * 2^-slope_shift - level) * 2^-shift, rounded once,
// which is scale * (e - average error - x-hat * average projection): core/plan's page says why. The product with the slope is rounded down
// before the difference, of which it is a step; the level has 32 bits. centre is the mean in steps of x.
// Sums are whole numbers of 64 bits, over all samples of a mini-batch: of x - centre, of its squares, of e, and of e * (x - centre).
// Slopes and levels too large for their bits saturate, and are counted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/after_sum.h"

namespace millrace {

struct RunningNorm {  // per channel
  std::vector<int16_t> centre, slope;
  std::vector<int32_t> level;
  int slope_shift = 0;  // 0 to 31
};

// What the statistics of the update before say of errors.
struct ErrorAverages {
  std::span<const double> error, projection;
};

struct NormSums {  // per channel
  std::vector<int64_t> distances, squares, errors, products;
  explicit NormSums(int64_t channels = 0)
      : distances(to_size(channels)), squares(to_size(channels)), errors(to_size(channels)), products(to_size(channels)) {}
};

// `shift`: of the scale forward.
RunningNorm running_norm(const ConstantNormalisation& statistics, const ErrorAverages& averages, std::span<const double> sum_bias,
                         int shift, FixedFormat sum, FixedFormat error, ArithmeticCounters& counters);

std::vector<int16_t> error_through_running_norm(const RunningNorm& norm, std::span<const int16_t> scale, int shift, int64_t channels,
                                                std::span<const int16_t> x, std::span<const int16_t> error, NormSums& sums,
                                                ArithmeticCounters& counters);

}  // namespace millrace
