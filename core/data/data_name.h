// The numbers in a data set's name, read strictly.
//
//   const DataName name{what, "adding:STEPS[:SAMPLES[:SEED]], for example adding:200:10000"};
//   const std::vector<std::string_view> fields = split_name(arguments, ':');
//   name.number<int64_t>(fields[0], 2, 100000, "steps");
//
// Internal to core/data. Everything wrong is kUsage, naming the field and the form.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace millrace {

std::vector<std::string_view> split_name(std::string_view text, char separator);

struct DataName {
  std::string_view what;
  std::string_view form;

  // `fields` are between `least` and `most`.
  void expect_fields(const std::vector<std::string_view>& fields, size_t least, size_t most) const {
    if (fields.size() < least || fields.size() > most) fail(ErrorCode::kUsage, "data \"{}\": the form is {}", what, form);
  }
  template <typename Integer>
  Integer number(std::string_view text, Integer least, Integer most, std::string_view field) const {
    Integer value{};
    const auto [end, reason] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (reason != std::errc{} || end != text.data() + text.size() || value < least || value > most)
      fail(ErrorCode::kUsage, "data \"{}\": {} is \"{}\", expected a number from {} to {}; the form is {}", what, field, text, least, most,
           form);
    return value;
  }
};

}  // namespace millrace
