#include "tests/fuzz/mutation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace millrace::fuzz {
namespace {

// Where counters wrap, signs turn and conversions saturate.
constexpr std::array<uint64_t, 12> kIntegers = {
    0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};

constexpr std::array<std::string_view, 20> kNumbers = {
    "0",   "-1",    "1",     "2147483647", "2147483648", "-2147483649", "4294967296", "9223372036854775807", "-9223372036854775808",
    "1e9", "1e308", "1e400", "-1e-400",    "nan",        "inf",         "-inf",       "0x7fffffffffffffff",  "18446744073709551615",
    "0.1", "077"};

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+'; }

}  // namespace

Mutator::Mutator(std::vector<std::string> corpus, uint64_t seed, size_t longest)
    : corpus_(std::move(corpus)), seed_(seed), longest_(longest) {
  if (corpus_.empty()) corpus_.emplace_back();
}

std::string Mutator::input(uint64_t number) {
  std::seed_seq start{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32), static_cast<uint32_t>(number),
                      static_cast<uint32_t>(number >> 32)};
  random_.seed(start);
  std::string text = seed_input();
  for (size_t changes = 1 + below(6); changes > 0; --changes) change(text);
  if (text.size() > longest_) text.resize(longest_);
  return text;
}

void Mutator::change(std::string& text) {
  switch (below(3)) {
    case 0: return change_bytes(text);
    case 1: return change_ranges(text);
    default: return change_tokens(text);
  }
}

// Mostly short, so that the rest of the input keeps its meaning.
Mutator::Span Mutator::span_of(const std::string& text) {
  const size_t begin = below(text.size() + 1);
  const size_t most = below(4) == 0 ? text.size() : size_t{16};
  return {begin, std::min(text.size() - begin, 1 + below(most + 1))};
}

// A word, a number, a quoted string or a single other character; blanks before it are skipped.
Mutator::Span Mutator::token_of(const std::string& text) {
  size_t begin = below(text.size() + 1);
  while (begin < text.size() && std::isspace(static_cast<unsigned char>(text[begin])) != 0) ++begin;
  if (begin == text.size()) return {begin, 0};
  size_t end = begin + 1;
  if (in_word(text[begin])) {
    while (begin > 0 && in_word(text[begin - 1])) --begin;
    while (end < text.size() && in_word(text[end])) ++end;
  } else if (text[begin] == '"') {
    const size_t closing = text.find('"', end);
    if (closing != std::string::npos) end = closing + 1;
  }
  return {begin, end - begin};
}

void Mutator::change_bytes(std::string& text) {
  if (text.empty()) {
    text.push_back(static_cast<char>(below(256)));
    return;
  }
  const size_t at = below(text.size());
  switch (below(4)) {
    case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); return;
    case 1: text[at] = static_cast<char>(below(256)); return;
    case 2: text.insert(at, 1, static_cast<char>(below(256))); return;
    default: {  // an integer of 1, 2, 4 or 8 bytes, in either byte order
      const size_t width = std::min(size_t{1} << below(4), text.size() - at);
      const uint64_t value = kIntegers[below(kIntegers.size())];
      std::array<char, sizeof value> bytes;
      std::memcpy(bytes.data(), &value, sizeof value);
      if (below(2) == 0) std::reverse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(width));
      std::memcpy(text.data() + at, bytes.data(), width);
    }
  }
}

void Mutator::change_ranges(std::string& text) {
  const Span here = span_of(text);
  switch (below(5)) {
    case 0: text.resize(here.begin); return;
    case 1: text.erase(here.begin, here.size); return;
    case 2: {  // repeated, now and then often enough to matter
      const std::string piece = text.substr(here.begin, here.size);
      size_t times = below(16) == 0 ? below(1000) : 1;
      if (!piece.empty()) times = std::min(times, longest_ / piece.size());
      std::string repeated;
      for (; times > 0; --times) repeated += piece;
      text.insert(here.begin, repeated);
      return;
    }
    case 3: {  // the head of this, the tail of another
      const std::string& other = seed_input();
      text.resize(here.begin);
      text += other.substr(below(other.size() + 1));
      return;
    }
    default: {
      const std::string& other = seed_input();
      const Span there = span_of(other);
      text.insert(here.begin, other, there.begin, there.size);
    }
  }
}

void Mutator::change_tokens(std::string& text) {
  const Span here = token_of(text);
  switch (below(4)) {
    case 0: text.erase(here.begin, here.size); return;
    case 1: text.insert(here.begin, text.substr(here.begin, here.size) + ' '); return;
    case 2: {
      const std::string& other = seed_input();
      const Span there = token_of(other);
      text.replace(here.begin, here.size, other, there.begin, there.size);
      return;
    }
    default: {  // the next number becomes one that is hard
      size_t digit = here.begin;
      while (digit < text.size() && std::isdigit(static_cast<unsigned char>(text[digit])) == 0) ++digit;
      size_t end = digit;
      while (end < text.size() && in_word(text[end])) ++end;
      text.replace(digit, end - digit, kNumbers[below(kNumbers.size())]);
    }
  }
}

}  // namespace millrace::fuzz
