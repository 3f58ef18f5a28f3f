#include "gpu/module/gpu_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "gpu/device/gpu_device.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "libmillrace_cuda.so";

struct Module {
  gpu::Engine* (*engine)(int device) = nullptr;
  int (*devices)(char* reason, int reason_size) = nullptr;
  std::string reason;  // why it is not there
};

Module load() {
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path();
  Module module;
  for (const fs::path& folder : {beside, beside / ".." / "lib" / "millrace", fs::path(MILLRACE_MODULE_FOLDER)}) {
    const fs::path path = folder / kModule;
    if (!fs::exists(path, error)) continue;
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      module.reason =
          fmt::format("{} cannot be loaded: {}; put the folder of CUDA's libraries on LD_LIBRARY_PATH", path.string(), dlerror());
      return module;
    }
    module.engine = reinterpret_cast<decltype(module.engine)>(dlsym(handle, "millrace_cuda_engine"));
    module.devices = reinterpret_cast<decltype(module.devices)>(dlsym(handle, "millrace_cuda_devices"));
    if (module.engine == nullptr || module.devices == nullptr)
      module.reason = fmt::format("{} is of another version; install it anew", path.string());
    return module;
  }
  module.reason = fmt::format("{} is not beside the program; build with the CUDA toolkit, cuDNN and cuBLAS", kModule);
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
