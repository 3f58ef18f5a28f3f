// The number formats of recurrent layers: float, IEEE half and bfloat16, each with its conversions to and from float, the
// same on a GPU and on a CPU (round to nearest, ties to even).
//
//   const BFloat16 weight = from_float<BFloat16>(0.3F);
//   sum += to_float(weight) * to_float(state);
//
// The two short formats are plain 16-bit values here: arithmetic is done in float or by the matrix units. Every format's
// value of all ones is a NaN that no computation yields (canonical() sees to it): it marks what is not written yet.
// Without includes under nvcc, so that the run-time compiler takes it as it is.
#pragma once

#if defined(__CUDACC__)
#define MILLRACE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MILLRACE_HOST_DEVICE inline
#endif

namespace millrace::rnn {

struct Half {
  unsigned short bits;
};
struct BFloat16 {
  unsigned short bits;
};

MILLRACE_HOST_DEVICE unsigned bits_of(float value) { return __builtin_bit_cast(unsigned, value); }
MILLRACE_HOST_DEVICE float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }

MILLRACE_HOST_DEVICE float to_float(float value) { return value; }
MILLRACE_HOST_DEVICE float to_float(BFloat16 value) { return float_of(static_cast<unsigned>(value.bits) << 16U); }

MILLRACE_HOST_DEVICE float to_float(Half value) {
  const unsigned sign = (value.bits & 0x8000U) << 16U;
  const unsigned exponent = (value.bits >> 10U) & 0x1FU;
  const unsigned fraction = value.bits & 0x3FFU;
  if (exponent == 0x1FU) return float_of(sign | 0x7F800000U | (fraction << 13U));
  if (exponent == 0) {  // zero and what is too small for an exponent: fraction * 2^-24
    const float size = static_cast<float>(fraction) * 0x1p-24F;
    return float_of(sign | bits_of(size));
  }
  return float_of(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
}

template <class Scalar>
MILLRACE_HOST_DEVICE Scalar from_float(float value);

template <>
MILLRACE_HOST_DEVICE float from_float<float>(float value) {
  return value;
}

template <>
MILLRACE_HOST_DEVICE BFloat16 from_float<BFloat16>(float value) {
  const unsigned bits = bits_of(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FC0};
  return {static_cast<unsigned short>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

template <>
MILLRACE_HOST_DEVICE Half from_float<Half>(float value) {
  const unsigned bits = bits_of(value);
  const unsigned sign = (bits >> 16U) & 0x8000U;
  const unsigned size = bits & 0x7FFFFFFFU;
  if (size > 0x7F800000U) return {0x7E00};
  if (size >= 0x47800000U) return {static_cast<unsigned short>(sign | 0x7C00U)};  // 65536 and more
  unsigned rounded = 0;
  if (size < 0x38800000U) {  // below 2^-14: adding 2^-1 leaves the fraction in the last ten bits, rounded by the addition
    rounded = bits_of(float_of(size) + 0.5F) - 0x3F000000U;
  } else {
    rounded = (size - 0x38000000U + 0xFFFU + ((size >> 13U) & 1U)) >> 13U;
  }
  return {static_cast<unsigned short>(sign | rounded)};
}

// Whether a value is the mark of what is not written yet.
MILLRACE_HOST_DEVICE bool is_unwritten(float value) { return bits_of(value) == 0xFFFFFFFFU; }
MILLRACE_HOST_DEVICE bool is_unwritten(Half value) { return value.bits == 0xFFFFU; }
MILLRACE_HOST_DEVICE bool is_unwritten(BFloat16 value) { return value.bits == 0xFFFFU; }

// The value itself; any NaN becomes the one that is not the mark.
MILLRACE_HOST_DEVICE float canonical(float value) { return value == value ? value : float_of(0x7FC00000U); }

}  // namespace millrace::rnn
