// Loops over arrays of floats, compiled once per vector instruction set and chosen when the program starts. One thread;
// callers divide the work. Internal to core/cpu.
//
// Multiplications and additions are not contracted, so every instruction set gives the same bits.
#pragma once

#include <cstdint>

#include "core/device/device.h"

// Sanitizers instrument the choosing itself, which runs before they are ready.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GNUC__) && !defined(__clang__)
// What is not inlined would be compiled for the oldest of them: everything is.
#define MILLRACE_VECTOR_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), gnu::flatten]]
#else
#define MILLRACE_VECTOR_CLONES
#endif

namespace millrace::cpu {

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

void update(const UpdateArguments& arguments, float* weights, const float* gradients, float* first_slot, float* second_slot, int64_t count);

}  // namespace millrace::cpu
