// Batch norms with running statistics in fixed point: within a step of the real arithmetic, and sums that are exact.
#include "fpga/conv_ce/arithmetic/running_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"

namespace millrace {
namespace {

constexpr FixedFormat kSum{11}, kError{14};

struct Norm {
  std::vector<double> weight, bias, mean, variance, error, projection, sum_bias;
  ConstantNormalisation statistics() const { return {.weight = weight, .bias = bias, .mean = mean, .variance = variance}; }
};

Norm random_norm(std::mt19937_64& random, size_t channels) {
  std::uniform_real_distribution<double> unit(-1, 1);
  Norm norm;
  for (size_t c = 0; c < channels; ++c) {
    norm.weight.push_back(unit(random) * 2);
    norm.bias.push_back(unit(random));
    norm.mean.push_back(unit(random));
    norm.variance.push_back(0.1 + 2 * std::fabs(unit(random)));
    norm.error.push_back(unit(random) * 0.02);
    norm.projection.push_back(unit(random) * 0.02);
    norm.sum_bias.push_back(unit(random) * 0.3);
  }
  return norm;
}

TEST(RunningNorm, ErrorsGoBackWithinAStep) {
  std::mt19937_64 random(5);
  ArithmeticCounters counters;
  for (int round = 0; round < 20; ++round) {
    const size_t channels = 6, plane = 10;
    const Norm norm = random_norm(random, channels);
    const FoldedNormalisation folded = folded_normalisation(norm.statistics(), norm.sum_bias, kSum, counters);
    const RunningNorm fixed =
        running_norm(norm.statistics(), {norm.error, norm.projection}, norm.sum_bias, folded.shift, kSum, kError, counters);
    const std::vector<int16_t> x = random_elements(random, channels * plane, 13), error = random_elements(random, channels * plane, 12);
    NormSums sums(channels);
    const std::vector<int16_t> before = error_through_running_norm(fixed, folded.scale, folded.shift, channels, x, error, sums, counters);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i / plane;
      const double inverse = 1 / std::sqrt(norm.variance[c] + 1e-5);
      const double normalised = (real_value(x[i], kSum.fraction_bits) + norm.sum_bias[c] - norm.mean[c]) * inverse;
      const double expected =
          norm.weight[c] * inverse * (real_value(error[i], kError.fraction_bits) - norm.error[c] - normalised * norm.projection[c]);
      // Half a step, and what the scale's rounding makes of eleven bits.
      EXPECT_NEAR(std::ldexp(expected, kError.fraction_bits), before[i], 0.5 + std::ldexp(2048.0, -folded.shift) + 0.1) << i;
    }
  }
  EXPECT_EQ(counters.saturated, 0);
}

TEST(RunningNorm, SumsAreWholeAndHoldSixtyFourBits) {
  RunningNorm norm;
  norm.centre = {-32768};
  norm.slope = {0};
  norm.level = {0};
  const std::vector<int16_t> scale = {1}, x(1000, 32767), error(1000, -32768);
  NormSums sums(1);
  ArithmeticCounters counters;
  for (int sample = 0; sample < 2000; ++sample) error_through_running_norm(norm, scale, 0, 1, x, error, sums, counters);
  constexpr int64_t kCount = 2'000'000;
  EXPECT_EQ(sums.distances[0], kCount * 65535);
  EXPECT_EQ(sums.squares[0], kCount * 65535 * 65535);
  EXPECT_EQ(sums.errors[0], kCount * -32768);
  EXPECT_EQ(sums.products[0], kCount * 65535 * -32768);
}

// A fresh network's norm: mean 0, variance 1, no averages. Errors go back as through a scale of one, and nothing saturates.
TEST(RunningNorm, AFreshNormSaturatesNothing) {
  const std::vector<double> ones = {1}, zeros = {0};
  const ConstantNormalisation fresh{.weight = ones, .bias = zeros, .mean = zeros, .variance = ones};
  ArithmeticCounters counters;
  const FoldedNormalisation folded = folded_normalisation(fresh, zeros, kSum, counters);
  const RunningNorm norm = running_norm(fresh, {zeros, zeros}, zeros, folded.shift, kSum, kError, counters);
  NormSums sums(1);
  const std::vector<int16_t> x = {-32768, 32767, 5}, error = {-32768, 32767, 5};
  const std::vector<int16_t> before = error_through_running_norm(norm, folded.scale, folded.shift, 1, x, error, sums, counters);
  EXPECT_EQ(counters.saturated, 0);
  EXPECT_NEAR(before[0], -32768, 1);
  EXPECT_NEAR(before[1], 32767, 1);
  EXPECT_EQ(before[2], 5);
}

}  // namespace
}  // namespace millrace
