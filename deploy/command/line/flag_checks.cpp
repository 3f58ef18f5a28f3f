#include "deploy/command/line/flag_checks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>

#include "core/base/error.h"

namespace millrace {
namespace {

// Empty when all is well, as CLI11 wants it.
std::string whole_complaint(const std::string& text, uint64_t least, uint64_t most) {
  const bool negative = text.starts_with("-");
  const char* const begin = text.data() + (negative ? 1 : 0);
  const char* const end = text.data() + text.size();
  uint64_t value = 0;
  const auto [rest, reason] = std::from_chars(begin, end, value);
  if (reason == std::errc::invalid_argument || rest != end) return fmt::format("\"{}\" is not a whole number", text);
  if ((negative && value > 0) || (reason == std::errc{} && value < least)) return fmt::format("{} is below {}", text, least);
  if (reason != std::errc{} || value > most) return fmt::format("{} is above {}", text, most);
  return "";
}

std::string real_complaint(const std::string& text, Least least) {
  double value = 0;
  const auto [rest, reason] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (reason == std::errc::invalid_argument || rest != text.data() + text.size()) return fmt::format("\"{}\" is not a number", text);
  if (reason != std::errc{} || !std::isfinite(value)) return fmt::format("{} is not a finite number", text);
  if (value < 0) return fmt::format("{} is below 0", text);
  if (value == 0 && least == Least::kAboveZero) return fmt::format("{} is not above 0", text);
  return "";
}

}  // namespace

int64_t time_chunks_from(const std::string& words) {
  if (words == "auto") return 0;
  int64_t chunks = 0;
  const auto [rest, reason] = std::from_chars(words.data(), words.data() + words.size(), chunks);
  if (reason != std::errc{} || rest != words.data() + words.size() || chunks < 1)
    fail(ErrorCode::kUsage, "--time-chunks {}: give a number of parts from 1 on, or auto", words);
  return chunks;
}

void whole(CLI::Option* option, uint64_t least, uint64_t most) {
  option->check([least, most](const std::string& text) { return whole_complaint(text, least, most); });
}

void not_empty(CLI::Option* option) {
  option->check([](const std::string& text) { return std::string(text.empty() ? "\"\" names nothing" : ""); });
}

void real(CLI::Option* option, Least least) {
  option->check([least](const std::string& text) { return real_complaint(text, least); });
}

}  // namespace millrace
