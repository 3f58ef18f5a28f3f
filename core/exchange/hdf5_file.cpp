#include "core/exchange/hdf5_file.h"

#include <fmt/format.h>

#include "core/base/companion_module.h"
#include "core/base/error.h"

namespace millrace {
namespace {

struct Library {
  Hdf5File* (*open)(const std::byte* bytes, size_t size, const char* origin) = nullptr;
  std::string reason;  // why it is not there
};

Library load_library() {
  const CompanionModule module =
      load_companion("libmillrace_hdf5.so", "install Millrace anew, or build all of it", "the folder of HDF5's library");
  Library library{module.function<Hdf5File*(const std::byte*, size_t, const char*)>("millrace_hdf5_open"), module.reason};
  if (library.reason.empty() && library.open == nullptr)
    library.reason = fmt::format("{} is of another version; install it anew", module.path);
  return library;
}

}  // namespace

std::unique_ptr<Hdf5File> open_hdf5(std::span<const std::byte> bytes, const std::string& origin) {
  static const Library library = load_library();
  if (!library.reason.empty()) fail(ErrorCode::kUnavailable, "{}: HDF5 cannot be read: {}", origin, library.reason);
  return std::unique_ptr<Hdf5File>(library.open(bytes.data(), bytes.size(), origin.c_str()));
}

}  // namespace millrace
