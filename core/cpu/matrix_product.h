// Products of row-major matrices by oneDNN's sgemm, on the threads of the current ComputeScope. Internal to core/cpu.
//
//   multiply_matrices({.data = x, .stride = k}, {.data = w, .stride = k, .transposed = true}, m, n, k, /*adds=*/false, y, n);
//
// With several threads the sums over k may be divided among them, so their order depends on the number of threads.
#pragma once

#include <cstdint>

namespace millrace::cpu {

// `stride`: floats from one row to the next, as the matrix lies in memory.
struct Matrix {
  const float* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
};

// c[m][n] (+)= a[m][k] * b[k][n]
void multiply_matrices(const Matrix& a, const Matrix& b, int64_t m, int64_t n, int64_t k, bool adds, float* c, int64_t c_stride);

}  // namespace millrace::cpu
