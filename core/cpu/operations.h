// The makers of kernels beside make_kernel_for, which every operation has one of (kernels.h); each lives in the source file of its
// name. Internal to core/cpu.
#pragma once

#include <memory>

#include "core/cpu/engine.h"
#include "core/device/device.h"

namespace millrace::cpu {

using SharedEngine = std::shared_ptr<Engine>;

// Null where the shape does not lend itself to it: maps of more than a few positions, groups.
std::unique_ptr<Kernel> make_taps_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// Null where the shape does not: maps of more than sixteen positions or fewer than five, strides, groups.
std::unique_ptr<Kernel> make_small_map_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// Null where the engine computes in fp32, or the shape has no blocks of sixteen channels on both sides.
std::unique_ptr<Kernel> make_half_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// For processors with AMX. Null where the shape has no blocks of sixteen channels on both sides, or too few samples fill a tile.
std::unique_ptr<Kernel> make_tile_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// Null where the engine computes in fp32.
std::unique_ptr<Kernel> make_half_dense(const SharedEngine& engine, const KernelSpec& spec);
// Of KernelSpec::in_parts, without bias or activation.
std::unique_ptr<Kernel> make_step_products(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_finish(const SharedEngine& engine, const KernelSpec& spec);

}  // namespace millrace::cpu
