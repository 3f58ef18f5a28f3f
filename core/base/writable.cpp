#include "core/base/writable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {

void require_writable(std::string_view flag, const std::filesystem::path& path) {
  if (path.empty()) return;
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) fail(ErrorCode::kIo, "{} {}: is a folder, a file was expected", flag, path.string());
  std::filesystem::path target;
  try {
    target = linked_target(path);
  } catch (const Error& error) {
    fail(error.code(), "{} {}", flag, error.what());
  }
  if (std::filesystem::exists(target, none) && !std::filesystem::is_regular_file(target, none)) {
    if (std::filesystem::is_socket(target, none)) fail(ErrorCode::kIo, "{} {}: is a socket, a file was expected", flag, path.string());
    if (::access(target.c_str(), W_OK) != 0)
      fail(ErrorCode::kIo, "{} {}: cannot be written: {}", flag, path.string(), std::strerror(errno));
    return;
  }
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, none))
    fail(ErrorCode::kNotFound, "{} {}: there is no folder {}; make it first", flag, path.string(), folder.string());
  std::string trial = (folder / fmt::format(".{}.XXXXXX", target.filename().string())).string();
  const int descriptor = ::mkostemp(trial.data(), O_CLOEXEC);
  if (descriptor < 0)
    fail(ErrorCode::kIo, "{} {}: nothing can be written into {}: {}", flag, path.string(), folder.string(), std::strerror(errno));
  ::close(descriptor);
  ::unlink(trial.c_str());
}

}  // namespace millrace
