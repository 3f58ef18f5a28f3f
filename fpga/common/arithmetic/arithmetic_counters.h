// What fixed point did to the numbers of one layer: how many were rounded, how far, how many did not fit.
//
//   ArithmeticCounters counters;
//   rounded_to_element(accumulator, 14, counters);
//   counters.saturated;                       // elements that did not fit
//   counters.root_mean_square_error();        // of the others, in steps of the element: 0.29 where rounding is uniform
//
// A plain sum of events: counters of different runs add up in any order, up to the rounding of error_squares.
#pragma once

#include <cmath>
#include <cstdint>

namespace millrace {

struct ArithmeticCounters {
  int64_t rounded = 0;                // elements made
  int64_t saturated = 0;              // of these, out of range
  int64_t accumulator_overflows = 0;  // accumulators that wrapped: their element is wrong
  double error_squares = 0;           // over elements in range, in steps squared
  double largest_error = 0;           // of those, in steps

  // `error` in units of 2^-shift steps.
  void count_rounding(double error, int shift, bool out_of_range) {
    ++rounded;
    if (out_of_range) {
      ++saturated;
      return;
    }
    const double steps = std::fabs(std::ldexp(error, -shift));
    error_squares += steps * steps;
    if (steps > largest_error) largest_error = steps;
  }

  double root_mean_square_error() const {
    const int64_t in_range = rounded - saturated;
    return in_range > 0 ? std::sqrt(error_squares / static_cast<double>(in_range)) : 0;
  }
  double saturated_fraction() const { return rounded > 0 ? static_cast<double>(saturated) / static_cast<double>(rounded) : 0; }

  ArithmeticCounters& operator+=(const ArithmeticCounters& other) {
    rounded += other.rounded;
    saturated += other.saturated;
    accumulator_overflows += other.accumulator_overflows;
    error_squares += other.error_squares;
    if (other.largest_error > largest_error) largest_error = other.largest_error;
    return *this;
  }
};

// Of a run that counts two kinds of numbers apart.
struct PhaseCounters {
  ArithmeticCounters first;
  ArithmeticCounters second;
};

}  // namespace millrace
