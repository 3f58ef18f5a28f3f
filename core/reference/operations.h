// The makers of kernels beside make_kernel_for, which every operation has one of (kernels.h); each lives in the source file of its
// name. Internal to core/reference. Each is instantiated for float and double.
#pragma once

#include <memory>

#include "core/device/device.h"

namespace millrace::reference {

// The bias behind a raw sum: KernelSpec::finish.
template <typename T>
std::unique_ptr<Kernel> make_finish(const KernelSpec& spec);
// KernelSpec::units of a recurrent layer.
template <typename T>
std::unique_ptr<Kernel> make_shared_steps(const KernelSpec& spec);

}  // namespace millrace::reference
