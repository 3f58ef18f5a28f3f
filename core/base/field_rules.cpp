#include "core/base/field_rules.h"

#include <algorithm>
#include <cmath>

namespace millrace::text {
namespace {

constexpr size_t kMostCharacters = 4096;

// Well-formed UTF-8 without control characters: it can be printed, and put into JSON.
bool is_readable(std::string_view word) {
  for (size_t i = 0; i < word.size();) {
    const auto byte = [&](size_t at) { return at < word.size() ? static_cast<unsigned char>(word[at]) : 0U; };
    const unsigned first = byte(i);
    if (first < 0x20 || first == 0x7f) return false;
    const size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length == 0) return false;
    for (size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xc0U) != 0x80U) return false;
    // Longer than needed, surrogates, beyond U+10FFFF.
    if (first == 0xe0 && byte(i + 1) < 0xa0) return false;
    if (first == 0xed && byte(i + 1) > 0x9f) return false;
    if (first == 0xf0 && byte(i + 1) < 0x90) return false;
    if (first == 0xf4 && byte(i + 1) > 0x8f) return false;
    i += length;
  }
  return true;
}

// For messages: whatever the document holds, the terminal gets one short readable line.
std::string shown(std::string_view word) {
  constexpr size_t kMostShown = 80;
  std::string text;
  for (const char c : word.substr(0, kMostShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return word.size() > kMostShown ? text + "..." : text;
}

}  // namespace

std::string Path::text() const {
  std::string prefix;
  if (parent_ != nullptr) {
    prefix = parent_->text();
    if (!prefix.empty()) prefix += parent_->parent_ == nullptr ? ": " : ".";
  }
  prefix += name_;
  return index_ < 0 ? prefix : fmt::format("{}[{}]", prefix, index_);
}

void Path::fail_here(const std::string& what) const {
  const std::string place = text();
  throw Error(code_, place.empty() ? what : fmt::format("{}: {}", place, what));
}

void check_value(int64_t value, const Integers& rule, const Path& where) {
  if (value < rule.least) {
    if (rule.least == 0) where.fail("{} must not be negative", value);
    if (rule.least == 1) where.fail("{} must be positive", value);
    where.fail("{} must be at least {}", value, rule.least);
  }
  if (value > rule.most) where.fail("{} must be at most {}", value, rule.most);
}

void check_value(double value, const Reals& rule, const Path& where) {
  if (!std::isfinite(value)) where.fail("{} must be a finite number", value);
  const bool too_small = rule.least_excluded ? value <= rule.least : value < rule.least;
  if (too_small) {
    if (value <= 0 && (rule.least > 0 || rule.least_excluded)) where.fail("{} must be positive", value);
    if (rule.least == 0) where.fail("{} must not be negative", value);
    where.fail("{} must be at least {}", value, rule.least);
  }
  if (rule.most_excluded && value >= rule.most) where.fail("{} must be below {}", value, rule.most);
  if (value > rule.most) where.fail("{} must be at most {}", value, rule.most);
}

void check_value(const std::string& value, Words rule, const Path& where) {
  if (value.size() > kMostCharacters)
    where.fail("\"{}\" has {} characters; at most {} are allowed", shown(value), value.size(), kMostCharacters);
  if (value.empty() && rule != Words::kFree) where.fail("\"\" must not be empty");
  if (rule == Words::kName && !is_name(value)) where.fail("\"{}\" must be made of letters, digits and any of _ . - /", shown(value));
  if (!is_readable(value)) where.fail("\"{}\" must be readable UTF-8 text", shown(value));
}

bool is_name(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '/';
  });
}

}  // namespace millrace::text
