#include "partitioner/profile/profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "partitioner/profile/profile.h"

namespace millrace {
namespace {

constexpr size_t kShown = 60;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

// The run of digits at `at` without leading zeros; `at` moves behind it.
std::string_view digits_at(std::string_view text, size_t& at) {
  const size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  std::string_view digits = text.substr(begin, at - begin);
  const size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? std::string_view() : digits.substr(first);
}

}  // namespace

LineReader::LineReader(std::string_view text, std::string_view origin) : rest_(text), origin_(origin) {
  if (text.size() > kMostProfileBytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes, a profile has at most {}", origin, text.size(), kMostProfileBytes);
}

bool LineReader::next() {
  while (!rest_.empty()) {
    const size_t end = rest_.find('\n');
    complete_ = end != std::string_view::npos;
    line_ = rest_.substr(0, end);
    rest_ = complete_ ? rest_.substr(end + 1) : std::string_view();
    ++number_;
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    if (!trimmed(line_).empty()) return true;
  }
  return false;
}

double LineReader::number(std::string_view text, std::string_view field, double most) const {
  const std::string_view digits = trimmed(text);
  double value = 0;
  const auto [rest, reason] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (reason == std::errc::invalid_argument || rest != digits.data() + digits.size())
    fail(ErrorCode::kMalformed, "{}: {} is {}, which is not a number", where(), field, in_quotes(text));
  if (reason == std::errc::result_out_of_range || !std::isfinite(value))
    fail(ErrorCode::kMalformed, "{}: {} is {}, which is not a finite number", where(), field, in_quotes(text));
  if (value < 0) fail(ErrorCode::kMalformed, "{}: {} is {}, which is below 0", where(), field, in_quotes(text));
  if (value > most) fail(ErrorCode::kMalformed, "{}: {} is {}, at most {:g} is believed", where(), field, in_quotes(text), most);
  return value == 0 ? 0 : value;  // no -0
}

double LineReader::whole_number(std::string_view text, std::string_view field, double most) const {
  const double value = number(text, field, most);
  if (value != std::floor(value)) fail(ErrorCode::kMalformed, "{}: {} is {}, which is not a whole number", where(), field, in_quotes(text));
  return value;
}

std::string_view LineReader::name(std::string_view text) const {
  const std::string_view found = trimmed(text);
  if (found.empty()) fail(ErrorCode::kMalformed, "{}: the name is empty in {}", where(), in_quotes(line_));
  if (std::any_of(found.begin(), found.end(), is_control))
    fail(ErrorCode::kMalformed, "{}: the name {} has a control character in it", where(), in_quotes(found));
  return found;
}

std::string LineReader::where() const { return where(number_); }
std::string LineReader::where(int64_t line) const { return fmt::format("{}:{}", origin_, line); }

std::string in_quotes(std::string_view text) {
  std::string shown(text.substr(0, kShown));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return fmt::format("\"{}{}\"", shown, text.size() > kShown ? "..." : "");
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view left = digits_at(a, i);
      const std::string_view right = digits_at(b, j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i, ++j;
    }
  }
  if (i < a.size() || j < b.size()) return i == a.size();
  return a < b;  // node01 and node1
}

}  // namespace millrace
