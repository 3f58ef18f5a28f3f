// The numbers of the engines: what a format is, and every rounding and saturation there is.
//
//   const FixedFormat format{.fraction_bits = 12};            // sixteen bits, from -8 to almost 8
//   int16_t element = quantized(0.3, format, counters);       // nearest, ties to even, saturated
//   int16_t sum = rounded_to_element(accumulator, 14, counters);
//
// An ELEMENT has sixteen bits, two's complement; its value is the integer times 2^-fraction_bits. A product has 32 bits and
// the fraction bits of both factors together. An ACCUMULATOR has 32 bits and wraps: additions then give the same bits in
// any order, whatever the parallelism of an engine. Wrapping is never wanted; formats are chosen so that it does not happen,
// and the functional model counts where it did.
// ROUNDING (to the wire, to an output, to an input's error): to the nearest element, ties to the even one, then saturated
// to [-32768, 32767] or to the narrower width of a wire. UPDATES round stochastically: up with the probability of the
// fraction that is lost, drawn from a counter, so that small updates survive on average and any rank draws the same.
// Everything here is a pure function of its arguments and has one answer on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "fpga/common/arithmetic/arithmetic_counters.h"

namespace millrace {

inline constexpr int kElementBits = 16;
inline constexpr int kAccumulatorBits = 32;
inline constexpr int kMostFractionBits = 30;

struct FixedFormat {
  int fraction_bits = 0;  // 0 to kMostFractionBits
  bool operator==(const FixedFormat&) const = default;

  double step() const { return std::ldexp(1.0, -fraction_bits); }
  double largest() const { return std::ldexp(32767.0, -fraction_bits); }
};

// value * 2^-shift to the nearest integer, ties to even. 0 <= shift < 63.
constexpr int64_t shifted_to_nearest(int64_t value, int shift) {
  if (shift == 0) return value;
  const int64_t below_half = (int64_t{1} << (shift - 1)) - 1;
  return (value + below_half + ((value >> shift) & 1)) >> shift;
}

// The nearest value of `bits` bits, two's complement.
constexpr int64_t saturated(int64_t value, int bits = kElementBits) {
  const int64_t largest = (int64_t{1} << (bits - 1)) - 1;
  return value > largest ? largest : value < -largest - 1 ? -largest - 1 : value;
}

// The low 32 bits, as a signed number.
constexpr int32_t wrapped(int64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(value))); }

// An accumulator on its way to memory or to a wire of `bits` bits. With shift 0 to 31.
inline int16_t rounded_to_element(int64_t accumulator, int shift, ArithmeticCounters& counters, int bits = kElementBits) {
  const int64_t nearest = shifted_to_nearest(accumulator, shift);
  const int64_t element = saturated(nearest, bits);
  counters.count_rounding(static_cast<double>(accumulator) - std::ldexp(static_cast<double>(element), shift), shift, element != nearest);
  return static_cast<int16_t>(element);
}

// A real number as the nearest element; not a number becomes 0 and counts as saturated.
inline int16_t quantized(double value, FixedFormat format, ArithmeticCounters& counters) {
  const double scaled = std::ldexp(value, format.fraction_bits);
  if (std::isnan(scaled)) {
    counters.count_rounding(0, 0, true);
    return 0;
  }
  const double nearest = std::nearbyint(scaled);
  const double element = std::fmin(std::fmax(nearest, -32768.0), 32767.0);
  counters.count_rounding(scaled - element, 0, element != nearest);
  return static_cast<int16_t>(element);
}

inline double real_value(int64_t integer, int fraction_bits) { return std::ldexp(static_cast<double>(integer), -fraction_bits); }

// An update's rounding: up with the probability of the lost fraction. `random` is uniform over 32 bits.
inline int16_t stochastically_rounded(double value, FixedFormat format, uint32_t random, ArithmeticCounters& counters) {
  const double scaled = std::ldexp(value, format.fraction_bits);
  if (std::isnan(scaled)) {
    counters.count_rounding(0, 0, true);
    return 0;
  }
  const double chosen = std::floor(scaled + std::ldexp(static_cast<double>(random), -32));
  const double element = std::fmin(std::fmax(chosen, -32768.0), 32767.0);
  counters.count_rounding(scaled - element, 0, element != chosen);
  return static_cast<int16_t>(element);
}

// The most precise format that holds numbers up to `largest` in size.
inline FixedFormat format_that_holds(double largest) {
  FixedFormat format{kMostFractionBits};
  if (!(largest > 0)) return format;
  while (format.fraction_bits > 0 && largest > format.largest()) --format.fraction_bits;
  return format;
}

}  // namespace millrace
