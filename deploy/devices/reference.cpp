// Plain loops, for comparisons on small networks.
#include "core/base/error.h"
#include "core/reference/reference_device.h"
#include "deploy/devices/device_kind.h"

namespace millrace {
namespace {

std::unique_ptr<Device> open_reference(ElementType type, const DeviceOptions& options) {
  if (options.threads != 1)
    fail(ErrorCode::kUsage, "--threads {}: the reference computes on one; leave it out, or use --cluster cpu", options.threads);
  if (!options.kernel_table.empty())
    fail(ErrorCode::kUsage, "--kernel-table {}: the reference has no kernels to choose from; leave it out, or use --cluster cpu",
         options.kernel_table);
  return make_reference_device(type);
}

}  // namespace

std::vector<DeviceKind> reference_kinds() {
  return {{.name = "reference",
           .planned_as = "cpu",
           .open = [](const DeviceOptions& options) { return open_reference(ElementType::kFloat32, options); }},
          {.name = "reference64",
           .planned_as = "cpu",
           .arithmetic = Arithmetic{ElementType::kFloat64, ElementType::kFloat64},
           .open = [](const DeviceOptions& options) { return open_reference(ElementType::kFloat64, options); }}};
}

}  // namespace millrace
