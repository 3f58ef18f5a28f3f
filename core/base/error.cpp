#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "core/base/exit_status.h"

namespace millrace {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage: return "usage";
    case ErrorCode::kInfeasible: return "infeasible";
    case ErrorCode::kMalformed: return "malformed";
    case ErrorCode::kMismatch: return "mismatch";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kNumeric: return "numeric";
    case ErrorCode::kStandstill: return "standstill";
    case ErrorCode::kIo: return "io";
  }
  return "unknown";
}

int exit_status_of(ErrorCode code) {
  if (code == ErrorCode::kUsage) return kExitUsage;
  if (code == ErrorCode::kInfeasible) return kExitInfeasible;
  if (code == ErrorCode::kTimeout) return kExitTimeout;
  return kExitFailed;
}

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)), full_(message_) {}

Error Error::within(std::string context) const {
  Error outer = *this;
  outer.full_ = std::move(context) + ": " + full_;
  return outer;
}

void fail_with(ErrorCode code, fmt::string_view format, fmt::format_args arguments) { throw Error(code, fmt::vformat(format, arguments)); }

namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = std::tolower(static_cast<unsigned char>(a[i - 1])) == std::tolower(static_cast<unsigned char>(b[j - 1]));
      const size_t substituted = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string suggestion(std::string_view given, const std::vector<std::string>& known) {
  if (known.empty()) return "";
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(given, a) < edit_distance(given, b);
  });
  const size_t distance = edit_distance(given, *nearest);
  if (distance <= std::max<size_t>(2, nearest->size() / 3)) return fmt::format("; did you mean \"{}\"?", *nearest);
  return fmt::format("; known: {}", fmt::join(known, ", "));
}

}  // namespace millrace
