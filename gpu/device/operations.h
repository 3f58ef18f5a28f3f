// One maker per operation, told apart by its type (core/device/dispatch.h); each lives in the source file of its name. Internal to
// gpu/device.
#pragma once

#include <memory>

#include "gpu/device/gpu_kernel.h"

namespace millrace::gpu {

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Conv2d& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Dense& operation);
std::unique_ptr<Kernel> make_finish(const SharedContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Pool2d& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const GlobalPool& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Activation& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const BatchNorm& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const LocalResponseNorm& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Dropout& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Add&);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Concat&);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Flatten&);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const ToSequence&);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const LastStep&);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Recurrent& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Embedding& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const CtcLoss& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const SoftmaxCrossEntropy&);

}  // namespace millrace::gpu
