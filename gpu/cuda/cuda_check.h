// Turns return codes of CUDA, cuDNN and cuBLAS into failures. Internal to gpu/cuda.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

#include "gpu/device/engine.h"

namespace millrace::gpu {

inline void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) [[likely]]
    return;
  throw Failure(Failure::Kind::kBroken, std::string("the GPU failed: ") + call + ": " + cudaGetErrorString(code) +
                                            "; compute-sanitizer says more, and nvidia-smi whether it is still there");
}
inline void check(cudnnStatus_t code, const char* call) {
  if (code == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  throw Failure(Failure::Kind::kBroken, std::string("cuDNN failed: ") + call + ": " + cudnnGetErrorString(code));
}
inline void check(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw Failure(Failure::Kind::kBroken, std::string("cuBLAS failed: ") + call + ": " + cublasGetStatusString(code));
}

}  // namespace millrace::gpu

#define MILLRACE_CUDA(call) ::millrace::gpu::check(call, #call)
