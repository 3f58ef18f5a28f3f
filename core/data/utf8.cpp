#include "core/data/utf8.h"

#include <fmt/format.h>

namespace millrace {

std::optional<char32_t> Utf8Reader::take() {
  const auto byte = [this](size_t i) { return static_cast<uint32_t>(bytes_[at_ + i]); };
  const uint32_t first = byte(0);
  const size_t length = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xE ? 3 : first >> 3 == 0x1E ? 4 : 0;
  if (length == 0 || length > bytes_.size() - at_) return std::nullopt;
  uint32_t value = length == 1 ? first : first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 0x2) return std::nullopt;
    value = value << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kLeast[length] || value > 0x10FFFF || surrogate) return std::nullopt;
  at_ += length;
  return static_cast<char32_t>(value);
}

std::string utf8_of(char32_t character) {
  const auto value = static_cast<uint32_t>(character);
  std::string text;
  const auto append = [&text](uint32_t byte) { text.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (value < 0x80) {
    append(value);
  } else if (value < 0x800) {
    append(0xC0 | value >> 6);
    append(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    append(0xE0 | value >> 12);
    append(0x80 | (value >> 6 & 0x3F));
    append(0x80 | (value & 0x3F));
  } else {
    append(0xF0 | value >> 18);
    append(0x80 | (value >> 12 & 0x3F));
    append(0x80 | (value >> 6 & 0x3F));
    append(0x80 | (value & 0x3F));
  }
  return text;
}

std::string words_for(const TextPlace& place) { return fmt::format("line {}, column {}", place.line, place.column); }

}  // namespace millrace
