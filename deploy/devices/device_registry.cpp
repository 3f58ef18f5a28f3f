#include "deploy/devices/device_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <thread>

#include "core/base/build_info.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace millrace {

// One of these for each file of this folder. What stands in for everything comes last.
std::vector<DeviceKind> reference_kinds(), emulated_fpga_kinds(), xrt_fpga_kinds(), cosim_kinds(), gpu_kinds(), cpu_kinds();

namespace {

constexpr auto kEveryFile = {reference_kinds, emulated_fpga_kinds, xrt_fpga_kinds, cosim_kinds, gpu_kinds, cpu_kinds};

const std::vector<DeviceKind>& device_kinds() {
  static const std::vector<DeviceKind> all = [] {
    std::vector<DeviceKind> kinds;
    for (const auto make : kEveryFile) std::ranges::move(make(), std::back_inserter(kinds));
    return kinds;
  }();
  return all;
}

const DeviceKind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(device_kinds(), name, &DeviceKind::name);
  return found == device_kinds().end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> computing_kinds() {
  std::vector<std::string> names;
  for (const DeviceKind& kind : device_kinds()) names.push_back(kind.name);
  return names;
}

const DeviceKind& device_kind(std::string_view name) {
  if (const DeviceKind* kind = find_kind(name)) return *kind;
  fail(ErrorCode::kUsage, "this build cannot compute on a device of kind \"{}\"{}", name, suggestion(name, computing_kinds()));
}

bool can_compute_on(std::string_view kind) { return find_kind(kind) != nullptr; }

const DeviceKind& stand_in_for(std::optional<Hardware> hardware, const DeviceOptions& options) {
  const auto found =
      std::ranges::find_if(device_kinds(), [&](const DeviceKind& kind) { return kind.stands_in && kind.stands_in(hardware, options); });
  MILLRACE_CHECK(found != device_kinds().end(), "nothing stands in for a device of kind {}", hardware ? name_of(*hardware) : "unknown");
  return *found;
}

void refuse_cpu_options(std::string_view what, const DeviceOptions& options) {
  if (options.threads != 1)
    fail(ErrorCode::kUsage, "--threads {}: {} computes on one; leave it out, or use --cluster cpu", options.threads, what);
  if (!options.kernel_table.empty())
    fail(ErrorCode::kUsage, "--kernel-table {}: {} has no kernels to choose from; leave it out, or use --cluster cpu", options.kernel_table,
         what);
}

uint32_t turn_on_host(uint32_t opened) {
  const auto number_in = [](std::initializer_list<const char*> names, uint32_t otherwise) {
    for (const char* name : names)
      if (const char* text = std::getenv(name); text != nullptr) return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
    return otherwise;
  };
  const uint32_t rank = number_in({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0);
  return rank + opened * number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}, 1);
}

void warn_of_threads(int64_t threads) {
  const int64_t processors = std::thread::hardware_concurrency();  // those that this process may use; 0: nobody knows
  if (processors > 0 && threads > processors)
    log::warning("--threads {}: this process may use {} processor{}, and more threads than that wait for each other", threads, processors,
                 processors == 1 ? "" : "s");
}

std::unique_ptr<Device> open_device(std::string_view kind, const DeviceOptions& options) { return device_kind(kind).open(options); }

bool needs_plan(std::string_view kind) {
  const DeviceKind* known = find_kind(kind);
  return known != nullptr && known->prepare;
}

void prepare_devices(std::string_view kind, const DeviceOptions& options) {
  const DeviceKind& known = device_kind(kind);
  if (known.prepare) known.prepare(options);
}

std::map<std::string, std::string> fingerprint_of(std::string_view kind, Device& device, const DeviceOptions& options) {
  std::map<std::string, std::string> facts = {{"millrace", std::string(kVersion)},
                                              {"compiler", std::string(kCompiler)},
                                              {"compiler_flags", std::string(kCompilerFlags)},
                                              {"device", device.description()}};
  if (const DeviceKind& known = device_kind(kind); known.fingerprint) known.fingerprint(options, facts);
  return facts;
}

}  // namespace millrace
