// Products over all rows of a micro-batch, as gradients of weights are: c[i][j] (+)= sum over rows of a[row][i] * b[row][j]. Internal to
// core/cpu.
//
//   const GradientProduct product(lanes, /*left=*/4 * hidden, /*right=*/inputs + hidden);      // when a kernel is made
//   const size_t place = scratch.add(product.scratch_bytes());
//   product.run(threads, {errors, 4 * hidden}, rows, {{{.from = {x, inputs}, .columns = inputs, .left = 4 * hidden, .to = w,
//                                                       .stride = inputs}, {.from = {h, hidden}, ...}}}, adds, scratch<float>(place));
//
// Some rows at a time, both sides are laid out in blocks for multiply_blocked (blocked_product.h), the left one once for all that it is
// multiplied with. Each sum is made by itself, row after row, one fused multiply-add after the other where the processor has them, and goes
// on from what is in c: it depends neither on threads nor on what else is asked for. Below AVX2 oneDNN's sgemm multiplies instead
// (matrix_product.h).
//
// Limits: `left` and `right` are the most columns of a call, those of all right sides (two at most) together. Nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::cpu {

class GradientProduct {
 public:
  // A row-major matrix: `stride` floats from one row to the next.
  struct Side {
    const float* data = nullptr;
    int64_t stride = 0;
  };
  // A right side, the columns of the left one that it is multiplied with (the first `left`), and where the sums go.
  struct Right {
    Side from;
    int64_t columns = 0;
    int64_t left = 0;
    float* to = nullptr;
    int64_t stride = 0;
  };

  static constexpr int64_t kMostRights = 2;

  // `lanes`: 16 or 8, the width of a block.
  GradientProduct(int64_t lanes, int64_t left, int64_t right) : lanes_(lanes), left_(left), right_(right) {}

  size_t scratch_bytes() const;
  void run(int threads, const Side& left, int64_t rows, std::span<const Right> rights, bool adds, float* scratch) const;

 private:
  int64_t lanes_, left_, right_;
};

}  // namespace millrace::cpu
