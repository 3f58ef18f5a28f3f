// The engines as their functional models, with straight lines or with tables for sigmoid and tanh, and the same dataflow in fp32.
// Planned as a small board, whose engines are small enough to be simulated.
#include "fpga/emulated/emulated_fpga.h"

#include "deploy/devices/device_kind.h"

namespace millrace {
namespace {

std::unique_ptr<Device> open_emulated_fpga(EngineArithmetic arithmetic, const DeviceOptions& options) {
  refuse_cpu_options("the emulated FPGA", options);
  return make_emulated_fpga(arithmetic);
}

}  // namespace

std::vector<DeviceKind> emulated_fpga_kinds() {
  return {{.name = "emulated-fpga",
           .planned_as = "zc706",
           .open = [](const DeviceOptions& options) { return open_emulated_fpga(EngineArithmetic::kFixed16, options); },
           .has_formats = true},
          {.name = "emulated-fpga-tables",
           .planned_as = "zc706",
           .open =
               [](const DeviceOptions& options) {
                 refuse_cpu_options("the emulated FPGA", options);
                 auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
                 device->use_gates(TanhForm::kTable);
                 return device;
               },
           .has_formats = true},
          {.name = "emulated-fpga-fp32", .planned_as = "zc706", .open = [](const DeviceOptions& options) {
             return open_emulated_fpga(EngineArithmetic::kFloat32, options);
           }}};
}

}  // namespace millrace
