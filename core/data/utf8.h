// UTF-8, one character at a time, and where in a text one stands. Internal to core/data.
//
//   Utf8Reader reader(bytes);
//   while (!reader.done())
//     if (const std::optional<char32_t> c = reader.take()) ...; else reader.offending();
//
// Strict: overlong forms, surrogates, numbers beyond U+10FFFF and cut sequences are no characters. Borrows the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace millrace {

class Utf8Reader {
 public:
  explicit Utf8Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool done() const { return at_ == bytes_.size(); }
  // Nothing when the bytes here are no character; the reader then stays where it is.
  std::optional<char32_t> take();
  bool next_is(char c) const { return !done() && bytes_[at_] == static_cast<std::byte>(c); }
  // The byte at which take() found no character.
  uint8_t offending() const { return static_cast<uint8_t>(bytes_[at_]); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

std::string utf8_of(char32_t character);

// One-based, as editors count.
struct TextPlace {
  int64_t line = 1, column = 1;
  void pass(char32_t character) { *this = character == U'\n' ? TextPlace{line + 1, 1} : TextPlace{line, column + 1}; }
  bool operator==(const TextPlace&) const = default;
};
// "line 3, column 7"
std::string words_for(const TextPlace& place);

}  // namespace millrace
