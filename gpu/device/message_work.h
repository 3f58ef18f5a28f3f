// Between a tensor on the GPU and a message there, element by element: a range of channels and rows of all samples, one after the other
// and in the flow's wire type. The bits are those that the host makes of the same numbers: what sixteen bits cannot hold saturates, NaN
// stays NaN.
//
//   const MessagePlace place = message_place(shape, channels, rows);
//   const ElementWork work = PackMessage{.tensor = x, .message = payload, .place = place, .wire = WireNumber::kFloat32, .elements = n};
//
// Plain values, no libraries: read by the CUDA compiler.
#pragma once

#include "gpu/device/narrow_float.h"

namespace millrace::gpu {

enum class WireNumber : uint8_t { kFloat32, kFloat16, kBfloat16 };

// Where a message's elements lie in the tensor.
struct MessagePlace {
  int64_t sample = 0;   // elements from one sample to the next
  int64_t channel = 0;  // from one channel to the next
  int64_t first = 0;    // of the message
  int64_t channels = 1;
  int64_t run = 1;  // elements of a channel that lie together

  MILLRACE_HOST_DEVICE int64_t operator()(int64_t i) const {
    const int64_t row = i / run;
    return first + row / channels * sample + row % channels * channel + i % run;
  }
};

MILLRACE_HOST_DEVICE inline uint16_t saturated_bfloat16_of(float value) {
  const uint16_t bits = bfloat16_of(value);
  return (bits & 0x7fffu) == 0x7f80u ? static_cast<uint16_t>((bits & 0x8000u) | 0x7f7fu) : bits;
}

MILLRACE_HOST_DEVICE inline uint16_t saturated_float16_of(float value) {
  const uint32_t bits = detail::bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)  // what is left of a NaN's own bits goes along
    return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | 0x7e00u | ((bits >> 13) & 0x3ffu));
  const uint16_t half = float16_of(value);
  return (half & 0x7fffu) == 0x7c00u ? static_cast<uint16_t>((half & 0x8000u) | 0x7bffu) : half;
}

struct PackMessage {
  const float* tensor = nullptr;
  void* message = nullptr;
  MessagePlace place;
  WireNumber wire = WireNumber::kFloat32;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float value = tensor[place(i)];
    if (wire == WireNumber::kFloat32)
      static_cast<float*>(message)[i] = value;
    else
      static_cast<uint16_t*>(message)[i] = wire == WireNumber::kBfloat16 ? saturated_bfloat16_of(value) : saturated_float16_of(value);
  }
};

struct UnpackMessage {
  const void* message = nullptr;
  float* tensor = nullptr;
  MessagePlace place;
  WireNumber wire = WireNumber::kFloat32;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    if (wire == WireNumber::kFloat32) {
      tensor[place(i)] = static_cast<const float*>(message)[i];
      return;
    }
    const uint16_t bits = static_cast<const uint16_t*>(message)[i];
    tensor[place(i)] = wire == WireNumber::kBfloat16 ? float_of_bfloat16(bits) : float_of_float16(bits);
  }
};

}  // namespace millrace::gpu
