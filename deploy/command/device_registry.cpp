#include "deploy/command/device_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/cpu/cpu_device.h"
#include "core/reference/reference_device.h"
#include "fpga/cosim/cosim_device.h"
#include "fpga/emulated/emulated_fpga.h"
#include "fpga/xrt/device/xrt_fpga.h"
#include "gpu/device/gpu_device.h"
#include "gpu/module/gpu_module.h"

namespace millrace {
namespace {

struct DeviceKind {
  std::string name;
  std::function<std::unique_ptr<Device>(const DeviceOptions&)> open;
  // Adds what this kind's numbers depend on.
  std::function<void(const DeviceOptions&, std::map<std::string, std::string>&)> fingerprint;
  std::function<void(const DeviceOptions&)> prepare = {};  // what takes long, before anybody waits for anybody
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

void refuse_cpu_options(std::string_view what, const DeviceOptions& options) {
  if (options.threads != 1)
    fail(ErrorCode::kUsage, "--threads {}: {} computes on one; leave it out, or use --cluster cpu", options.threads, what);
  if (!options.kernel_table.empty())
    fail(ErrorCode::kUsage, "--kernel-table {}: {} has no kernels to choose from; leave it out, or use --cluster cpu", options.kernel_table,
         what);
}

std::unique_ptr<Device> open_emulated_fpga(EngineArithmetic arithmetic, const DeviceOptions& options) {
  refuse_cpu_options("the emulated FPGA", options);
  return make_emulated_fpga(arithmetic);
}

std::unique_ptr<Device> open_xrt_emulation(const DeviceOptions& options) {
  refuse_cpu_options("the FPGA in XRT's emulation", options);
  return make_xrt_fpga({.emulated = true});
}

// Ranks of one host take its boards and GPUs in turn; a rank with several devices takes as many. `opened`: so many before.
uint32_t turn_on_host(uint32_t opened) {
  const auto number_in = [](std::initializer_list<const char*> names, uint32_t otherwise) {
    for (const char* name : names)
      if (const char* text = std::getenv(name); text != nullptr) return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
    return otherwise;
  };
  const uint32_t rank = number_in({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0);
  return rank + opened * number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}, 1);
}

std::unique_ptr<Device> open_xrt_board(const DeviceOptions& options) {
  refuse_cpu_options("the FPGA", options);
  const char* design = std::getenv("MILLRACE_XCLBIN");
  if (design == nullptr)
    fail(ErrorCode::kUsage, "an xrt-fpga needs the file of its design; name it in MILLRACE_XCLBIN, or use --cluster xrt-emulated-fpga");
  static uint32_t opened = 0;
  return make_xrt_fpga({.emulated = false, .board = turn_on_host(opened++), .xclbin = design});
}

// More devices than GPUs share them.
std::unique_ptr<Device> open_gpu(const DeviceOptions& options) {
  const gpu::Precision precision = options.gpu_precision.empty() ? gpu::Precision::kFloat32 : gpu_precision_from(options.gpu_precision);
  static uint32_t opened = 0;
  const int count = std::max(1, count_gpus().count);  // with none, GPU 0 is refused by name
  auto engine = open_gpu_engine(static_cast<int>(turn_on_host(opened++)) % count);
  return make_gpu_device(
      std::move(engine),
      {.precision = precision, .measure_algorithms = !options.gpu_algorithms.empty(), .algorithms = options.gpu_algorithms});
}

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

const std::vector<DeviceKind>& device_kinds() {
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
      {"xrt-emulated-fpga", open_xrt_emulation, [](const DeviceOptions&, auto&) {}},
      {"xrt-fpga", open_xrt_board, [](const DeviceOptions&, auto&) {}},
      {"gpu", open_gpu,
       [](const DeviceOptions& options, auto& facts) {
         facts["gpu_precision"] = options.gpu_precision.empty() ? "fp32" : options.gpu_precision;
         if (!options.gpu_algorithms.empty()) facts["gpu_algorithms"] = options.gpu_algorithms;
       }},
      {"emulated-fpga-fp32", [](const DeviceOptions& options) { return open_emulated_fpga(EngineArithmetic::kFloat32, options); },
       [](const DeviceOptions&, auto&) {}},
      {"cosim", open_cosim, [](const DeviceOptions&, auto&) {}, prepare_cosim},
      {"xrt-cosim", open_xrt_cosim, [](const DeviceOptions&, auto&) {}, prepare_cosim},
  };
  return all;
}

const DeviceKind& kind_of(std::string_view name) {
  std::vector<std::string> known;
  for (const DeviceKind& kind : device_kinds()) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  fail(ErrorCode::kUsage, "this build cannot compute on a device of kind \"{}\"{}", name, suggestion(name, known));
}

}  // namespace

void warn_of_threads(int64_t threads) {
  const int64_t processors = std::thread::hardware_concurrency();  // those that this process may use; 0: nobody knows
  if (processors > 0 && threads > processors)
    log::warning("--threads {}: this process may use {} processor{}, and more threads than that wait for each other", threads, processors,
                 processors == 1 ? "" : "s");
}

bool can_compute_on(std::string_view kind) {
  return std::ranges::any_of(device_kinds(), [kind](const DeviceKind& known) { return known.name == kind; });
}

std::unique_ptr<Device> open_device(std::string_view kind, const DeviceOptions& options) { return kind_of(kind).open(options); }

bool needs_plan(std::string_view kind) {
  return std::ranges::any_of(device_kinds(), [kind](const DeviceKind& known) { return known.name == kind && known.prepare; });
}

void prepare_devices(std::string_view kind, const DeviceOptions& options) {
  const DeviceKind& known = kind_of(kind);
  if (known.prepare) known.prepare(options);
}

std::map<std::string, std::string> fingerprint_of(std::string_view kind, Device& device, const DeviceOptions& options) {
  std::map<std::string, std::string> facts = {{"millrace", std::string(kVersion)},
                                              {"compiler", std::string(kCompiler)},
                                              {"compiler_flags", std::string(kCompilerFlags)},
                                              {"device", device.description()}};
  kind_of(kind).fingerprint(options, facts);
  return facts;
}

}  // namespace millrace
