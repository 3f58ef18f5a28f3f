#include "fpga/common/arithmetic/fixed_point.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/base/random.h"

namespace millrace {

TEST(FixedPoint, ShiftsRoundToNearestWithTiesToEven) {
  for (int64_t value = -300; value <= 300; ++value)
    for (int shift = 0; shift <= 6; ++shift)
      ASSERT_EQ(shifted_to_nearest(value, shift), static_cast<int64_t>(std::nearbyint(std::ldexp(static_cast<double>(value), -shift))))
          << value << " by " << shift;
  constexpr int64_t kLarge = int64_t{1} << 46;
  EXPECT_EQ(shifted_to_nearest(kLarge + 1, 1), kLarge / 2);
  EXPECT_EQ(shifted_to_nearest(std::numeric_limits<int32_t>::min(), 31), -1);
}

TEST(FixedPoint, SaturationKeepsWhatFits) {
  EXPECT_EQ(saturated(32767), 32767);
  EXPECT_EQ(saturated(32768), 32767);
  EXPECT_EQ(saturated(-32769), -32768);
  EXPECT_EQ(saturated(200, 8), 127);
  EXPECT_EQ(saturated(-200, 8), -128);
}

TEST(FixedPoint, AccumulatorsWrapLikeThirtyTwoBits) {
  EXPECT_EQ(wrapped(int64_t{1} << 31), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(wrapped((int64_t{1} << 32) + 5), 5);
  EXPECT_EQ(wrapped(-1), -1);
}

TEST(FixedPoint, CountersSeeEveryRounding) {
  ArithmeticCounters counters;
  EXPECT_EQ(rounded_to_element(5, 2, counters), 1);  // 1.25: a quarter lost
  EXPECT_EQ(rounded_to_element(6, 2, counters), 2);  // 1.5: a half
  EXPECT_EQ(rounded_to_element(1 << 20, 2, counters), 32767);
  EXPECT_EQ(rounded_to_element(1000, 0, counters, 8), 127);
  EXPECT_EQ(counters.rounded, 4);
  EXPECT_EQ(counters.saturated, 2);
  EXPECT_DOUBLE_EQ(counters.largest_error, 0.5);
  EXPECT_DOUBLE_EQ(counters.error_squares, 0.0625 + 0.25);
  EXPECT_DOUBLE_EQ(counters.saturated_fraction(), 0.5);
}

TEST(FixedPoint, RealNumbersBecomeTheNearestElement) {
  ArithmeticCounters counters;
  const FixedFormat format{12};
  EXPECT_EQ(quantized(0.5, format, counters), 2048);
  EXPECT_EQ(quantized(-8.0, format, counters), -32768);
  EXPECT_EQ(counters.saturated, 0);
  EXPECT_EQ(quantized(8.0, format, counters), 32767);
  EXPECT_EQ(quantized(std::numeric_limits<double>::infinity(), format, counters), 32767);
  EXPECT_EQ(quantized(-std::numeric_limits<double>::infinity(), format, counters), -32768);
  EXPECT_EQ(quantized(std::numeric_limits<double>::quiet_NaN(), format, counters), 0);
  EXPECT_EQ(counters.saturated, 4);
  EXPECT_DOUBLE_EQ(real_value(2048, 12), 0.5);
}

TEST(FixedPoint, StochasticRoundingKeepsTheMean) {
  ArithmeticCounters counters;
  const FixedFormat format{10};
  const Philox draw(3, stream_id("test"));
  const double value = 0.3 * format.step() + 5 * format.step();
  double sum = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const int16_t element = stochastically_rounded(value, format, draw.bits(static_cast<uint64_t>(i)), counters);
    ASSERT_TRUE(element == 5 || element == 6);
    sum += element;
  }
  EXPECT_NEAR(sum / kDraws, 5.3, 4 * std::sqrt(0.21 / kDraws));
  EXPECT_EQ(stochastically_rounded(7 * format.step(), format, 0xffffffffU, counters), 7) << "what fits exactly never moves";
  EXPECT_EQ(stochastically_rounded(-7 * format.step(), format, 0xffffffffU, counters), -7);
  EXPECT_EQ(stochastically_rounded(1e30, format, 0, counters), 32767);
}

TEST(FixedPoint, TheMostPreciseFormatThatHolds) {
  EXPECT_EQ(format_that_holds(1.0).fraction_bits, 14);
  EXPECT_EQ(format_that_holds(0.99996).fraction_bits, 15);
  EXPECT_EQ(format_that_holds(32767).fraction_bits, 0);
  EXPECT_EQ(format_that_holds(1e30).fraction_bits, 0);
  EXPECT_EQ(format_that_holds(0).fraction_bits, kMostFractionBits);
  EXPECT_EQ(format_that_holds(std::numeric_limits<double>::quiet_NaN()).fraction_bits, kMostFractionBits);
}

}  // namespace millrace
