// The makers of kernels beside make_kernel_for, which every operation has one of (kernels.h); each lives in the source file of its
// name. Internal to gpu/device.
#pragma once

#include <memory>

#include "gpu/device/gpu_kernel.h"

namespace millrace::gpu {

std::unique_ptr<Kernel> make_finish(const SharedContext& context, const KernelSpec& spec);

}  // namespace millrace::gpu
