#include "gpu/device/gpu_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "core/base/companion_module.h"
#include "core/base/error.h"
#include "gpu/device/gpu_device.h"

namespace millrace {
namespace {

struct Module {
  gpu::Engine* (*engine)(int device) = nullptr;
  int (*devices)(char* reason, int reason_size) = nullptr;
  std::string reason;  // why it is not there
};

// The library of NVIDIA's driver, by the name under which CUDA's runtime looks for it.
constexpr const char* kDriver = "libcuda.so.1";

// The module's libraries take most of a second to load, of every process of a ring: not without a driver, which is quick to look for.
std::string why_no_driver() {
  static void* const driver = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  return driver != nullptr ? "" : fmt::format("NVIDIA's driver is not installed ({})", kDriver);
}

Module load() {
  if (std::string reason = why_no_driver(); !reason.empty()) return {.reason = std::move(reason)};
  const CompanionModule loaded =
      load_companion("libmillrace_cuda.so", "build with the CUDA toolkit, cuDNN and cuBLAS", "the folder of CUDA's libraries");
  Module module{loaded.function<gpu::Engine*(int)>("millrace_cuda_engine"), loaded.function<int(char*, int)>("millrace_cuda_devices"),
                loaded.reason};
  if (module.reason.empty() && (module.engine == nullptr || module.devices == nullptr))
    module.reason = fmt::format("{} is of another version; install it anew", loaded.path);
  return module;
}

const Module& module() {
  static const Module loaded = load();
  return loaded;
}

}  // namespace

GpuCount count_gpus() {
  if (!module().reason.empty()) return {0, module().reason};
  std::array<char, 512> reason{};
  const int count = module().devices(reason.data(), static_cast<int>(reason.size()));
  return {count, count > 0 ? "" : reason.data()};
}

std::unique_ptr<gpu::Engine> open_gpu_engine(int device) {
  if (!module().reason.empty()) fail(ErrorCode::kUnavailable, "no GPU can be used: {}", module().reason);
  try {
    return std::unique_ptr<gpu::Engine>(module().engine(device));
  } catch (const gpu::Failure& failure) {
    fail_as_error(failure);
  }
}

}  // namespace millrace
