// Loops over arrays of floats, compiled once per vector instruction set; instruction_set.h says which of them run. One thread; callers
// divide the work. Internal to core/cpu.
//
//   vectorised<add_values>(stretch, x, sums);     add_values(stretch, x, sums), compiled for the instructions in use
//
// Multiplications and additions are not contracted, so every instruction set gives the same bits.
#pragma once

#include <cstdint>

#include "core/cpu/instruction_set.h"
#include "core/device/device.h"

namespace millrace::cpu {

// A function of loops in one version per instruction set. What is not inlined would be compiled for the oldest of them: everything is.
template <auto kLoops, typename Signature = decltype(kLoops)>
struct Versions;
template <auto kLoops, typename Result, typename... Arguments>
struct Versions<kLoops, Result (*)(Arguments...)> {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  [[gnu::target("arch=x86-64-v4"), gnu::flatten]] static Result avx512(Arguments... arguments) { return kLoops(arguments...); }
  [[gnu::target("arch=x86-64-v3"), gnu::flatten]] static Result avx2(Arguments... arguments) { return kLoops(arguments...); }
  [[gnu::flatten]] static Result oldest(Arguments... arguments) { return kLoops(arguments...); }

  static Result run(Arguments... arguments) {
    switch (loop_instruction_set()) {
      case InstructionSet::kAvx512: return avx512(arguments...);
      case InstructionSet::kAvx2: return avx2(arguments...);
      default: return oldest(arguments...);
    }
  }
#else
  static Result run(Arguments... arguments) { return kLoops(arguments...); }
#endif
};

template <auto kLoops, typename... Arguments>
inline decltype(auto) vectorised(Arguments&&... arguments) {
  return Versions<kLoops>::run(arguments...);
}

void add_to(float* to, const float* from, int64_t count);
// to[i * to_step] (+)= from[i * from_step]
void copy_strided(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t count, bool add);
// to (+)= a * b, element by element.
void multiply(const float* a, const float* b, float* to, int64_t count, bool add);

// y = activation(x); y may be x.
void activate(const Activation& activation, const float* x, float* y, int64_t count);
// error *= derivative, from the activation's output.
void multiply_by_derivative(const Activation& activation, const float* output, float* error, int64_t count);
// Adding the same row to `rows` rows of `columns`.
void add_row(float* to, const float* row, int64_t rows, int64_t columns);

// to[column] += the sum over rows of from[row * stride + column], one row after the other.
void add_rows(float* to, const float* from, int64_t rows, int64_t stride, int64_t columns);

// Sixteen interleaved sums, added up in double: the same for every instruction set.
double sum_of_squares(const float* values, int64_t count);
bool all_finite(const float* values, int64_t count);

void update(const UpdateArguments& arguments, float* weights, const float* gradients, float* first_slot, float* second_slot, float* average,
            int64_t count);

}  // namespace millrace::cpu
