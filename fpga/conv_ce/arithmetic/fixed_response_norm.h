// Local response norm in fixed point, forward and back, as response_norm.sv and response_norm_back.sv compute it.
//
//   const std::optional<FixedResponseNorm> norm = fixed_response_norm(LocalResponseNorm{.size = 5}, FixedFormat{11});
//   const std::vector<int16_t> y = responded(*norm, channels, x, counters);
//   const std::vector<int16_t> error = response_back(*norm, channels, x, y_error, counters);
//
// s = base + (sum of squares over the window's channels * factor >> factor_shift), below 2^31. p stands for s^-beta and q for
// 2 alpha beta / size s^-(beta + 1); both are read from a table of 512 entries per octave of s, each the middle of its part: off by
// (beta + 1) / 1024 of their value at most, and half a step.
//   y = round(x p)      u = round(e x q)      error = round(e p - x * sum of u over the window's channels), rounded once
// Errors keep their own fraction bits. Nothing comes out for windows of an even size, for k of zero or less, and where s has more
// than sixteen octaves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/operation/normalisation.h"
#include "fpga/common/arithmetic/fixed_point.h"

namespace millrace {

struct FixedResponseNorm {
  int64_t half = 2;  // channels of the window on each side
  int64_t base = 0;
  int64_t factor = 0;
  int factor_shift = 0;
  int first_octave = 0;
  int64_t octaves = 1;
  int p_shift = 0;
  int u_shift = 0;  // from e x q to u
  int t_shift = 0;  // from x u to an error
  std::vector<uint16_t> p, q;

  size_t place_of(int64_t squares) const;
};

std::optional<FixedResponseNorm> fixed_response_norm(const LocalResponseNorm& norm, FixedFormat activation);

std::vector<int16_t> responded(const FixedResponseNorm& norm, int64_t channels, std::span<const int16_t> x, ArithmeticCounters& counters);
std::vector<int16_t> response_back(const FixedResponseNorm& norm, int64_t channels, std::span<const int16_t> x,
                                   std::span<const int16_t> error, ArithmeticCounters& counters);

}  // namespace millrace
