#include "deploy/session/machine_report.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "fpga/xrt/device/xrt_fpga.h"
#include "gpu/device/gpu_module.h"
#include "transport/nccl/line_module.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// --- The machine itself.

// The value behind "key: value" in a file like /proc/meminfo; "" when there is none.
std::string field_of(const char* file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const size_t start = line.find_first_not_of(" \t:", key.size());
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int64_t kilobytes_of(const char* key) {
  const std::string text = field_of("/proc/meminfo", key);
  return text.empty() ? 0 : std::atoll(text.c_str()) * 1024;
}

int usable_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

std::string isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41: return "SSE4.1";
    case dnnl::cpu_isa::avx: return "AVX";
    case dnnl::cpu_isa::avx2: return "AVX2";
    case dnnl::cpu_isa::avx2_vnni: return "AVX2 with VNNI";
    case dnnl::cpu_isa::avx512_mic:
    case dnnl::cpu_isa::avx512_mic_4ops: return "AVX-512 (Xeon Phi)";
    case dnnl::cpu_isa::avx512_core: return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni: return "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_bf16: return "AVX-512 with VNNI and bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "AVX-512 with AMX and bf16";
    default: return "baseline";
  }
}

// --- Programs.

std::string first_line_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"), &pclose);
  std::array<char, 256> buffer{};
  if (!pipe || std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) == nullptr) return "";
  std::string line(buffer.data());
  line.erase(std::find_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }), line.end());
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr) continue;  // or it dies of a closed pipe
  return line;
}

struct Tool {
  const char* program;
  const char* version_flag;
  const char* enables;
  const char* package;
};

constexpr Tool kTools[] = {
    {"mpirun", "--version", "rings over several processes and hosts", "openmpi-bin"},
    {"verilator", "--version", "generated RTL simulated, bit by bit against its model", "verilator"},
    {"yosys", "-V", "an independent count of what generated RTL takes", "yosys"},
    {"iverilog", "-V", "a second simulator for generated RTL", "iverilog"},
};

Finding find_tool(const Tool& tool) {
  Finding finding{tool.program, false, "", tool.enables, tool.package};
  const std::string path = program_on_path(tool.program);
  if (path.empty()) return finding;
  finding.present = true;
  finding.detail = first_line_of(fmt::format("'{}' {}", path, tool.version_flag));
  return finding;
}

// --- Drivers, loaded by name: linking them would keep the program from starting where they are absent.

