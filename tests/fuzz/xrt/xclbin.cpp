// A file that is accepted is read back equal once it is written again, and is checked against our design.
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/error.h"
#include "fpga/xrt/device/engine_design.h"

namespace {

// Names longer than the format has room for cannot be written.
bool is_writable(const millrace::xrt::Xclbin& design) {
  for (const auto& kernel : design.kernels) {
    for (const auto& instance : kernel.instances)
      if (kernel.name.size() + 1 + instance.name.size() > 63) return false;
    if (kernel.name.find(':') != std::string::npos) return false;
    // Connections are written with an instance.
    if (kernel.instances.empty()) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace::xrt;
  try {
    const Xclbin design = xclbin_from({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    if (is_writable(design))
      MILLRACE_CHECK(xclbin_from(bytes_of(design), "written").kernels == design.kernels, "kernels change on the way");
    check_design(design, "fuzz");
  } catch (const millrace::Error&) {
  }
  return 0;
}
