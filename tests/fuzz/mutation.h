// Turns valid inputs into nearly valid ones: the damage that files meet, and the values that parsers forget.
//
//   Mutator mutator(corpus, seed);
//   const std::string input = mutator.input(17);    // depends on nothing but corpus, seed and 17
//
// Knows bytes (bits, ranges, splices, integers of every width) and text (tokens, numbers). Not thread safe.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace millrace::fuzz {

class Mutator {
 public:
  // An empty corpus counts as one empty input. Inputs stay below `longest` bytes.
  Mutator(std::vector<std::string> corpus, uint64_t seed, size_t longest);

  std::string input(uint64_t number);

 private:
  struct Span {
    size_t begin = 0, size = 0;
  };

  size_t below(size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(random_() % bound); }
  const std::string& seed_input() { return corpus_[below(corpus_.size())]; }
  Span span_of(const std::string& text);
  Span token_of(const std::string& text);
  void change(std::string& text);
  void change_bytes(std::string& text);
  void change_ranges(std::string& text);
  void change_tokens(std::string& text);

  std::vector<std::string> corpus_;
  uint64_t seed_;
  size_t longest_;
  std::mt19937_64 random_;
};

}  // namespace millrace::fuzz
