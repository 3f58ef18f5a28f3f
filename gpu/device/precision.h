// How a GPU multiplies, and the format of what it multiplies. Plain values.
//
//   if (is_narrow(precision)) bytes = count * bytes_of(precision);
#pragma once

#include <cstdint>

namespace millrace::gpu {

// How products are multiplied; sums are always fp32. kTensorFloat32 and the sixteen-bit formats round the factors.
enum class Precision : uint8_t { kFloat32, kTensorFloat32, kFloat16, kBfloat16 };
constexpr bool is_narrow(Precision precision) { return precision == Precision::kFloat16 || precision == Precision::kBfloat16; }
// Of a factor in memory.
constexpr int64_t bytes_of(Precision precision) { return is_narrow(precision) ? 2 : 4; }

}  // namespace millrace::gpu
