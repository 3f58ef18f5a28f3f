#include "core/data/name_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/data/data_name.h"

namespace millrace {

NameSettings::NameSettings(std::string_view arguments, std::string_view what, const std::vector<std::string>& known, std::string_view form)
    : what_(what), form_(form) {
  const std::vector<std::string_view> parts = split_name(arguments, ',');
  path_ = parts.front();
  if (path_.empty()) fail(ErrorCode::kUsage, "data \"{}\": the path is missing; the form is {}", what_, form_);
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    const std::string name(parts[i].substr(0, equals));
    if (std::ranges::find(known, name) == known.end())
      fail(ErrorCode::kUsage, "data \"{}\": setting \"{}\" is not known{}", what_, name, suggestion(name, known));
    if (equals == std::string_view::npos) refuse(name, "a value behind =");
    if (!values_.emplace(name, parts[i].substr(equals + 1)).second)
      fail(ErrorCode::kUsage, "data \"{}\": setting \"{}\" is given twice", what_, name);
  }
}

const std::string* NameSettings::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void NameSettings::refuse(const std::string& name, std::string_view expected) const {
  const std::string* given = find(name);
  fail(ErrorCode::kUsage, "data \"{}\": {} is {}, expected {}; the form is {}", what_, name,
       given == nullptr ? "missing" : fmt::format("\"{}\"", *given), expected, form_);
}

int64_t NameSettings::whole(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const {
  const std::string* given = find(name);
  if (given == nullptr) return otherwise;
  int64_t value = 0;
  const auto [end, reason] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (reason != std::errc{} || end != given->data() + given->size() || value < least || value > most)
    refuse(name, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

double NameSettings::number(const std::string& name, double otherwise, double least, double most) const {
  const std::string* given = find(name);
  if (given == nullptr) return otherwise;
  double value = 0;
  const auto [end, reason] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (reason != std::errc{} || end != given->data() + given->size() || !(value >= least && value <= most))
    refuse(name, fmt::format("a number from {} to {}", least, most));
  return value;
}

std::string NameSettings::word(const std::string& name, const std::vector<std::string>& words) const {
  const std::string* given = find(name);
  if (given == nullptr) return words.front();
  if (std::ranges::find(words, *given) == words.end()) refuse(name, fmt::format("one of {}", fmt::join(words, ", ")));
  return *given;
}

Shape NameSettings::shape(const std::string& name) const {
  constexpr int64_t kMostExtent = 4096;
  constexpr std::string_view kExpected = "CHANNELSxHEIGHTxWIDTH with 1 or 3 channels and at most 4096 a side";
  const std::string* given = find(name);
  if (given == nullptr) refuse(name, kExpected);
  const std::vector<std::string_view> extents = split_name(*given, 'x');
  std::vector<int64_t> values;
  for (const std::string_view extent : extents) {
    int64_t value = 0;
    const auto [end, reason] = std::from_chars(extent.data(), extent.data() + extent.size(), value);
    if (reason != std::errc{} || end != extent.data() + extent.size() || value < 1 || value > kMostExtent) refuse(name, kExpected);
    values.push_back(value);
  }
  if (values.size() != 3 || (values[0] != 1 && values[0] != 3)) refuse(name, kExpected);
  return {.channels = values[0], .height = values[1], .width = values[2]};
}

}  // namespace millrace
