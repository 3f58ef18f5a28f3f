#include "core/train/normal_quantile.h"

#include <array>
#include <cmath>

#include "core/base/check.h"

namespace millrace {
namespace {

using Polynomial = std::array<double, 8>;  // highest power first

double value_at(const Polynomial& coefficients, double r) {
  double value = coefficients[0];
  for (size_t i = 1; i < coefficients.size(); ++i) value = value * r + coefficients[i];
  return value;
}

// The paper's tables: around the middle (a, b) and in the tails (c, d).
constexpr Polynomial kMiddleAbove = {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
                                     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080};
constexpr Polynomial kMiddleBelow = {5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
                                     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0};
constexpr Polynomial kTailAbove = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 0.241780725177450611770, 1.27045825245236838258,
                                   3.64784832476320460504,    5.76949722146069140550,    4.63033784615654529590,  1.42343711074968357734};
constexpr Polynomial kTailBelow = {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 0.148103976427480074590,
                                   0.689767334985100004550,   1.67638483018380384940,    2.05319162663775882187,    1.0};
constexpr double kMiddle = 0.425;          // |p - 1/2| of the middle's edge
constexpr double kTailReach = 5;           // sqrt(-log p) of the tail's end
constexpr double kMiddleShift = 0.180625;  // kMiddle squared
constexpr double kTailShift = 1.6;

}  // namespace

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= kMiddle) {
    const double r = kMiddleShift - q * q;
    return q * value_at(kMiddleAbove, r) / value_at(kMiddleBelow, r);
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1.0 - p));
  MILLRACE_CHECK(r <= kTailReach, "the normal quantile of {} is out of reach", p);
  const double z = value_at(kTailAbove, r - kTailShift) / value_at(kTailBelow, r - kTailShift);
  return q < 0 ? -z : z;
}

}  // namespace millrace