class Driver {
 public:
  explicit Driver(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (handle_ == nullptr) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  ~Driver() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  bool loaded() const { return handle_ != nullptr; }
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};

Finding find_cuda() {
  Finding finding{"CUDA devices", false, "no driver", "layers and recurrent kernels on NVIDIA GPUs", ""};
  const Driver driver{"libcuda.so.1"};
  if (!driver.loaded()) return finding;
  auto* const initialise = driver.function<int(unsigned)>("cuInit");
  auto* const version_of = driver.function<int(int*)>("cuDriverGetVersion");
  auto* const count_of = driver.function<int(int*)>("cuDeviceGetCount");
  auto* const name_of = driver.function<int(char*, int, int)>("cuDeviceGetName");
  if (initialise == nullptr || version_of == nullptr || count_of == nullptr || name_of == nullptr) {
    finding.detail = "a driver without the functions it should have";
    return finding;
  }
  if (const int code = initialise(0); code != 0) {
    finding.detail = fmt::format("a driver, and no device that it can use (CUDA error {})", code);
    return finding;
  }
  int version = 0;
  int count = 0;
  version_of(&version);
  count_of(&count);
  finding.detail = fmt::format("driver for CUDA {}.{}", version / 1000, version % 1000 / 10);
  for (int device = 0; device < count; ++device) {
    std::array<char, 128> name{};
    name_of(name.data(), static_cast<int>(name.size()) - 1, device);
    finding.detail += fmt::format("{} {}", device == 0 ? ":" : ",", name.data());
  }
  finding.present = count > 0;
  return finding;
}

// Drivers may be there and not serve: too old, a library missing, a GPU too old.
Finding find_gpus() {
  Finding finding{"GPUs at work", false, "", "networks on NVIDIA GPUs", ""};
  const GpuCount gpus = count_gpus();
  finding.detail = gpus.reason;
  for (int device = 0; device < gpus.count; ++device) {
    if (device > 0) finding.detail += "; ";
    try {
      const gpu::Facts facts = open_gpu_engine(device)->facts();
      finding.detail += fmt::format("{}, compute capability {}, {}", facts.name, facts.architecture, facts.libraries);
      finding.present = true;
    } catch (const Error& error) {
      finding.detail += error.what();
    }
  }
  return finding;
}

// What `train --links auto` would take between ranks that each drive a GPU.
Finding find_lines() {
  Finding finding{"NCCL links", false, "", "messages from GPU to GPU past the host (--links auto)", ""};
  const LineSupport lines = line_support();
  if (lines.driver == nullptr) {
    finding.detail = fmt::format("links take MPI: {}", lines.reason);
    return finding;
  }
  try {
    const std::string version = lines.driver->version();
    finding.present = count_gpus().count > 0;
    finding.detail = finding.present ? fmt::format("NCCL {} between GPUs of different ranks, MPI elsewhere", version)
                                     : fmt::format("links take MPI: NCCL {}, and no GPU", version);
  } catch (const LineFailure& failure) {
    finding.detail = fmt::format("links take MPI: {}", failure.what());
  }
  return finding;
}

// The runtime, its emulation and boards: each needs the one before.
void look_for_xrt(std::vector<Finding>& findings) {
  const XrtFindings xrt = find_xrt();
  findings.push_back({"XRT", !xrt.runtime.empty(), xrt.runtime, "FPGA boards, and their emulation", "libxrt1"});

  Finding emulation{"XRT emulation", false, "", "--cluster xrt-emulated-fpgax4: a ring without boards", ""};
  if (xrt.shim.empty()) {
    emulation.detail = "no shim for software emulation";
    emulation.package = "libxrt1";
  } else if (xrt.session_program.empty()) {
    emulation.detail = "this build was made without libxrt-dev";
    emulation.package = "libxrt-dev";
  } else if (xrt.device_program.empty()) {
    emulation.detail = "millrace-xrt-device is not beside this program";
  } else {
    emulation.present = true;
    emulation.detail = fmt::format("--cluster xrt-emulated-fpgax4 ({})", xrt.shim);
  }
  findings.push_back(emulation);

  Finding boards{"FPGA boards", !xrt.boards.empty(), "no board, or XRT's driver xocl is not loaded",
                 "--cluster xrt-fpga, MILLRACE_XCLBIN=design.xclbin", ""};
  if (boards.present) boards.detail = fmt::format("{}", fmt::join(xrt.boards, ", "));
  findings.push_back(boards);
}

// --- Data that comes as packages.

Finding find_data(const char* name, const fs::path& path, const char* enables, const char* package) {
  std::error_code error;
  const bool present = fs::exists(path, error);
  return {name, present, present ? path.parent_path().string() : "", enables, package};
}

}  // namespace

std::string program_on_path(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / name;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate)) return candidate.string();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

std::vector<std::string> MachineReport::packages_to_install() const {
  std::vector<std::string> packages;
  for (const Finding& finding : findings)
    if (!finding.present && !finding.package.empty() && std::find(packages.begin(), packages.end(), finding.package) == packages.end())
      packages.push_back(finding.package);
  return packages;
}

MachineReport inspect_machine() {
  MachineReport report;
  utsname system{};
  if (uname(&system) == 0) report.system = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  report.processor = field_of("/proc/cpuinfo", "model name");
  report.cores = usable_processors();
  report.memory_bytes = kilobytes_of("MemTotal");
  report.memory_available_bytes = kilobytes_of("MemAvailable");
  report.bf16 = cpu_has_bf16();
  report.isa = isa_name(dnnl::get_effective_cpu_isa());
  const dnnl::version_t* version = dnnl::version();
  report.onednn = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);

  for (const Tool& tool : kTools) report.findings.push_back(find_tool(tool));
  report.findings.push_back(find_cuda());
  report.findings.push_back(find_gpus());
  report.findings.push_back(find_lines());
  look_for_xrt(report.findings);
  report.findings.push_back(find_data("Fashion-MNIST", "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz",
                                      "--data fashion-mnist: 70,000 images of clothes", "dataset-fashion-mnist"));
  return report;
}

}  // namespace millrace
