// Internal to tests/gpu/rnn/ptx: the matrix units' product as PTX documents it, apart from the kernels' own tables of fragments.
#pragma once

#include <bit>
#include <cmath>

#include "tests/gpu/rnn/ptx/module.h"

namespace millrace::rnn::ptx {

inline float half_to_float(std::uint32_t bits, bool brain) {
  if (brain) return std::bit_cast<float>(bits << 16U);
  const int exponent = static_cast<int>(bits >> 10U & 0x1FU);
  const auto fraction = static_cast<float>(bits & 0x3FFU);
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

// d = a b + c of 16 x 16 by 16 x 8 over a warp (ISA 9.0, "Matrix Fragments for mma.m16n8k16 with floating point type"). Slots: four of d,
// four of a, two of b, four of c.
inline void multiply_m16n8k16(Word* const (&lanes)[32], const Instruction& i) {
  float a[16][16], b[16][8], d[16][8];
  const auto element = [&](int lane, int slot, int index) {
    return half_to_float(
        static_cast<std::uint32_t>(lanes[lane][i.at[static_cast<std::size_t>(slot + index / 2)]] >> (16 * (index % 2))) & 0xFFFFU, i.brain);
  };
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, of_group = lane % 4;
    for (int k = 0; k < 8; ++k)
      a[k < 2 || (k >= 4 && k < 6) ? group : group + 8][of_group * 2 + (k & 1) + (k >= 4 ? 8 : 0)] = element(lane, 4, k);
    for (int k = 0; k < 4; ++k) b[of_group * 2 + (k & 1) + (k >= 2 ? 8 : 0)][group] = element(lane, 8, k);
    for (int k = 0; k < 4; ++k)
      d[k < 2 ? group : group + 8][of_group * 2 + (k & 1)] =
          std::bit_cast<float>(static_cast<std::uint32_t>(lanes[lane][i.at[static_cast<std::size_t>(10 + k)]]));
  }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < 16; ++k) d[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < 32; ++lane)
    for (int k = 0; k < 4; ++k)
      lanes[lane][i.at[static_cast<std::size_t>(k)]] =
          std::bit_cast<std::uint32_t>(d[k < 2 ? lane >> 2 : (lane >> 2) + 8][lane % 4 * 2 + (k & 1)]);
}

}  // namespace millrace::rnn::ptx
