// NVIDIA GPUs, for every GPU of the catalogue where this machine has one.
#include <fmt/format.h>

#include <algorithm>

#include "deploy/devices/device_kind.h"
#include "gpu/device/gpu_device.h"
#include "gpu/device/gpu_module.h"

namespace millrace {
namespace {

std::string precision_of(const DeviceOptions& options) { return options.gpu_precision.empty() ? "fp32" : options.gpu_precision; }

// More devices than GPUs share them.
std::unique_ptr<Device> open_gpu(const DeviceOptions& options) {
  const gpu::Precision precision = options.gpu_precision.empty() ? gpu::Precision::kFloat32 : gpu_precision_from(options.gpu_precision);
  static uint32_t opened = 0;
  const int count = std::max(1, count_gpus().count);  // with none, GPU 0 is refused by name
  auto engine = open_gpu_engine(static_cast<int>(turn_on_host(opened++)) % count);
  return make_gpu_device(std::move(engine), {.precision = precision,
                                             .measure_algorithms = !options.gpu_algorithms.empty(),
                                             .algorithms = options.gpu_algorithms,
                                             .graphs = options.gpu_graphs});
}

}  // namespace

std::vector<DeviceKind> gpu_kinds() {
  return {{.name = "gpu",
           .planned_as = "h200",
           .open = open_gpu,
           .fingerprint =
               [](const DeviceOptions& options, Fingerprint& facts) {
                 facts["gpu_precision"] = precision_of(options);
                 if (!options.gpu_algorithms.empty()) facts["gpu_algorithms"] = options.gpu_algorithms;
               },
           .stands_in =
               [](std::optional<Hardware> hardware, const DeviceOptions& options) {
                 return hardware == Hardware::kGpu && options.gpus != GpuUse::kOff && count_gpus().count > 0;
               },
           .as_stand_in = [](const DeviceOptions& options) { return fmt::format("GPUs in {}", precision_of(options)); }}};
}

}  // namespace millrace
