#include "node/ring/handed_out.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "node/ring/together.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMostBytes = uintmax_t{1} << 33;
constexpr uintmax_t kSmall = uintmax_t{1} << 20;  // of files that are compared by content
constexpr size_t kMostCompared = 100;             // so many of them
constexpr size_t kPiece = size_t{16} << 20;       // ranks meet after each, so that rank 0 does not hold all that is under way
constexpr size_t kMostFiles = size_t{1} << 20;    // in a folder: more are no copy that anybody waits for

struct ListedFile {
  std::string name = {};  // below the folder; empty: the file itself
  uintmax_t bytes = 0;
  std::string digest = {};  // empty: not compared
};

// A line per file. Empty: there is nothing under this name.
std::string text_of(const std::vector<ListedFile>& files) {
  std::string text;
  for (const ListedFile& file : files) text += fmt::format("{} {} {}\n", file.bytes, file.digest.empty() ? "-" : file.digest, file.name);
  return text;
}

bool stays_below(const fs::path& name) {
  return name.is_relative() && std::ranges::none_of(name, [](const fs::path& part) { return part == ".."; });
}

std::vector<ListedFile> files_from(const std::string& text) {
  std::vector<ListedFile> files;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    ListedFile file;
    std::istringstream words(line);
    if (!(words >> file.bytes >> file.digest) || words.get() != ' ')
      fail(ErrorCode::kMalformed, "a list of files has the line \"{}\"", line);
    std::getline(words, file.name);
    if (!stays_below(file.name)) fail(ErrorCode::kMalformed, "a list of files has \"{}\", which is not below its folder", file.name);
    files.push_back(file);
  }
  return files;
}

std::vector<ListedFile> files_at(const fs::path& path) {
  std::vector<ListedFile> files;
  if (fs::is_regular_file(path)) {
    files.push_back({.bytes = fs::file_size(path)});
  } else if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, fs::directory_options::follow_directory_symlink)) {
      if (!entry.is_regular_file()) continue;
      files.push_back({.name = entry.path().lexically_relative(path).string(), .bytes = entry.file_size()});
      if (files.back().name.find('\n') != std::string::npos)
        fail(ErrorCode::kUsage, "{}: a name with a line break cannot be handed out", entry.path().string());
      if (files.size() > kMostFiles)
        fail(ErrorCode::kUsage, "{}: more than {} files; put the folder on every host under this name", path.string(), kMostFiles);
    }
    std::ranges::sort(files, {}, &ListedFile::name);
  }
  if (std::ranges::count_if(files, [](const ListedFile& file) { return file.bytes <= kSmall; }) <= static_cast<ptrdiff_t>(kMostCompared))
    for (ListedFile& file : files)
      if (file.bytes <= kSmall) file.digest = digest_of(read_bytes(file.name.empty() ? path : path / file.name));
  return files;
}

// What this rank has there; what cannot be read is not there.
std::string seen_at(const fs::path& path) {
  try {
    return text_of(files_at(path));
  } catch (const Error&) {
  } catch (const fs::filesystem_error&) {
  }
  return "";
}

constexpr const char* kPrefix = "millrace-copy-";
constexpr const char* kLock = "lock";

int locked(const fs::path& file, int flags) {
  const int descriptor = open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

// Of processes that were killed: their locks went with them.
void remove_abandoned(const fs::path& below) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(below, none)) {
    struct stat facts {};
    if (!entry.path().filename().string().starts_with(kPrefix) || lstat(entry.path().c_str(), &facts) != 0) continue;
    if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid()) continue;
    const int lock = locked(entry.path() / kLock, 0);
    if (lock < 0) continue;
    fs::remove_all(entry.path(), none);
    close(lock);
  }
}

