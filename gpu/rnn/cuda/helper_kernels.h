// Internal to gpu/rnn: launches of the kernels around the recurrence (kernels/dense.h), compiled by nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/rnn/machine.h"

namespace millrace::rnn {

void launch_multiply(const MatrixJob& job, Precision precision, cudaStream_t stream);
void launch_sum_rows(const void* matrix, Precision precision, float* sums, int rows, int columns, cudaStream_t stream);
void launch_change_format(const float* from, void* to, Precision precision, long long count, cudaStream_t stream);
void launch_widen(const void* from, Precision precision, float* to, long long count, cudaStream_t stream);
void launch_single_step(const KernelShape& shape, int phase, const Parameters& p, int side, int step, const float* sums,
                        cudaStream_t stream);
// result[row][column] = bias[column], where a library's product adds to what is there.
void launch_spread_bias(const MatrixJob& job, cudaStream_t stream);

}  // namespace millrace::rnn
