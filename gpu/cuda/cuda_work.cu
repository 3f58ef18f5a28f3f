#include <variant>

#include "gpu/cuda/cuda_check.h"
#include "gpu/cuda/cuda_work.h"

namespace millrace::gpu {

namespace {

constexpr int kThreads = 256;

template <typename Work>
__global__ void run_elements(Work work) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < work.elements; i += step) work(i);
}

__global__ void run_convolution(DirectConvolution work) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t elements = work.elements();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) work(i);
}

template <typename Work>
__global__ void run_groups(Work work) {
  __shared__ Sums shares[kReductionThreads];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t group = blockIdx.x; group < work.groups; group += gridDim.x) {
    shares[thread] = share_of_thread(work, group, thread);
    __syncthreads();
    for (int half = kReductionThreads / 2; half > 0; half /= 2) {
      if (thread < half) shares[thread] += shares[thread + half];
      __syncthreads();
    }
    if (thread == 0) work.finish(group, shares[0]);
    __syncthreads();
  }
}

unsigned blocks_for(int64_t count) {
  constexpr int64_t kMost = 1 << 20;  // work beyond that is taken in turns
  return static_cast<unsigned>(count < kMost ? count : kMost);
}

}  // namespace

bool is_compiled_for_current_gpu() {
  cudaFuncAttributes attributes{};
  const bool compiled = cudaFuncGetAttributes(&attributes, run_convolution) == cudaSuccess;
  cudaGetLastError();
  return compiled;
}

void launch(const ElementWork& work, cudaStream_t stream) {
  std::visit(
      [stream](const auto& w) {
        if (w.elements == 0) return;
        run_elements<<<blocks_for((w.elements + kThreads - 1) / kThreads), kThreads, 0, stream>>>(w);
      },
      work);
  MILLRACE_CUDA(cudaGetLastError());
}

void launch(const DirectConvolution& work, cudaStream_t stream) {
  run_convolution<<<blocks_for((work.elements() + kThreads - 1) / kThreads), kThreads, 0, stream>>>(work);
  MILLRACE_CUDA(cudaGetLastError());
}

void launch(const ReductionWork& work, cudaStream_t stream) {
  std::visit(
      [stream](const auto& w) {
        if (w.groups == 0) return;
        run_groups<<<blocks_for(w.groups), kReductionThreads, 0, stream>>>(w);
      },
      work);
  MILLRACE_CUDA(cudaGetLastError());
}

}  // namespace millrace::gpu
