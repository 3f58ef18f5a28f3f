#include "core/base/private_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {
namespace {

void require_own(const std::filesystem::path& path, const struct stat& facts) {
  if (facts.st_uid != geteuid() && facts.st_uid != 0)
    fail(ErrorCode::kIo, "{}: belongs to user {}, who could put programs there; remove it, or choose another folder", path.string(),
         facts.st_uid);
}

struct stat facts_of(const std::filesystem::path& path, bool follow) {
  struct stat facts {};
  if ((follow ? stat : lstat)(path.c_str(), &facts) != 0) fail(ErrorCode::kIo, "{}: {}", path.string(), std::strerror(errno));
  return facts;
}

void require_unwritable(const std::filesystem::path& path, const struct stat& facts) {
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail(ErrorCode::kIo, "{}: others than its owner may write there, and so put programs there; chmod go-w it, once you know what it holds",
         path.string());
}

}  // namespace

void make_private_folder(const std::filesystem::path& folder) {
  std::error_code none;
  if (!std::filesystem::exists(folder, none)) {
    if (folder.has_parent_path()) make_folders(folder.parent_path());
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      fail(ErrorCode::kIo, "{}: cannot make the folder: {}", folder.string(), std::strerror(errno));
  }
  require_own(folder, facts_of(folder, /*follow=*/false));  // a link belongs to who made it
  const struct stat facts = facts_of(folder, /*follow=*/true);
  require_own(folder, facts);
  if (!S_ISDIR(facts.st_mode)) fail(ErrorCode::kIo, "{}: is no folder", folder.string());
  require_unwritable(folder, facts);
}

void require_own_file(const std::filesystem::path& file) {
  const struct stat facts = facts_of(file, /*follow=*/false);
  require_own(file, facts);
  if (!S_ISREG(facts.st_mode)) fail(ErrorCode::kIo, "{}: is no file", file.string());
  require_unwritable(file, facts);
}

void refuse_planted_folder(const std::filesystem::path& folder) {
  const std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();  // "a/": what a link leads to
  struct stat facts {
  }, above{};
  if (lstat(plain.c_str(), &facts) != 0) return;
  if (facts.st_uid == geteuid() || facts.st_uid == 0) return;
  const std::filesystem::path parent = plain.has_parent_path() ? plain.parent_path() : std::filesystem::path(".");
  if (stat(parent.c_str(), &above) != 0 || (above.st_mode & S_IWOTH) == 0) return;
  fail(ErrorCode::kIo, "{}: belongs to user {}, in a folder where anybody may write, and may lead elsewhere; choose another folder",
       folder.string(), facts.st_uid);
}

}  // namespace millrace
