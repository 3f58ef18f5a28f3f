#include "fpga/conv_ce/arithmetic/running_norm.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

RunningNorm running_norm(const ConstantNormalisation& statistics, const ErrorAverages& averages, std::span<const double> sum_bias,
                         int shift, FixedFormat sum, FixedFormat error, ArithmeticCounters& counters) {
  const size_t channels = statistics.weight.size();
  MILLRACE_CHECK(averages.error.size() == channels && averages.projection.size() == channels && sum_bias.size() == channels,
                 "a batch norm of {} channels with {} average errors, {} projections, {} biases", channels, averages.error.size(),
                 averages.projection.size(), sum_bias.size());
  // In steps of an error of x, and of those per step of x.
  const int level_bits = error.fraction_bits + shift, slope_bits = level_bits - sum.fraction_bits;
  constexpr int kMostSlopeShift = 31;
  std::vector<double> slopes;
  double largest = 0;
  for (size_t c = 0; c < channels; ++c) {
    const double inverse = 1 / std::sqrt(statistics.variance[c] + statistics.epsilon);
    slopes.push_back(std::ldexp(statistics.weight[c] * inverse * inverse * averages.projection[c], slope_bits));
    largest = std::max(largest, std::fabs(slopes.back()));
  }
  RunningNorm norm;
  norm.slope_shift = kMostSlopeShift;
  while (norm.slope_shift > 0 && std::ldexp(largest, norm.slope_shift) > 32767) --norm.slope_shift;
  constexpr double kMostLevel = 2147483647.0;
  for (size_t c = 0; c < channels; ++c) {
    norm.centre.push_back(quantized(statistics.mean[c] - sum_bias[c], sum, counters));
    norm.slope.push_back(quantized(slopes[c], FixedFormat{norm.slope_shift}, counters));
    const double inverse = 1 / std::sqrt(statistics.variance[c] + statistics.epsilon);
    const double beside = std::ldexp(real_value(norm.centre[c], sum.fraction_bits) - statistics.mean[c] + sum_bias[c], sum.fraction_bits);
    const double level = std::ldexp(statistics.weight[c] * inverse * averages.error[c], level_bits) + slopes[c] * beside;
    norm.level.push_back(static_cast<int32_t>(std::llrint(std::isnan(level) ? 0.0 : std::clamp(level, -kMostLevel - 1, kMostLevel))));
  }
  return norm;
}

std::vector<int16_t> error_through_running_norm(const RunningNorm& norm, std::span<const int16_t> scale, int shift, int64_t channels,
                                                std::span<const int16_t> x, std::span<const int16_t> error, NormSums& sums,
                                                ArithmeticCounters& counters) {
  const auto count = to_size(channels);
  MILLRACE_CHECK(count > 0 && x.size() == error.size() && x.size() % count == 0 && norm.centre.size() == count && scale.size() == count &&
                     sums.distances.size() == count,
                 "{} sums, {} errors, {} channels, {} centres, {} scales", x.size(), error.size(), channels, norm.centre.size(),
                 scale.size());
  const size_t plane = x.size() / count;
  std::vector<int16_t> before(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / plane;
    const int64_t distance = int64_t{x[i]} - norm.centre[c];
    sums.distances[c] += distance;
    sums.squares[c] += distance * distance;
    sums.errors[c] += error[i];
    sums.products[c] += error[i] * distance;
    const int64_t expected = ((distance * norm.slope[c]) >> norm.slope_shift) + norm.level[c];
    before[i] = rounded_to_element(int64_t{error[i]} * scale[c] - expected, shift, counters);
  }
  return before;
}

}  // namespace millrace
