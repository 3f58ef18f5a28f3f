// The CPU device: convolutions and matrix products by oneDNN, everything else by loops over the same blocked layouts,
// in fp32.
//
//   std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
//
// Activations stay in blocks of 16 (AVX-512) or 8 channels between layers; weights lie as the forward pass and the
// parameter gradient want them, and what EB wants is packed anew after parameters changed, not per call. A call
// allocates nothing once its kernel is made, apart from what oneDNN does inside.
// Kernels and tensors may outlive the device.
//
// Bitwise: the same calls give the same bits for one instruction set, one kernel table and one number of threads. With
// other thread counts, oneDNN may sum parameter gradients and matrix products in another order; all other operations
// do not depend on it.
// In bf16 (CpuOptions::precision), the products of dense layers and of convolutions between blocks of 16 channels take operands rounded to
// bf16 and add in fp32; tensors, weights, gradients and all else stay fp32. What a layer does follows from its shape and the instruction
// set alone. With AMX convolutions of four samples or more run in its tiles, the others in fp32.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/device/device.h"

namespace millrace {

enum class CpuPrecision { kFloat32, kBfloat16 };
std::string_view name_of(CpuPrecision precision);
CpuPrecision cpu_precision_from(std::string_view name);  // fails with kUsage
// Whether this processor, as far as the environment lets it be used, multiplies in bf16: AVX-512 BF16, which comes with AMX, too.
bool cpu_has_bf16();

struct CpuOptions {
  int threads = 1;
  std::string kernel_table = {};  // a file that overrides entries of the shipped one (kernel_table.h); empty: none
  CpuPrecision precision = CpuPrecision::kFloat32;
};

// Fails with kUsage on fewer than one thread, with kUnavailable on bf16 where the processor has none, and as KernelTable::load does.
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options = {});

// Of the table a device with these options uses, for a run's fingerprint.
std::string kernel_table_digest(const CpuOptions& options = {});

}  // namespace millrace
