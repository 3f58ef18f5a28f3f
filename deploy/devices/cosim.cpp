// The generated RTL of a plan's device, simulated: alone, and behind XRT's emulation.
// Planned as a small board, whose engines are small enough to be simulated.
#include <fmt/format.h>

#include "core/base/error.h"
#include "deploy/devices/device_kind.h"
#include "fpga/cosim/cosim_device.h"
#include "fpga/xrt/device/xrt_fpga.h"

namespace millrace {
namespace {

const Plan& plan_of(const DeviceOptions& options) {
  if (options.plan == nullptr)
    fail(ErrorCode::kUsage, "cosim simulates the hardware that a plan has for a device of a ring; train with --cluster cosimx2");
  return *options.plan;
}

std::unique_ptr<Device> open_cosim(const DeviceOptions& options) {
  refuse_cpu_options("a simulated device", options);
  const Plan& plan = plan_of(options);
  return make_cosim_device(plan, Graph(plan.model), options.index, {});
}

// The same engines behind XRT's emulation.
std::unique_ptr<Device> open_xrt_cosim(const DeviceOptions& options) {
  refuse_cpu_options("a simulated device", options);
  return make_xrt_fpga(
      {.emulated = true, .body = fmt::format("rtl:plan.textproto#{}", options.index), .plan = text_of(plan_of(options)), .seconds = 900});
}

void prepare_cosim(const DeviceOptions& options) {
  const Plan& plan = plan_of(options);
  build_cosim_engines(plan, Graph(plan.model), options.index, {});
}

}  // namespace

std::vector<DeviceKind> cosim_kinds() {
  return {{.name = "cosim", .planned_as = "zc706", .open = open_cosim, .prepare = prepare_cosim},
          {.name = "xrt-cosim", .planned_as = "zc706", .open = open_xrt_cosim, .prepare = prepare_cosim}};
}

}  // namespace millrace
