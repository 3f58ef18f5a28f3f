// One maker per operation, told apart by its type (core/device/dispatch.h); each lives in the source file of its name. Internal to
// core/reference. Each is instantiated for float and double.
#pragma once

#include <memory>

#include "core/device/device.h"

namespace millrace::reference {

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Conv2d& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Dense& operation);
// The bias behind a raw sum: KernelSpec::finish.
template <typename T>
std::unique_ptr<Kernel> make_finish(const KernelSpec& spec);
// KernelSpec::units of a recurrent layer.
template <typename T>
std::unique_ptr<Kernel> make_shared_steps(const KernelSpec& spec);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Pool2d& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const GlobalPool& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Activation& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const BatchNorm& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const LocalResponseNorm& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Dropout& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Add& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Concat& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Flatten& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const ToSequence& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const LastStep& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const SoftmaxCrossEntropy& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Recurrent& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Embedding& operation);
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const CtcLoss& operation);

}  // namespace millrace::reference
