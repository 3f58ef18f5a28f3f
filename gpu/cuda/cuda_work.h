// Element and reduction work as kernels. Internal to gpu/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/device/direct_convolution.h"
#include "gpu/device/element_work.h"
#include "gpu/device/reduction_work.h"

namespace millrace::gpu {

// Whether the kernels were compiled for the current GPU, in machine code or as PTX that its driver compiles.
bool is_compiled_for_current_gpu();

// One thread for each index.
void launch(const ElementWork& work, cudaStream_t stream);
void launch(const DirectConvolution& work, cudaStream_t stream);
// One block for each group; its sum is that of reduced().
void launch(const ReductionWork& work, cudaStream_t stream);

}  // namespace millrace::gpu
