// Counter-based random numbers (Philox 4x32, ten rounds; Salmon et al., SC'11): the value at a counter is a pure
// function of (seed, stream, counter), so any rank can draw any element in any order and all agree.
//
//   const Philox draw(seed, stream_id("conv1", "weight"));
//   float u = draw.uniform(index);        // [0, 1), 24 bits
//   double z = draw.normal(index);        // Box-Muller over two draws at the same counter
//
// Copyable, no state, thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {

// A stable 64-bit id of a purpose, for example ("dropout", layer name). The same on every machine.
uint64_t stream_id(std::string_view purpose, std::string_view name = {});

class Philox {
 public:
  Philox(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  std::array<uint32_t, 4> block(uint64_t counter) const;
  // Four words per counter; the element chooses the word, so neighbouring elements share a block.
  uint32_t bits(uint64_t element) const { return block(element >> 2)[element & 3]; }
  float uniform(uint64_t element) const { return static_cast<float>(bits(element) >> 8) * 0x1p-24f; }
  double normal(uint64_t element) const;
  // Integer in [0, bound), bound > 0.
  uint64_t below(uint64_t element, uint64_t bound) const;

 private:
  uint64_t seed_;
  uint64_t stream_;
};

// A permutation of 0..count-1 that depends on nothing but its arguments (Fisher-Yates over Philox).
std::vector<int64_t> shuffled_indices(int64_t count, uint64_t seed, uint64_t stream);

}  // namespace millrace
