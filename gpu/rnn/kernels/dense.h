// The kernels around the recurrence: a product of matrices for all steps at once, sums over rows for biases, changes of
// format, and single steps for layers that do not fit on the chip.
//
//   multiply_matrices<float, float>(Product{...});   // blocks of 256 threads: one per 64 x 64 of the result
//   SingleStep<LstmForward<float>>::finish<0>(parameters, side, step, sums);   // a thread per unit and sample
//
// Any strides, so that transposes cost no copies. Sums in float, in a fixed order: the same result in every run.
#pragma once

#include "gpu/rnn/kernels/gru_cells.h"
#include "gpu/rnn/mapping.h"

namespace millrace::rnn {

// result[m][n] = sum over k of left(m, k) * right(k, n), plus bias[n] and, when `add`, what result held before.
struct MatrixJob {
  const void* left = nullptr;
  const void* right = nullptr;
  float* result = nullptr;
  const float* bias = nullptr;
  long long left_row = 0, left_column = 0;    // strides of m and k
  long long right_row = 0, right_column = 0;  // strides of k and n
  long long result_row = 0;                   // stride of m; n has stride 1
  int rows = 0, columns = 0, depth = 0;
  int add = 0;
};

inline constexpr int kJobTile = 64;
inline constexpr int kJobDepth = 16;
inline constexpr int kJobThreads = 256;
inline constexpr int kJobStride = kJobTile + 4;  // keeps 16-byte rows and spreads a column's writes over the banks
inline constexpr int kJobSharedBytes = 2 * kJobDepth * kJobStride * 4;

constexpr MILLRACE_HOST_DEVICE int blocks_of(const MatrixJob& job) { return ceil_of(job.rows, kJobTile) * ceil_of(job.columns, kJobTile); }

template <class Left, class Right>
MILLRACE_DEVICE void multiply_matrices(const MatrixJob& job) {
  auto* const left = reinterpret_cast<float*>(device::shared_memory());
  float* const right = left + kJobDepth * kJobStride;
  const int thread = device::thread_index();
  const int across = ceil_of(job.columns, kJobTile);
  const int first_row = device::block_index() / across * kJobTile;
  const int first_column = device::block_index() % across * kJobTile;
  const int row = thread / 16 * 4;
  const int column = thread % 16 * 4;
  float sums[4][4] = {};
  for (int depth = 0; depth < job.depth; depth += kJobDepth) {
    MILLRACE_UNROLL
    for (int part = 0; part < kJobTile * kJobDepth / kJobThreads; ++part) {
      const int i = part * kJobThreads + thread;
      // Neighbouring threads take neighbouring addresses, whichever way the matrix lies.
      const bool along_depth = job.left_column == 1;
      const int m = along_depth ? i / kJobDepth : i % kJobTile;
      const int k = along_depth ? i % kJobDepth : i / kJobTile;
      const bool in_left = first_row + m < job.rows && depth + k < job.depth;
      left[k * kJobStride + m] =
          in_left ? to_float(static_cast<const Left*>(job.left)[(first_row + m) * job.left_row + (depth + k) * job.left_column]) : 0.0F;
      const bool along_columns = job.right_column == 1;
      const int n = along_columns ? i % kJobTile : i / kJobDepth;
      const int d = along_columns ? i / kJobTile : i % kJobDepth;
      const bool in_right = first_column + n < job.columns && depth + d < job.depth;
      right[d * kJobStride + n] =
          in_right ? to_float(static_cast<const Right*>(job.right)[(depth + d) * job.right_row + (first_column + n) * job.right_column])
                   : 0.0F;
    }
    device::block_barrier();
    MILLRACE_UNROLL
    for (int k = 0; k < kJobDepth; ++k) {
      float a[4];
      float b[4];
      MILLRACE_UNROLL
      for (int i = 0; i < 4; ++i) a[i] = left[k * kJobStride + row + i];
      MILLRACE_UNROLL
      for (int i = 0; i < 4; ++i) b[i] = right[k * kJobStride + column + i];
      MILLRACE_UNROLL
      for (int i = 0; i < 4; ++i) {
        MILLRACE_UNROLL
        for (int j = 0; j < 4; ++j) sums[i][j] += a[i] * b[j];
      }
    }
    device::block_barrier();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int m = first_row + row + i;
      const int n = first_column + column + j;
      if (m >= job.rows || n >= job.columns) continue;
      float& result = job.result[m * job.result_row + n];
      const float sum = sums[i][j] + (job.bias != nullptr ? job.bias[n] : 0.0F);
      result = job.add != 0 ? result + sum : sum;
    }
}

// sums[n] = sum over rows of matrix[row][n]: a warp per column, so many threads as columns times 32.
template <class Scalar>
MILLRACE_DEVICE void sum_rows(const Scalar* matrix, float* sums, int rows, int columns) {
  const int column = device::block_index() * (device::thread_count() / device::kWarp) + device::warp_index();
  float sum = 0;
  if (column < columns)
    for (int row = device::lane_index(); row < rows; row += device::kWarp)
      sum += to_float(matrix[static_cast<long long>(row) * columns + column]);
  for (int mask = device::kWarp / 2; mask > 0; mask /= 2) sum += device::shuffle_xor(sum, mask);
  if (column < columns && device::lane_index() == 0) sums[column] = sum;
}

template <class Scalar>
MILLRACE_DEVICE void change_format(const float* from, Scalar* to, long long count) {
  const long long i = static_cast<long long>(device::block_index()) * device::thread_count() + device::thread_index();
  if (i < count) to[i] = from_float<Scalar>(from[i]);
}

template <class Scalar>
MILLRACE_DEVICE void widen(const Scalar* from, float* to, long long count) {
  const long long i = static_cast<long long>(device::block_index()) * device::thread_count() + device::thread_index();
  if (i < count) to[i] = to_float(from[i]);
}

// One step of a layer whose weights do not fit on the chip: its products come as matrix products, sums[sample][gate][unit].
template <class Cell>
struct SingleStep {
  template <int kPhase>
  MILLRACE_DEVICE static void finish(const Parameters& p, int which, int step, const float* sums) {
    const int i = device::block_index() * device::thread_count() + device::thread_index();
    if (i >= p.batch * p.hidden) return;
    const Standing at{p, p.side[which], step, i / p.hidden, i % p.hidden};
    Cell cell{};
    cell.prefetch(at);
    if constexpr (kPhase == 1) cell.resume(at);
    constexpr int kGates = Cell::gates(kPhase);
    cell.template finish<kPhase>(at,
                                 [&](int gate) { return sums[(static_cast<long long>(at.sample) * kGates + gate) * p.hidden + at.unit]; });
  }
};

}  // namespace millrace::rnn
