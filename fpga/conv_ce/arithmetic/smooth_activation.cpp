#include "fpga/conv_ce/arithmetic/smooth_activation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

namespace {

constexpr int kLeastFractionBits = 4;

}  // namespace

bool is_smooth(const Activation& activation) { return !activation.slope_below_zero().has_value(); }

std::optional<SmoothActivation> smooth_activation(const Activation& activation, FixedFormat format) {
  // Another curve that has no table yet shall not pass for one of these.
  if (activation.kind != ActivationKind::kSigmoid && activation.kind != ActivationKind::kTanh) return std::nullopt;
  if (format.fraction_bits < kLeastFractionBits || format.fraction_bits > SmoothActivation::kFraction) return std::nullopt;
  SmoothActivation made;
  made.tangent = activation.kind == ActivationKind::kTanh;
  made.fraction_bits = format.fraction_bits;
  const auto entry = [&](size_t place) {
    const double x = std::ldexp(static_cast<double>(place), made.part_bits() - SmoothActivation::kFraction);
    const double y = made.tangent ? std::tanh(x) : 1 / (1 + std::exp(-x));
    return std::lround(std::ldexp(y, SmoothActivation::kFraction));
  };
  for (size_t place = 0; place < SmoothActivation::kEntries; ++place) {
    made.bases[place] = static_cast<uint16_t>(entry(place));
    made.slopes[place] = static_cast<uint16_t>(entry(place + 1) - entry(place));
  }
  return made;
}

int16_t SmoothActivation::value_of(int16_t x, ArithmeticCounters& counters) const {
  const int64_t end = (static_cast<int64_t>(kEntries) << part_bits()) - 1;
  const int64_t size = std::min(static_cast<int64_t>(std::abs(int32_t{x})) << (kFraction - fraction_bits), end);
  const auto place = to_size(size >> part_bits());
  const int64_t part = size & ((int64_t{1} << part_bits()) - 1);
  const int64_t y = bases[place] + ((slopes[place] * part + (int64_t{1} << (part_bits() - 1))) >> part_bits());
  const int64_t mirrored = x >= 0 ? y : tangent ? -y : (int64_t{1} << kFraction) - y;
  return rounded_to_element(mirrored, kFraction - fraction_bits, counters);
}

std::vector<int16_t> smoothed(const SmoothActivation& activation, std::span<const int16_t> x, ArithmeticCounters& counters) {
  std::vector<int16_t> y;
  y.reserve(x.size());
  for (const int16_t element : x) y.push_back(activation.value_of(element, counters));
  return y;
}

std::vector<int16_t> smooth_back(const SmoothActivation& activation, std::span<const int16_t> y, std::span<const int16_t> error,
                                 ArithmeticCounters& counters) {
  MILLRACE_CHECK(y.size() == error.size(), "{} outputs, {} errors", y.size(), error.size());
  const int bits = activation.fraction_bits, shift = 2 * bits - SmoothActivation::kFraction;
  std::vector<int16_t> before;
  before.reserve(error.size());
  for (size_t i = 0; i < error.size(); ++i) {
    const int64_t square = int64_t{y[i]} * y[i];
    const int64_t wide = (activation.tangent ? int64_t{1} << 2 * bits : int64_t{y[i]} << bits) - square;
    const int64_t slope = shift >= 0 ? shifted_to_nearest(wide, shift) : wide << -shift;
    before.push_back(rounded_to_element(error[i] * slope, SmoothActivation::kFraction, counters));
  }
  return before;
}

}  // namespace millrace
