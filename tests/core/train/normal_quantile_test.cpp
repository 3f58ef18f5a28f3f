#include "core/train/normal_quantile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace {
namespace {

// erfc(-z / sqrt(2)) / 2 is the probability below z: the quantile's inverse, by another road.
double probability_below(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2.0; }

TEST(NormalQuantile, InvertsTheDistributionFunction) {
  for (int i = -99; i <= 99; ++i) {
    const double p = 0.5 + i * 0.005;
    EXPECT_NEAR(probability_below(normal_quantile(p)) / p, 1, 1e-14) << p;
  }
  for (double p = 0x1p-33; p < 0.5; p *= 1.5) EXPECT_NEAR(probability_below(normal_quantile(p)) / p, 1, 1e-13) << p;
}

// Tabulated: the quantiles every statistics book lists.
TEST(NormalQuantile, KnownValues) {
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-15);
  EXPECT_NEAR(normal_quantile(0.84134474606854293), 1, 1e-15);
  EXPECT_NEAR(normal_quantile(0.0013498980316300945), -3, 1e-14);
}

TEST(NormalQuantile, IsOddAndRisesThroughTheSeamOfItsTwoBranches) {
  double before = normal_quantile(0x1p-33);
  for (int i = 1; i < 4096; ++i) {
    const double p = i * 0x1p-12;
    const double z = normal_quantile(p);
    ASSERT_GT(z, before) << p;
    ASSERT_NEAR(normal_quantile(1 - p), -z, 1e-13) << p;
    before = z;
  }
  EXPECT_NEAR(normal_quantile(0.075), normal_quantile(0.075 - 1e-12), 1e-10);
}

TEST(NormalQuantileDeathTest, BeyondItsReachIsAMistake) { EXPECT_DEATH(normal_quantile(1e-12), "out of reach"); }

}  // namespace
}  // namespace millrace
