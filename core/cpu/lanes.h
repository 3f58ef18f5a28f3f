// Vectors of floats as the compiler has them, and loops that it unrolls. Internal to core/cpu; for functions that `vectorised`
// (vector_math.h) compiles per instruction set.
//
//   using Vector = VectorOf<8>::Type;
//   Vector x;
//   load(from, x);
//   for_constants<4>([&](auto i) { sums[i()] += x; });        // indices known to the compiler: sums need no memory
//
// Plain functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace millrace::cpu {

template <int kVector>
struct VectorOf {
  typedef float Type __attribute__((vector_size(kVector * sizeof(float))));
  typedef int32_t Mask __attribute__((vector_size(kVector * sizeof(float))));
};

// By reference: a vector that is returned has no one form in the calling conventions of all instruction sets.
template <typename Vector>
inline void load(const float* from, Vector& value) {
  std::memcpy(&value, from, sizeof value);
}
template <typename Vector>
inline void store(float* to, const Vector& value) {
  std::memcpy(to, &value, sizeof value);
}

// Calls visit(constant...) with the numbers below `kCount`, known to the compiler: an array that is only ever indexed so needs no memory.
template <size_t kCount, typename Visit>
inline void for_constants(const Visit& visit) {
  [&]<size_t... kAt>(std::index_sequence<kAt...>) { (visit(std::integral_constant<size_t, kAt>()), ...); }
  (std::make_index_sequence<kCount>());
}

}  // namespace millrace::cpu
