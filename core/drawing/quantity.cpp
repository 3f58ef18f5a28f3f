#include "core/drawing/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "core/base/index.h"

namespace millrace {
namespace {

struct Scaled {
  double value = 0;
  std::string_view prefix;
};

constexpr std::array<std::string_view, 11> kPrefixes = {"p", "n", "\xC2\xB5", "m", "", "k", "M", "G", "T", "P", "E"};
constexpr int kNoPrefix = 4;

double rounded(double value, int digits) { return std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr); }

Scaled scaled(double value, int lowest, int digits) {
  const double magnitude = std::abs(rounded(value, digits));
  if (magnitude == 0) return {0, ""};
  const int steps = std::clamp(static_cast<int>(std::floor(std::log10(magnitude) / 3 + 1e-9)), lowest - kNoPrefix, 6);
  return {value / std::pow(1000.0, steps), item(kPrefixes, steps + kNoPrefix)};
}

std::string grouped_digits(std::string_view digits) {
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::string separated(int64_t value) { return grouped_digits(std::to_string(value)); }

std::string counted(double value) {
  return std::isfinite(value) && std::abs(value) < 1e15 ? separated(std::llround(value)) : significant(value);
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return std::string(kNotKnown);
  if (value == 0) return "0";
  value = std::abs(value) < 1000 ? rounded(value, digits) : std::round(value);
  const double magnitude = std::abs(value);
  if (magnitude < 1e-4 || magnitude >= 1e15) return fmt::format("{:.{}e}", value, digits - 1);
  const int before = static_cast<int>(std::floor(std::log10(magnitude) + 1e-12)) + 1;
  const int decimals = std::max(0, digits - before);
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return decimals == 0 ? grouped_digits(text) : text;
}

std::string quantity(double value, std::string_view unit, int digits) {
  if (!std::isfinite(value)) return std::string(kNotKnown);
  const bool small = unit == "s" || unit == "W" || unit == "J";
  const Scaled scale = scaled(value, small ? 0 : kNoPrefix, digits);
  return fmt::format("{} {}{}", significant(scale.value, digits), scale.prefix, unit);
}

std::string plain(double value, std::string_view unit, int digits) {
  if (!std::isfinite(value)) return std::string(kNotKnown);
  return fmt::format("{} {}", significant(value, digits), unit);
}

std::string duration(double seconds, int digits) {
  const double magnitude = std::abs(seconds);
  if (magnitude >= 3600) return plain(seconds / 3600, "h", digits);
  if (magnitude >= 120) return plain(seconds / 60, "min", digits);
  if (magnitude >= 1) return plain(seconds, "s", digits);
  return quantity(seconds, "s", digits);
}

std::string percent(double share) {
  const double value = share * 100;
  if (!std::isfinite(value)) return std::string(kNotKnown);
  if (value == 0) return "0%";
  if (value > 0 && value < 0.05) return "<0.1%";
  return std::abs(value) >= 99.95 ? fmt::format("{:.0f}%", value) : fmt::format("{:.1f}%", value);
}

std::string tick(double value) {
  if (!std::isfinite(value)) return "";
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude < 1e-3) return fmt::format("{:.3g}", value);
  const Scaled scale = magnitude < 1000 ? Scaled{value, ""} : scaled(value, kNoPrefix, 4);
  return fmt::format("{:.4g}{}", scale.value, scale.prefix);
}

}  // namespace millrace
