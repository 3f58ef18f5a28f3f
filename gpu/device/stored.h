// Numbers in a GPU's memory in the format they are kept in, on GPU and host alike.
//
//   const StoredFloats states{keep.data(), Precision::kBfloat16};
//   states.put(i, 0.5f);  states.at(i);                   // rounded to nearest; as fp32
//   multiply({.a = states.from(row * width).memory, ...});
//
// fp32 where nothing is said. Borrows the memory. Plain values, no libraries: read by the CUDA compiler.
#pragma once

#include <cstddef>

#include "gpu/device/narrow_float.h"
#include "gpu/device/precision.h"

namespace millrace::gpu {

namespace detail {
template <typename Void, typename Byte, typename Float>
struct Stored {
  Stored() = default;
  Stored(Float* floats) : memory(floats) {}  // NOLINT(google-explicit-constructor): fp32 is what most numbers are
  MILLRACE_HOST_DEVICE Stored(Void* data, Precision format) : memory(data), precision(format) {}
  template <typename V, typename B, typename F>
  Stored(const Stored<V, B, F>& other)  // NOLINT(google-explicit-constructor): to what nobody writes
      : memory(other.memory), precision(other.precision) {}

  // What begins `elements` further on.
  Stored from(int64_t elements) const { return {static_cast<Byte*>(memory) + elements * bytes_of(precision), precision}; }

  MILLRACE_HOST_DEVICE float at(int64_t i) const {
    switch (precision) {
      case Precision::kFloat16: return float_of_float16(static_cast<const uint16_t*>(memory)[i]);
      case Precision::kBfloat16: return float_of_bfloat16(static_cast<const uint16_t*>(memory)[i]);
      case Precision::kFloat32:
      case Precision::kTensorFloat32: break;
    }
    return static_cast<const float*>(memory)[i];
  }
  MILLRACE_HOST_DEVICE void put(int64_t i, float value) const {
    switch (precision) {
      case Precision::kFloat16: static_cast<uint16_t*>(memory)[i] = float16_of(value); return;
      case Precision::kBfloat16: static_cast<uint16_t*>(memory)[i] = bfloat16_of(value); return;
      case Precision::kFloat32:
      case Precision::kTensorFloat32: break;
    }
    static_cast<float*>(memory)[i] = value;
  }

  Void* memory = nullptr;
  Precision precision = Precision::kFloat32;
};
}  // namespace detail

using StoredFloats = detail::Stored<void, std::byte, float>;
using ConstFloats = detail::Stored<const void, const std::byte, const float>;

}  // namespace millrace::gpu
