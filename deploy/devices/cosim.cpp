// The generated RTL of a plan's device, simulated: alone, and behind XRT's emulation; with straight lines or with tables for sigmoid and
// tanh of recurrent layers.
// Planned as a small board, whose engines are small enough to be simulated.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "deploy/devices/device_kind.h"
#include "fpga/cosim/cosim_device.h"
#include "fpga/xrt/device/xrt_fpga.h"

namespace millrace {

std::vector<DeviceKind> cosim_kinds();

namespace {

const Plan& plan_of(const DeviceOptions& options) {
  if (options.plan == nullptr)
    fail(ErrorCode::kUsage, "cosim simulates the hardware that a plan has for a device of a ring; train with --cluster cosimx2");
  return *options.plan;
}

std::unique_ptr<EmulatedFpga> cosim_of(const DeviceOptions& options) {
  refuse_cpu_options("a simulated device", options);
  const Plan& plan = plan_of(options);
  return make_cosim_device(plan, Graph(plan.model), options.index, {});
}

// The same engines behind XRT's emulation.
std::unique_ptr<EmulatedFpga> xrt_cosim_of(const DeviceOptions& options) {
  refuse_cpu_options("a simulated device", options);
  return make_xrt_fpga(
      {.emulated = true, .body = fmt::format("rtl:plan.textproto#{}", options.index), .plan = text_of(plan_of(options)), .seconds = 900});
}

void prepare(const DeviceOptions& options, TanhForm smooth) {
  const Plan& plan = plan_of(options);
  build_cosim_engines(plan, Graph(plan.model), options.index, {}, smooth, [](std::string_view name) {
    return std::ranges::any_of(cosim_kinds(), [name](const DeviceKind& kind) { return kind.name == name; });
  });
}
void prepare_lines(const DeviceOptions& options) { prepare(options, TanhForm::kPlan); }
void prepare_tables(const DeviceOptions& options) { prepare(options, TanhForm::kTable); }

// Plans count no block of memory for the tables.
std::unique_ptr<Device> with_tables(std::unique_ptr<EmulatedFpga> device) {
  device->use_gates(TanhForm::kTable);
  return device;
}

}  // namespace

std::vector<DeviceKind> cosim_kinds() {
  return {{.name = "cosim", .planned_as = "zc706", .open = cosim_of, .prepare = prepare_lines, .has_formats = true},
          {.name = "xrt-cosim", .planned_as = "zc706", .open = xrt_cosim_of, .prepare = prepare_lines, .has_formats = true},
          {.name = "cosim-tables",
           .planned_as = "zc706",
           .open = [](const DeviceOptions& options) { return with_tables(cosim_of(options)); },
           .prepare = prepare_tables,
           .has_formats = true},
          {.name = "xrt-cosim-tables",
           .planned_as = "zc706",
           .open = [](const DeviceOptions& options) { return with_tables(xrt_cosim_of(options)); },
           .prepare = prepare_tables,
           .has_formats = true}};
}

}  // namespace millrace
