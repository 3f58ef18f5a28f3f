// The CPU engine, which also stands in for whatever this build or machine cannot drive.
#include <fmt/format.h>

#include "core/cpu/cpu_device.h"
#include "deploy/devices/device_kind.h"

namespace millrace {
namespace {

CpuPrecision cpu_precision_of(const DeviceOptions& options) {
  return options.cpu_precision.empty() ? CpuPrecision::kFloat32 : cpu_precision_from(options.cpu_precision);
}

CpuOptions cpu_options(const DeviceOptions& options) {
  return {.threads = options.threads, .kernel_table = options.kernel_table, .precision = cpu_precision_of(options)};
}

}  // namespace

std::vector<DeviceKind> cpu_kinds() {
  return {
      {.name = "cpu",
       .planned_as = "cpu",
       .open = [](const DeviceOptions& options) { return make_cpu_device(cpu_options(options)); },
       .fingerprint =
           [](const DeviceOptions& options, Fingerprint& facts) {
             facts["kernel_table"] = kernel_table_digest(cpu_options(options));
             facts["cpu_precision"] = name_of(cpu_precision_of(options));
             facts["threads_per_rank"] = fmt::format("{}", options.threads);
           },
       .stands_in = [](std::optional<Hardware>, const DeviceOptions&) { return true; },
       .as_stand_in = [](const DeviceOptions& options) { return fmt::format("the CPU engine in {}", name_of(cpu_precision_of(options))); },
       .takes_cpu_precision = true,
       .on_calling_thread = true}};
}

}  // namespace millrace
