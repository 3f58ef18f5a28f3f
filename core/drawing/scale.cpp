#include "core/drawing/scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/drawing/quantity.h"

namespace millrace {
namespace {

constexpr double kLeastPositive = 1e-300;
constexpr double kLargest = 1e300;
constexpr int kSteps = 5;

double finite_or(double value, double otherwise) { return std::isfinite(value) ? std::clamp(value, -kLargest, kLargest) : otherwise; }

}  // namespace

double round_step(double value) {
  if (!(value > kLeastPositive) || !std::isfinite(value)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

Scale Scale::of(const Axis& axis, const std::vector<double>& values) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const double value : values) {
    if (!std::isfinite(value) || (axis.logarithmic && value <= 0)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (least > most) least = most = axis.logarithmic ? 1 : 0;
  return {axis, least, most};
}

Scale::Scale(const Axis& axis, double least, double most) : logarithmic_(axis.logarithmic) {
  least_ = finite_or(axis.least.value_or(least), 0);
  most_ = finite_or(axis.most.value_or(most), 1);
  if (logarithmic_) {
    most_ = std::max(most_, kLeastPositive * 10);
    least_ = std::clamp(least_, std::max(kLeastPositive, most_ * 1e-15), most_);
    // Whole decades, unless the data stay within one or so.
    const bool wide = most_ / least_ > 30;
    if (!axis.least) least_ = std::max(std::pow(10.0, std::floor(std::log10(least_) + 1e-9)), wide ? 0 : least_ / 1.15);
    if (!axis.most) most_ = std::min(std::pow(10.0, std::ceil(std::log10(most_) - 1e-9)), wide ? kLargest : most_ * 1.15);
    if (most_ <= least_ * 1.0001) {
      least_ /= 2;
      most_ *= 2;
    }
    logarithmic_ticks(axis);
    return;
  }
  if (most_ < least_) std::swap(least_, most_);
  if (!axis.least && least_ > 0 && least_ < most_ * .4) least_ = 0;
  if (std::abs(least_) < kLeastPositive) least_ = 0;
  if (std::abs(most_) < kLeastPositive) most_ = 0;
  const double size = std::max(std::abs(most_), std::abs(least_));
  if (most_ - least_ <= size * 1e-12) {  // all the same: from there to zero
    if (!axis.least && most_ > 0)
      least_ = 0;
    else if (!axis.most && most_ < 0)
      most_ = 0;
    else
      most_ = least_ + (size > 0 ? size : 1);
  }
  const double step = round_step((most_ - least_) / kSteps);
  if (!axis.least) least_ = std::floor(least_ / step + 1e-9) * step;
  if (!axis.most) most_ = std::ceil(most_ / step - 1e-9) * step;
  linear_ticks(axis);
}

namespace {

// A unit that stands behind every tick leaves no place for a prefix: "1,000%", not "1k%".
std::string label_of(double value, const Axis& axis) {
  if (axis.suffix.empty()) return tick(value);
  return (std::abs(value) < 1000 ? tick(value) : counted(value)) + axis.suffix;
}

}  // namespace

void Scale::linear_ticks(const Axis& axis) {
  const double step = round_step((most_ - least_) / kSteps);
  const double first = std::ceil(least_ / step - 1e-9);
  for (int i = 0; i < 4 * kSteps; ++i) {
    double value = (first + i) * step;
    if (value > most_ + step * 1e-6) break;
    if (std::abs(value) < step * 1e-9) value = 0;
    ticks_.push_back({value, label_of(value, axis), false});
  }
}

void Scale::logarithmic_ticks(const Axis& axis) {
  const int first = static_cast<int>(std::floor(std::log10(least_) - 1e-9)), last = static_cast<int>(std::ceil(std::log10(most_) + 1e-9));
  const int every = std::max(1, (last - first) / 6);
  const bool within_two_decades = most_ / least_ < 120;
  for (int power = first; power <= last; ++power) {
    for (const int factor : {1, 2, 5}) {
      if (factor != 1 && !within_two_decades) continue;
      if (factor == 1 && (power - first) % every != 0) continue;
      const double value = factor * std::pow(10.0, power);
      if (value < least_ * (1 - 1e-9) || value > most_ * (1 + 1e-9)) continue;
      ticks_.push_back({value, label_of(value, axis), factor != 1});
    }
  }
}

double Scale::position(double value) const {
  if (!std::isfinite(value) || (logarithmic_ && value <= 0)) return -1;
  const double share = logarithmic_ ? std::log(value / least_) / std::log(most_ / least_) : (value - least_) / (most_ - least_);
  return std::clamp(share, -10.0, 10.0);
}

bool Scale::shows(double value) const {
  if (!std::isfinite(value) || (logarithmic_ && value <= 0)) return false;
  const double share = position(value);
  return share >= -1e-9 && share <= 1 + 1e-9;
}

}  // namespace millrace
