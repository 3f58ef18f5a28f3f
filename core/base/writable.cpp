#include "core/base/writable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace millrace {

void require_writable(std::string_view flag, const std::filesystem::path& path) {
  if (path.empty()) return;
  if (std::filesystem::is_directory(path)) fail(ErrorCode::kIo, "{} {}: is a folder, a file was expected", flag, path.string());
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder))
    fail(ErrorCode::kNotFound, "{} {}: there is no folder {}; make it first", flag, path.string(), folder.string());
  std::string trial = (folder / fmt::format(".{}.XXXXXX", path.filename().string())).string();
  const int descriptor = ::mkostemp(trial.data(), O_CLOEXEC);
  if (descriptor < 0)
    fail(ErrorCode::kIo, "{} {}: nothing can be written into {}: {}", flag, path.string(), folder.string(), std::strerror(errno));
  ::close(descriptor);
  ::unlink(trial.c_str());
}

}  // namespace millrace
