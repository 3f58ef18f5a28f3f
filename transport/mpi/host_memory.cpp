#include "transport/mpi/host_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/base/index.h"

namespace millrace {

namespace {

constexpr const char* kLabel = "millrace-ranks";  // what /proc shows

// Opening somebody's file may have effects of its own, of a device for example: nothing else is opened.
bool is_ours(const char* link) {
  std::array<char, 64> target{};
  const ssize_t size = readlink(link, target.data(), target.size());
  return size > 0 && std::string_view(target.data(), to_size(size)).starts_with(fmt::format("/memfd:{}", kLabel));
}

}  // namespace

HostMemory::~HostMemory() {
  if (file_ >= 0) close(file_);
}

HostMemory HostMemory::make(size_t bytes) {
  HostMemoryPlace place{.pid = getpid()};
  if (getrandom(place.token.data(), kTokenBytes, 0) != static_cast<ssize_t>(kTokenBytes)) return {};
  HostMemory made(memfd_create(kLabel, MFD_CLOEXEC), {});
  if (!made || ftruncate(made.file_, static_cast<off_t>(bytes)) != 0) return {};
  if (pwrite(made.file_, place.token.data(), kTokenBytes, 0) != static_cast<ssize_t>(kTokenBytes)) return {};
  place.number = made.file_;
  made.place_ = place;
  return made;
}

HostMemory HostMemory::open(const HostMemoryPlace& place, size_t least) {
  if (place.pid == 0) return {};
  const std::string link = fmt::format("/proc/{}/fd/{}", place.pid, place.number);
  if (!is_ours(link.c_str())) return {};
  HostMemory opened(::open(link.c_str(), O_RDWR | O_CLOEXEC), place);
  struct stat facts {};
  std::array<uint64_t, 2> token{};
  if (!opened || fstat(opened.file_, &facts) != 0 || std::cmp_less(facts.st_size, least) ||
      pread(opened.file_, token.data(), kTokenBytes, 0) != static_cast<ssize_t>(kTokenBytes) || token != place.token)
    return {};
  return opened;
}

}  // namespace millrace
