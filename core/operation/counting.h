// Counts that cannot overflow: they stop at the largest int64_t, and the limits below refuse what got near it.
//
//   const int64_t macs = saturating_product({out_channels, height, width, in_channels, kernel_h, kernel_w});
//   if (macs > kMostMacs) fail(...);
//
// Factors and terms are never negative. What users see is the refusal.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace millrace {

// Engines index channels, rows, columns and taps with 32 bits.
inline constexpr int64_t kMostDimension = std::numeric_limits<int32_t>::max();
// Of one tensor for one sample, or one parameter tensor: 256 GiB in fp32, beyond any device this is made for.
inline constexpr int64_t kMostElements = int64_t{1} << 36;
// Of one layer, one sample and one phase; leaves room to add up phases, layers and mini-batches.
inline constexpr int64_t kMostMacs = int64_t{1} << 50;

inline int64_t saturating_product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor == 0) return 0;
    if (__builtin_mul_overflow(product, factor, &product)) product = std::numeric_limits<int64_t>::max();
  }
  return product;
}

inline int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

}  // namespace millrace
