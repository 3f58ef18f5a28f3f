#include "gpu/rnn/cuda/helper_kernels.h"
#include "gpu/rnn/dispatch.h"

namespace millrace::rnn {
namespace {

constexpr int kThreads = 256;

template <class S>
__global__ void __launch_bounds__(kJobThreads) multiply_kernel(MatrixJob job) {
  multiply_matrices<S, S>(job);
}
template <class S>
__global__ void __launch_bounds__(kThreads) sum_rows_kernel(const S* matrix, float* sums, int rows, int columns) {
  sum_rows(matrix, sums, rows, columns);
}
template <class S>
__global__ void __launch_bounds__(kThreads) change_format_kernel(const float* from, S* to, long long count) {
  change_format(from, to, count);
}
template <class S>
__global__ void __launch_bounds__(kThreads) widen_kernel(const S* from, float* to, long long count) {
  widen(from, to, count);
}
template <class Cell, int kPhase>
__global__ void __launch_bounds__(kThreads) single_step_kernel(Parameters p, int side, int step, const float* sums) {
  SingleStep<Cell>::template finish<kPhase>(p, side, step, sums);
}
__global__ void __launch_bounds__(kThreads) spread_bias_kernel(MatrixJob job) {
  const long long i = static_cast<long long>(device::block_index()) * device::thread_count() + device::thread_index();
  if (i < static_cast<long long>(job.rows) * job.columns)
    job.result[i / job.columns * job.result_row + i % job.columns] = job.bias[i % job.columns];
}

unsigned blocks_for(long long count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

}  // namespace

void launch_multiply(const MatrixJob& job, Precision precision, cudaStream_t stream) {
  with_format(precision, [&]<class S>(S) {
    multiply_kernel<S><<<static_cast<unsigned>(blocks_of(job)), kJobThreads, kJobSharedBytes, stream>>>(job);
  });
}

void launch_sum_rows(const void* matrix, Precision precision, float* sums, int rows, int columns, cudaStream_t stream) {
  with_format(precision, [&]<class S>(S) {
    sum_rows_kernel<<<blocks_for(32LL * columns), kThreads, 0, stream>>>(static_cast<const S*>(matrix), sums, rows, columns);
  });
}

void launch_change_format(const float* from, void* to, Precision precision, long long count, cudaStream_t stream) {
  with_format(precision,
              [&]<class S>(S) { change_format_kernel<<<blocks_for(count), kThreads, 0, stream>>>(from, static_cast<S*>(to), count); });
}

void launch_widen(const void* from, Precision precision, float* to, long long count, cudaStream_t stream) {
  with_format(precision,
              [&]<class S>(S) { widen_kernel<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<const S*>(from), to, count); });
}

void launch_single_step(const KernelShape& shape, int phase, const Parameters& p, int side, int step, const float* sums,
                        cudaStream_t stream) {
  with_cell(shape, [&]<class Cell>(Cell) {
    const unsigned blocks = blocks_for(static_cast<long long>(p.batch) * p.hidden);
    if constexpr (Cell::kPhases == 2) {
      if (phase == 1) {
        single_step_kernel<Cell, 1><<<blocks, kThreads, 0, stream>>>(p, side, step, sums);
        return;
      }
    }
    single_step_kernel<Cell, 0><<<blocks, kThreads, 0, stream>>>(p, side, step, sums);
  });
}

void launch_spread_bias(const MatrixJob& job, cudaStream_t stream) {
  spread_bias_kernel<<<blocks_for(static_cast<long long>(job.rows) * job.columns), kThreads, 0, stream>>>(job);
}

}  // namespace millrace::rnn
