#include "fpga/xrt/device/engine_design.h"

#include <algorithm>

#include "core/base/error.h"
#include "fpga/conv_ce/registers/register_map.h"

namespace millrace::xrt {

namespace {

XclbinKernel engine_kernel() {
  XclbinKernel kernel{.name = std::string(kKernelName), .map_bytes = kMapBytes};
  for (const KernelArgument& argument : kernel_arguments())
    kernel.arguments.push_back({.name = std::string(argument.name),
                                .bytes = argument.bytes,
                                .offset = argument.offset,
                                .memory = argument.pointer ? std::optional<int32_t>(0) : std::nullopt});
  kernel.instances.push_back({.name = std::string(kInstanceName), .base = 0x1400000});
  return kernel;
}

}  // namespace

Xclbin engine_design() {
  Xclbin design{.platform = "millrace_emulated", .target = XclbinTarget::kSoftwareEmulation};
  design.memories.push_back({.tag = "bank0", .base = 0, .kilobytes = 4 << 20});
  design.kernels.push_back(engine_kernel());
  return design;
}

void check_design(const Xclbin& xclbin, std::string_view where) {
  const XclbinKernel& kernel = kernel_of(xclbin, kKernelName, where);
  const XclbinKernel wanted = engine_kernel();
  if (kernel.instances.empty()) fail(ErrorCode::kMismatch, "{}: kernel {} has no instance", where, kernel.name);
  for (size_t i = 0; i < wanted.arguments.size(); ++i) {
    const XclbinArgument& due = wanted.arguments[i];
    if (i >= kernel.arguments.size())
      fail(ErrorCode::kMismatch, "{}: kernel {} has {} arguments, and register map {} has {}; build it with the map of this version", where,
           kernel.name, kernel.arguments.size(), kMapVersion, wanted.arguments.size());
    const XclbinArgument& found = kernel.arguments[i];
    if (found.name != due.name || found.offset != due.offset || found.bytes != due.bytes)
      fail(ErrorCode::kMismatch,
           "{}: argument {} of kernel {} is {} ({} bytes at {:#x}), and in register map {} it is {} ({} bytes at {:#x})", where, i,
           kernel.name, found.name, found.bytes, found.offset, kMapVersion, due.name, due.bytes, due.offset);
    if (due.memory && !found.memory)
      fail(ErrorCode::kMismatch, "{}: argument {} of kernel {} is connected to no memory", where, found.name, kernel.name);
    if (due.memory && found.memory != kernel.arguments[kScalarCount].memory)
      fail(ErrorCode::kMismatch, "{}: the pointers of kernel {} lie in different memories; connect all of them to one", where, kernel.name);
  }
}

}  // namespace millrace::xrt
