#include "fpga/conv_ce/arithmetic/formats_file.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <sstream>
#include <string>

#include "core/base/error.h"

namespace millrace {

namespace {

struct Field {
  const char* name;
  FixedFormat EngineFormats::*format;
};
constexpr std::array<Field, 5> kFields{{{"activation", &EngineFormats::activation},
                                        {"weight", &EngineFormats::weight},
                                        {"sum", &EngineFormats::sum},
                                        {"error", &EngineFormats::error},
                                        {"input_error", &EngineFormats::input_error}}};

int fraction_bits_of(const std::string& word, const char* field, const std::string& where) {
  int bits = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bits);
  if (error != std::errc{} || end != word.data() + word.size() || bits < 0 || bits > kMostFractionBits)
    fail(ErrorCode::kMalformed, "{}: {} \"{}\" must be a number from 0 to {}", where, field, word, kMostFractionBits);
  return bits;
}

// A result is lowered to its own fraction bits by 0 to 31.
void check_shift(int shift, const char* field, const char* factor, const std::string& where) {
  if (shift < 0 || shift > kMostShift)
    fail(ErrorCode::kMalformed, "{}: {} must be at most {} + weight, and at most {} below it; it is {} below", where, field, factor,
         kMostShift, shift);
}

}  // namespace

std::string text_of(const LayerFormats& formats) {
  std::string text = "# Fraction bits of sixteen, by layer and kind of number.\n";
  for (const auto& [layer, one] : formats) {
    text += layer;
    for (const Field& field : kFields) text += fmt::format(" {} {}", field.name, (one.*field.format).fraction_bits);
    text += '\n';
  }
  return text;
}

LayerFormats parse_formats(std::string_view text, std::string_view origin) {
  LayerFormats formats;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    const std::string where = fmt::format("{}:{}", origin, number);
    std::istringstream words(line);
    std::string layer, name, value;
    words >> layer;
    EngineFormats one;
    for (const Field& field : kFields) {
      if (!(words >> name >> value) || name != field.name)
        fail(ErrorCode::kMalformed,
             "{}: \"{}\" where \"{} N\" must stand; a line is LAYER activation N weight N sum N error N input_error N", where, name,
             field.name);
      (one.*field.format).fraction_bits = fraction_bits_of(value, field.name, where);
    }
    if (words >> name) fail(ErrorCode::kMalformed, "{}: nothing may follow input_error, but \"{}\" does", where, name);
    check_shift(one.sum_shift(), "sum", "activation", where);
    check_shift(one.error_shift(), "input_error", "error", where);
    if (!formats.emplace(layer, one).second) fail(ErrorCode::kMalformed, "{}: layer \"{}\" is given twice", where, layer);
  }
  return formats;
}

}  // namespace millrace
