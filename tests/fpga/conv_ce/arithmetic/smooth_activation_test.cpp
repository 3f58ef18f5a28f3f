// Sigmoid and tangent in fixed point beside the exact ones, for every number there is.
#include "fpga/conv_ce/arithmetic/smooth_activation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace {
namespace {

double exact(ActivationKind kind, double x) { return kind == ActivationKind::kTanh ? std::tanh(x) : 1 / (1 + std::exp(-x)); }

TEST(SmoothActivation, IsAsNearAsItsHeaderSays) {
  for (const ActivationKind kind : {ActivationKind::kSigmoid, ActivationKind::kTanh})
    for (int bits = 4; bits <= 15; ++bits) {
      const FixedFormat format{bits};
      const auto made = smooth_activation({.kind = kind}, format);
      ASSERT_TRUE(made);
      ArithmeticCounters counters;
      double farthest = 0;
      int16_t before = -32768;
      for (int32_t x = -32768; x < 32768; ++x) {
        const int16_t y = made->value_of(static_cast<int16_t>(x), counters);
        ASSERT_GE(y, before) << "falls at " << x << " of " << bits << " fraction bits";
        before = y;
        const double wanted = std::min(exact(kind, real_value(x, bits)), format.largest());
        farthest = std::max(farthest, std::fabs(real_value(y, bits) - wanted) - format.step() / 2);
      }
      EXPECT_LE(farthest, 6e-5) << bits << " fraction bits";
    }
}

TEST(SmoothActivation, GoesBackByTheSlopeOfItsOutput) {
  for (const ActivationKind kind : {ActivationKind::kSigmoid, ActivationKind::kTanh})
    for (const int bits : {4, 7, 11, 15}) {
      const auto made = smooth_activation({.kind = kind}, {bits});
      ASSERT_TRUE(made);
      ArithmeticCounters counters;
      std::vector<int16_t> x, error;
      for (int32_t element = -32768; element < 32768; element += 37) {
        x.push_back(static_cast<int16_t>(element));
        error.push_back(static_cast<int16_t>(element * 7919));
      }
      const std::vector<int16_t> y = smoothed(*made, x, counters), before = smooth_back(*made, y, error, counters);
      for (size_t i = 0; i < x.size(); ++i) {
        const double value = real_value(y[i], bits), slope = kind == ActivationKind::kTanh ? 1 - value * value : value - value * value;
        EXPECT_NEAR(before[i], error[i] * slope, 0.5 + std::fabs(error[i]) * 0x1p-16) << x[i] << " of " << bits;
      }
    }
}

TEST(SmoothActivation, IsForSmoothOnesAndFormatsThatHoldThem) {
  EXPECT_FALSE(smooth_activation({.kind = ActivationKind::kRelu}, {11}));
  EXPECT_FALSE(smooth_activation({.kind = ActivationKind::kLeakyRelu}, {11}));
  EXPECT_FALSE(smooth_activation({.kind = ActivationKind::kTanh}, {16}));
  EXPECT_FALSE(smooth_activation({.kind = ActivationKind::kSigmoid}, {3}));
}

}  // namespace
}  // namespace millrace
