// Fields of a CSV line: text in quotes, numbers to the last digit, nothing for what is not finite.
//
//   fmt::format("{},{}\n", csv_text("device 0 lacks \"much\""), csv_number(0.25));
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

namespace millrace {

inline std::string csv_text(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"') result += '"';
    result += character;
  }
  return result + "\"";
}

inline std::string csv_number(double value) { return std::isfinite(value) ? fmt::format("{:.17g}", value) : ""; }

}  // namespace millrace
