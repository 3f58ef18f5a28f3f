// The declared order of a sum in floating point on chained elements: numbers depend neither on the elements nor on the boards.
//
//   chain_sum<float>({.inputs = 1024, .parts = 2}, weights, elements);     // the bits of .parts = 1; both from the first input on
//
// An element adds one product a cycle, and its adder takes several cycles: products go to LANES accumulators in turn. The inputs are two
// halves, the second from ceil(n / 2) on; input i of half p goes to lane p LANES + (i mod LANES), counted from the half's begin, WHETHER
// OR NOT the output is divided over two elements; lanes are added as a balanced tree, whose last addition is that of the halves.
// Numbers too small for a normalised one are zero, as vendors' operators have it: results, and weights and elements that come in so.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace millrace {

inline constexpr int64_t kAccumulatorLanes = 8;

template <typename T>
T flushed(T value) {
  return std::fabs(value) < std::numeric_limits<T>::min() ? T{0} : value;
}

struct SumShape {
  int64_t inputs = 0;
  int64_t parts = 1;  // elements that an output is divided over: 1 or 2
};

// Pairs of neighbours, until one is left.
template <typename T>
T tree_sum(T* lanes, int64_t count) {
  for (int64_t width = count; width > 1; width /= 2)
    for (int64_t lane = 0; lane < width / 2; ++lane) lanes[lane] = flushed(lanes[2 * lane] + lanes[2 * lane + 1]);
  return lanes[0];
}

// Lanes side by side in vectors of the compiler's, of the width that every machine has: to the bit what a lane after the other gives.
template <typename T>
struct LaneVectors {
  static constexpr int64_t kWidth = 16 / sizeof(T), kVectors = kAccumulatorLanes / kWidth;
  using Word = std::conditional_t<sizeof(T) == sizeof(int32_t), int32_t, int64_t>;
  typedef T Numbers __attribute__((vector_size(16)));
  typedef Word Words __attribute__((vector_size(16)));
  // A number is zero or too small where its exponent is zero.
  static constexpr Word kExponent = ((Word{1} << (8 * sizeof(T) - std::numeric_limits<T>::digits)) - 1)
                                    << (std::numeric_limits<T>::digits - 1);

  Numbers lanes[static_cast<size_t>(kVectors)] = {};

  static Numbers flushed_all(Numbers numbers) {
    const auto words = reinterpret_cast<Words>(numbers);
    return reinterpret_cast<Numbers>(words & ((words & kExponent) != 0));
  }
  // Of as many inputs as lanes.
  void add(const T* weights, const T* elements) {
    for (int64_t v = 0; v < kVectors; ++v) {
      Numbers weight, element;
      std::memcpy(&weight, weights + v * kWidth, sizeof(weight));
      std::memcpy(&element, elements + v * kWidth, sizeof(element));
      Numbers& lane = lanes[v];
      lane = flushed_all(lane + flushed_all(flushed_all(weight) * flushed_all(element)));
    }
  }
};

template <typename T>
T chain_sum(const SumShape& shape, const T* weights, const T* elements) {
  const int64_t half = (shape.inputs + 1) / 2;
  const auto add_half = [&](int64_t begin, int64_t end, T* lanes) {
    LaneVectors<T> sums;
    int64_t input = begin;
    for (; input + kAccumulatorLanes <= end; input += kAccumulatorLanes) sums.add(weights + input, elements + input);
    std::memcpy(lanes, &sums.lanes, sizeof(sums.lanes));
    for (T* lane = lanes; input < end; ++input, ++lane)
      *lane = flushed(*lane + flushed(flushed(weights[input]) * flushed(elements[input])));
  };
  if (shape.parts == 2) {  // an element each, whose sums meet behind them
    std::array<T, kAccumulatorLanes> first{}, second{};
    add_half(0, half, first.data());
    add_half(half, shape.inputs, second.data());
    return flushed(tree_sum(first.data(), kAccumulatorLanes) + tree_sum(second.data(), kAccumulatorLanes));
  }
  std::array<T, 2 * kAccumulatorLanes> lanes{};
  add_half(0, half, lanes.data());
  add_half(half, shape.inputs, lanes.data() + kAccumulatorLanes);
  return tree_sum(lanes.data(), 2 * kAccumulatorLanes);
}

}  // namespace millrace
