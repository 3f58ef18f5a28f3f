#include "fpga/xrt/session/shim_buffer.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

// More than a message of the shim, which sends 8 MiB at a time.
constexpr size_t kRoom = size_t{16} << 20;

// The shim's code; empty where nothing is to be done.
std::atomic<uintptr_t> shim_begin{0}, shim_end{0};

[[maybe_unused]] bool is_shim(const void* caller) {  // not asked where a sanitizer owns malloc
  const auto address = reinterpret_cast<uintptr_t>(caller);
  return address >= shim_begin.load(std::memory_order_relaxed) && address < shim_end.load(std::memory_order_relaxed);
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_realloc(void* block, size_t size);

void* malloc(size_t size) { return __libc_malloc(is_shim(__builtin_return_address(0)) && size < kRoom ? kRoom : size); }
void* realloc(void* block, size_t size) {
  if (block != nullptr && is_shim(__builtin_return_address(0)) && size <= kRoom) return block;
  return __libc_realloc(block, size);
}
}
#endif

namespace millrace::xrt {

bool keep_shim_buffer_in_place(const std::filesystem::path& shim) {
  // libxrt_swemu.so.2.13.0
  int major = 0, minor = 0;
  const std::string name = std::filesystem::canonical(shim).filename().string();
  if (std::sscanf(name.c_str(), "libxrt_swemu.so.%d.%d", &major, &minor) != 2 || major > 2 || minor > 13) return false;
  if (dlopen(shim.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return false;  // XRT says why when it tries itself
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void*) {
        if (std::string(object->dlpi_name).find("libxrt_swemu.so") == std::string::npos) return 0;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
          shim_begin = object->dlpi_addr + segment.p_vaddr;
          shim_end = shim_begin + segment.p_memsz;
        }
        return 1;
      },
      nullptr);
  return shim_end > shim_begin;
}

}  // namespace millrace::xrt
