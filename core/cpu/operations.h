// One maker per operation, told apart by its type (core/device/dispatch.h); each lives in the source file of its name. Internal to
// core/cpu.
#pragma once

#include <memory>

#include "core/cpu/engine.h"
#include "core/device/device.h"

namespace millrace::cpu {

using SharedEngine = std::shared_ptr<Engine>;

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// Null where the shape does not lend itself to it: maps of more than a few positions, groups.
std::unique_ptr<Kernel> make_taps_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// Null where the shape does not: maps of more than sixteen positions or fewer than five, strides, groups.
std::unique_ptr<Kernel> make_small_map_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// Null where the engine computes in fp32, or the shape has no blocks of sixteen channels on both sides.
std::unique_ptr<Kernel> make_half_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Dense& operation);
// Null where the engine computes in fp32.
std::unique_ptr<Kernel> make_half_dense(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_finish(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Pool2d& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const GlobalPool& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Activation& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const BatchNorm& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const LocalResponseNorm& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Dropout& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Add&);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Concat&);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Flatten&);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const ToSequence&);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const LastStep&);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const SoftmaxCrossEntropy&);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Recurrent& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Embedding& operation);
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const CtcLoss& operation);

}  // namespace millrace::cpu
