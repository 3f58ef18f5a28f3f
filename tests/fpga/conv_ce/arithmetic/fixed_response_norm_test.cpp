// The response norm in fixed point beside the exact one, as near as its header says.
#include "fpga/conv_ce/arithmetic/fixed_response_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace millrace {
namespace {

constexpr int64_t kChannels = 9, kPlane = 50;
constexpr FixedFormat kFormat{11};

struct Exact {
  std::vector<double> y, error;
};

double base_of(const LocalResponseNorm& norm, const std::vector<double>& x, int64_t c, int64_t i) {
  double squares = 0;
  for (int64_t j = std::max<int64_t>(c - norm.size / 2, 0); j <= std::min(c + norm.size / 2, kChannels - 1); ++j)
    squares += x[static_cast<size_t>(j * kPlane + i)] * x[static_cast<size_t>(j * kPlane + i)];
  return norm.k + norm.alpha / static_cast<double>(norm.size) * squares;
}

Exact exact(const LocalResponseNorm& norm, const std::vector<double>& x, const std::vector<double>& e) {
  Exact found;
  for (int64_t c = 0; c < kChannels; ++c)
    for (int64_t i = 0; i < kPlane; ++i) {
      const auto at = [i](int64_t channel) { return static_cast<size_t>(channel * kPlane + i); };
      const double p = std::pow(base_of(norm, x, c, i), -norm.beta);
      double sum = 0;
      for (int64_t j = std::max<int64_t>(c - norm.size / 2, 0); j <= std::min(c + norm.size / 2, kChannels - 1); ++j)
        sum += e[at(j)] * x[at(j)] * std::pow(base_of(norm, x, j, i), -norm.beta - 1);
      found.y.push_back(x[at(c)] * p);
      found.error.push_back(e[at(c)] * p - 2 * norm.alpha * norm.beta / static_cast<double>(norm.size) * x[at(c)] * sum);
    }
  return found;
}

TEST(FixedResponseNorm, IsAsNearAsItSays) {
  std::mt19937_64 random(3);
  for (const LocalResponseNorm& norm :
       {LocalResponseNorm{.size = 5, .alpha = 5e-4, .beta = 0.75, .k = 2}, LocalResponseNorm{.size = 5, .alpha = 0.5, .beta = 0.75, .k = 2},
        LocalResponseNorm{.size = 3, .alpha = 1e-4, .beta = 0.5, .k = 1}}) {
    const std::optional<FixedResponseNorm> fixed = fixed_response_norm(norm, kFormat);
    ASSERT_TRUE(fixed);
    std::vector<int16_t> x, e;
    std::vector<double> x_real, e_real;
    for (int64_t i = 0; i < kChannels * kPlane; ++i) {
      x.push_back(static_cast<int16_t>(random() % 20001) - 10000);
      e.push_back(static_cast<int16_t>(random() % 20001) - 10000);
      x_real.push_back(real_value(x.back(), kFormat.fraction_bits));
      e_real.push_back(e.back());
    }
    const Exact wanted = exact(norm, x_real, e_real);
    ArithmeticCounters counters;
    const std::vector<int16_t> y = responded(*fixed, kChannels, x, counters), error = response_back(*fixed, kChannels, x, e, counters);
    const double part = (norm.beta + 1) / 1024;
    for (size_t i = 0; i < x.size(); ++i) {
      const double y_exact = std::ldexp(wanted.y[i], kFormat.fraction_bits);
      EXPECT_NEAR(y[i], y_exact, 1.5 + part * std::fabs(y_exact)) << "alpha " << norm.alpha << " at " << i;
      EXPECT_NEAR(error[i], wanted.error[i], 3 + part * 2 * 10000) << "alpha " << norm.alpha << " at " << i;
    }
  }
}

TEST(FixedResponseNorm, RefusesWhatHasNoTable) {
  EXPECT_FALSE(fixed_response_norm({.size = 4}, kFormat));
  EXPECT_FALSE(fixed_response_norm({.size = 5, .k = 0}, kFormat));
  EXPECT_FALSE(fixed_response_norm({.size = 5, .alpha = 1e9, .beta = 0.75, .k = 1}, kFormat));
}

}  // namespace
}  // namespace millrace