// With its lock, which is there from the moment that it has its name.
std::pair<fs::path, int> new_private_folder() {
  const fs::path below = fs::temp_directory_path();
  remove_abandoned(below);
  std::string name = (below / kPrefix).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) fail(ErrorCode::kIo, "no folder like {}: {}", name, std::strerror(errno));
  const fs::path folder = name, unnamed = folder / "new";
  const int lock = locked(unnamed, O_CREAT | O_EXCL);
  if (lock < 0 || rename(unnamed.c_str(), (folder / kLock).c_str()) != 0) fail(ErrorCode::kIo, "{}: {}", name, std::strerror(errno));
  return {folder, lock};
}

void append(const fs::path& file, std::string_view content) {
  if (file.has_parent_path()) make_folders(file.parent_path());
  std::ofstream stream(file, std::ios::binary | std::ios::app);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  stream.close();
  if (!stream) fail(ErrorCode::kIo, "{}: cannot write a copy of what rank 0 has; is the disk full?", file.string());
}

}  // namespace

HandedOut& HandedOut::operator=(HandedOut&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(copy_, other.copy_);
  std::swap(lock_, other.lock_);
  return *this;
}

HandedOut::~HandedOut() {
  std::error_code none;
  if (!copy_.empty()) fs::remove_all(copy_, none);
  if (lock_ >= 0) close(lock_);
}

HandedOut::HandedOut(Agreement& agreement, std::string_view what, const fs::path& path) : HandedOut() {
  const bool first = agreement.rank() == 0;
  path_ = agreement.broadcast(what, path.string());
  if (path_.empty()) return;
  std::string listed;
  together(agreement, what, [&] {
    if (!first) return;
    std::vector<ListedFile> files;
    try {
      files = files_at(path_);
    } catch (const fs::filesystem_error& error) {
      fail(ErrorCode::kIo, "{}: {}", path_.string(), error.code().message());
    }
    if (files.empty() && !fs::exists(path_)) fail(ErrorCode::kNotFound, "{}: there is no such file or folder", path_.string());
    listed = text_of(files);
  });
  listed = agreement.broadcast(what, listed);
  const bool missing = !first && seen_at(path_) != listed;
  std::string without;
  if (first) {
    const std::vector<std::string> all = agreement.gather(what, "");
    const auto count = std::ranges::count(all, "missing");
    if (count > 0) without = fmt::format("{}", count);
  } else {
    agreement.gather(what, missing ? "missing" : "");
  }
  without = agreement.broadcast(what, without);
  if (without.empty()) return;

  const fs::path origin = path_;
  std::vector<ListedFile> files;
  together(agreement, what, [&] {
    files = files_from(listed);
    uintmax_t bytes = 0;
    for (const ListedFile& file : files) bytes += file.bytes;
    if (first && bytes > kMostBytes)
      fail(ErrorCode::kUsage, "{}: ranks on other hosts do not have it, and {} bytes are too many to send; put it there under this name",
           origin.string(), bytes);
    if (first)
      log::info("{} of {} ranks do not see {} as it is here: {:.1f} MB are sent", without, agreement.ranks(), origin.string(),
                static_cast<double>(bytes) / 1e6);
    if (!missing) return;
    std::tie(copy_, lock_) = new_private_folder();
    path_ = copy_ / "files" / origin.filename();
    if (files.empty() || !files.front().name.empty()) make_folders(path_);
  });
  for (const ListedFile& file : files) {
    const fs::path from = file.name.empty() ? origin : origin / file.name;
    const fs::path to = file.name.empty() ? path_ : path_ / file.name;
    std::ifstream stream;
    uintmax_t sent = 0;
    do {
      std::string piece;
      together(agreement, what, [&] {
        if (!first) return;
        if (!stream.is_open()) stream.open(from, std::ios::binary);
        piece.resize(to_size(std::min<uintmax_t>(kPiece, file.bytes - sent)));
        stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
        if (!stream) fail(ErrorCode::kIo, "{}: cannot be read, or became shorter meanwhile", from.string());
      });
      piece = agreement.broadcast(what, piece);
      together(agreement, what, [&] {
        if (missing) append(to, piece);
      });
      sent += piece.size();
    } while (sent < file.bytes);
  }
}

}  // namespace millrace
