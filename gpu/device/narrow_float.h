// Sixteen-bit floats and back, rounded to nearest with ties to even, on GPU and host alike. NaN stays NaN; what is too large for
// half precision becomes infinity.
//
//   const uint16_t bits = bfloat16_of(1.5f);
#pragma once

#include <bit>
#include <cstdint>

#include "core/base/host_device.h"

namespace millrace::gpu {

namespace detail {
MILLRACE_HOST_DEVICE inline uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}
MILLRACE_HOST_DEVICE inline float float_of_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
// The upper bits, rounded by the `dropped` lower ones.
MILLRACE_HOST_DEVICE inline uint32_t rounded(uint32_t bits, int dropped) {
  const uint32_t odd = (bits >> dropped) & 1u;
  return (bits + (1u << (dropped - 1)) - 1u + odd) >> dropped;
}
}  // namespace detail

MILLRACE_HOST_DEVICE inline uint16_t bfloat16_of(float value) {
  const uint32_t bits = detail::bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>(detail::rounded(bits, 16));
}
MILLRACE_HOST_DEVICE inline float float_of_bfloat16(uint16_t bits) { return detail::float_of_bits(static_cast<uint32_t>(bits) << 16); }

MILLRACE_HOST_DEVICE inline uint16_t float16_of(float value) {
  const uint32_t bits = detail::bits_of(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and more round to infinity
  if (size >= 0x38800000u) return static_cast<uint16_t>(sign | detail::rounded(size - 0x38000000u, 13));
  if (size <= 0x33000000u) return static_cast<uint16_t>(sign);  // 2^-25 ties to zero
  const int shift = 126 - static_cast<int>(size >> 23);         // below 2^-14: fixed point in steps of 2^-24
  return static_cast<uint16_t>(sign | detail::rounded((size & 0x7fffffu) | 0x800000u, shift));
}
MILLRACE_HOST_DEVICE inline float float_of_float16(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t size = half & 0x7fffu;
  if (size >= 0x7c00u) return detail::float_of_bits(sign | 0x7f800000u | ((size & 0x3ffu) << 13));
  if (size >= 0x400u) return detail::float_of_bits(sign | ((size << 13) + 0x38000000u));
  const float small = static_cast<float>(size) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

}  // namespace millrace::gpu
