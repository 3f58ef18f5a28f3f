#include "core/base/companion_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace millrace {

namespace fs = std::filesystem;

void* CompanionModule::symbol(const char* name) const { return handle == nullptr ? nullptr : dlsym(handle, name); }

CompanionModule load_companion(const std::string& file, const std::string& made_by, const std::string& libraries) {
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path();
  CompanionModule module;
  for (const fs::path& folder : {beside, beside / ".." / "lib" / "millrace", fs::path(MILLRACE_MODULE_FOLDER)}) {
    const fs::path path = folder / file;
    if (!fs::exists(path, error)) continue;
    module.path = path.string();
    module.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module.handle == nullptr)
      module.reason = fmt::format("{} cannot be loaded: {}; put {} on LD_LIBRARY_PATH", module.path, dlerror(), libraries);
    return module;
  }
  module.reason = fmt::format("{} is not beside the program; {}", file, made_by);
  return module;
}

}  // namespace millrace
