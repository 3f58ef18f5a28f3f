// Boards by XRT, and XRT's software emulation of them around the functional model.
// Planned as a small board, whose engines are small enough to be simulated.
#include "fpga/xrt/device/xrt_fpga.h"

#include <cstdlib>

#include "core/base/error.h"
#include "deploy/devices/device_kind.h"

namespace millrace {
namespace {

std::unique_ptr<Device> open_xrt_emulation(const DeviceOptions& options) {
  refuse_cpu_options("the FPGA in XRT's emulation", options);
  return make_xrt_fpga({.emulated = true});
}

std::unique_ptr<Device> open_xrt_board(const DeviceOptions& options) {
  refuse_cpu_options("the FPGA", options);
  const char* design = std::getenv("MILLRACE_XCLBIN");
  if (design == nullptr)
    fail(ErrorCode::kUsage, "an xrt-fpga needs the file of its design; name it in MILLRACE_XCLBIN, or use --cluster xrt-emulated-fpga");
  static uint32_t opened = 0;
  return make_xrt_fpga({.emulated = false, .board = turn_on_host(opened++), .xclbin = design});
}

}  // namespace

std::vector<DeviceKind> xrt_fpga_kinds() {
  return {{.name = "xrt-emulated-fpga", .planned_as = "zc706", .open = open_xrt_emulation, .has_formats = true},
          {.name = "xrt-fpga", .planned_as = "zc706", .open = open_xrt_board, .has_formats = true}};
}

}  // namespace millrace
