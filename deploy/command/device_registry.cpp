#include "deploy/command/device_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cpu/cpu_device.h"
#include "core/reference/reference_device.h"
#include "fpga/emulated/emulated_fpga.h"

namespace millrace {
namespace {

struct DeviceKind {
  std::string name;
  std::function<std::unique_ptr<Device>(const DeviceOptions&)> open;
  // Adds what this kind's numbers depend on.
  std::function<void(const DeviceOptions&, std::map<std::string, std::string>&)> fingerprint;
};

CpuOptions cpu_options(const DeviceOptions& options) { return {.threads = options.threads, .kernel_table = options.kernel_table}; }

std::unique_ptr<Device> open_reference(ElementType type, const DeviceOptions& options) {
  if (options.threads != 1)
    fail(ErrorCode::kUsage, "--threads {}: the reference computes on one; leave it out, or use --cluster cpu", options.threads);
  if (!options.kernel_table.empty())
    fail(ErrorCode::kUsage, "--kernel-table {}: the reference has no kernels to choose from; leave it out, or use --cluster cpu",
         options.kernel_table);
  return make_reference_device(type);
}

std::unique_ptr<Device> open_emulated_fpga(EngineArithmetic arithmetic, const DeviceOptions& options) {
  if (options.threads != 1)
    fail(ErrorCode::kUsage, "--threads {}: the emulated FPGA computes on one; leave it out, or use --cluster cpu", options.threads);
  if (!options.kernel_table.empty())
    fail(ErrorCode::kUsage, "--kernel-table {}: the emulated FPGA has no kernels to choose from; leave it out, or use --cluster cpu",
         options.kernel_table);
  return make_emulated_fpga(arithmetic);
}

const std::vector<DeviceKind>& kinds() {
  static const std::vector<DeviceKind> all = {
      {"cpu", [](const DeviceOptions& options) { return make_cpu_device(cpu_options(options)); },
       [](const DeviceOptions& options, auto& facts) {
         facts["kernel_table"] = kernel_table_digest(cpu_options(options));
         facts["threads_per_rank"] = fmt::format("{}", options.threads);
       }},
      {"reference", [](const DeviceOptions& options) { return open_reference(ElementType::kFloat32, options); },
       [](const DeviceOptions&, auto&) {}},
      {"reference64", [](const DeviceOptions& options) { return open_reference(ElementType::kFloat64, options); },
       [](const DeviceOptions&, auto&) {}},
      {"emulated-fpga", [](const DeviceOptions& options) { return open_emulated_fpga(EngineArithmetic::kFixed16, options); },
       [](const DeviceOptions&, auto&) {}},
      {"emulated-fpga-fp32", [](const DeviceOptions& options) { return open_emulated_fpga(EngineArithmetic::kFloat32, options); },
       [](const DeviceOptions&, auto&) {}},
  };
  return all;
}

const DeviceKind& kind_of(std::string_view name) {
  std::vector<std::string> known;
  for (const DeviceKind& kind : kinds()) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  fail(ErrorCode::kUsage, "this build cannot compute on a device of kind \"{}\"{}", name, suggestion(name, known));
}

}  // namespace

bool can_compute_on(std::string_view kind) {
  return std::ranges::any_of(kinds(), [kind](const DeviceKind& known) { return known.name == kind; });
}

std::unique_ptr<Device> open_device(std::string_view kind, const DeviceOptions& options) { return kind_of(kind).open(options); }

std::map<std::string, std::string> fingerprint_of(std::string_view kind, Device& device, const DeviceOptions& options) {
  std::map<std::string, std::string> facts = {{"millrace", std::string(kVersion)},
                                              {"compiler", std::string(kCompiler)},
                                              {"compiler_flags", std::string(kCompilerFlags)},
                                              {"device", device.description()}};
  kind_of(kind).fingerprint(options, facts);
  return facts;
}

}  // namespace millrace
