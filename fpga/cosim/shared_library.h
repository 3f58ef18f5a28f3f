// A simulated engine's library while it is loaded. Internal to fpga/cosim.
//
//   const SharedLibrary library(build_library(library_of(planned), options).engine_file);
//   library.find(open, "millrace_sbe_open");          // decltype(&millrace_sbe_open) open = nullptr;
//
// Fails with kUnavailable where it cannot be loaded, with kMalformed on a function that it lacks.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <utility>

#include "core/base/error.h"

namespace millrace {

class SharedLibrary {
 public:
  explicit SharedLibrary(std::filesystem::path path) : path_(std::move(path)), handle_(::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr)
      fail(ErrorCode::kUnavailable, "the simulated engine cannot be loaded: {}; remove {} to build it anew", ::dlerror(),
           path_.parent_path().string());
  }
  ~SharedLibrary() { ::dlclose(handle_); }
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  template <typename Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr)
      fail(ErrorCode::kMalformed, "{} has no {}; remove {} to build it anew", path_.string(), name, path_.parent_path().string());
  }

 private:
  std::filesystem::path path_;
  void* handle_;
};

}  // namespace millrace
