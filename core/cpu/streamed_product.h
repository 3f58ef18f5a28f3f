// Products of a few rows with a weight that no cache holds: it is read once, as it lies, at the pace of the memory. Internal to core/cpu.
//
//   const WeightStream weight{.data = w, .outputs = 4096, .inputs = 9216};          // [output][input]
//   multiply_streamed(threads, x, rows, weight, y, /*adds=*/false);                 // y[row][output] (+)= x[row] . w[output]
//   multiply_streamed_back(threads, dy, rows, weight, dx, /*adds=*/false);          // dx[row][input] (+)= sum of dy[row][output] *
//   w[output]
//
// Each sum is made by itself, whatever else is asked for and on any number of threads: back in ascending outputs, one fused multiply-add
// after the other where the processor has them; forward one such chain in each lane of a vector over every so many inputs, their sums then
// added from the first lane to the last, and what fills no vector behind them. Nothing is allocated.
#pragma once

#include <cstdint>

namespace millrace::cpu {

struct WeightStream {
  const float* data = nullptr;
  int64_t outputs = 0, inputs = 0;

  // Where this is faster than a product that lays the weight out first (matrix_product.h).
  bool serves(int64_t rows) const;
};

void multiply_streamed(int threads, const float* x, int64_t rows, const WeightStream& weight, float* y, bool adds);
void multiply_streamed_back(int threads, const float* dy, int64_t rows, const WeightStream& weight, float* dx, bool adds);

}  // namespace millrace::cpu
