#include "deploy/session/quantities.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "core/base/error.h"

namespace millrace {

double parse_duration(std::string_view text, std::string_view flag) {
  double seconds = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  bool good = at != end;
  while (good && at != end) {
    double amount = 0;
    const char* const begin = at;
    const auto [rest, reason] = std::from_chars(at, end, amount);
    good = reason == std::errc{} && amount >= 0 && std::isfinite(amount);
    if (!good) break;
    double unit = 1;
    at = rest;
    const bool whole_text = begin == text.data() && at == end;  // "90"; but what would "1h30" mean
    if (at == end)
      good = whole_text;
    else {
      if (*at == 'h')
        unit = 3600;
      else if (*at == 'm')
        unit = 60;
      else
        good = *at == 's';
      ++at;
    }
    seconds += amount * unit;
  }
  if (!good) fail(ErrorCode::kUsage, "{}: \"{}\" is not a time; write 90s, 15m, 3h or 1h30m", flag, text);
  constexpr double kTenYears = 10 * 365.25 * 86400;
  if (seconds > kTenYears) fail(ErrorCode::kUsage, "{}: \"{}\" is more than ten years; write less", flag, text);
  return seconds;
}

std::string bytes_text(int64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace millrace
