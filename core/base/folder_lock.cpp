#include "core/base/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// Of this process, or of the one that a lock's file names. Lines "name value".
struct Holder {
  std::string doing, host, since;
  std::string machine;  // this boot of this machine, as far as its processes are numbered together
  int64_t process = 0;
  std::string born;  // when the process began, so that a number given anew is no mistake for it
};

std::string text_or_nothing(const fs::path& path) {
  try {
    return read_text(path);
  } catch (const Error&) {
    return "";
  }
}

// The 22nd word of /proc/PID/stat, counted behind the program's name, which may hold anything. Nothing for one that has ended and that
// nobody has waited for.
std::string birth_of(int64_t process) {
  const std::string facts = text_or_nothing(fmt::format("/proc/{}/stat", process));
  size_t at = facts.rfind(')');
  if (at == std::string::npos || at + 2 >= facts.size() || facts[at + 2] == 'Z' || facts[at + 2] == 'X') return "";
  for (int word = 2; at != std::string::npos && word < 22; ++word) at = facts.find(' ', at + 1);
  if (at == std::string::npos) return "";
  return facts.substr(at + 1, facts.find(' ', at + 1) - at - 1);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string machine() {
  std::string boot = text_or_nothing("/proc/sys/kernel/random/boot_id");
  if (boot.ends_with('\n')) boot.pop_back();
  std::error_code reason;
  const fs::path processes = fs::read_symlink("/proc/self/ns/pid", reason);
  return boot + " " + processes.string();
}

Holder this_process(std::string_view doing) {
  return {.doing = std::string(doing),
          .host = host_name(),
          .since = now_text(),
          .machine = machine(),
          .process = ::getpid(),
          .born = birth_of(::getpid())};
}

std::string facts_of(const Holder& holder) {
  return fmt::format("doing {}\nprocess {}\nhost {}\nsince {}\nmachine {}\nborn {}\n", holder.doing, holder.process, holder.host,
                     holder.since, holder.machine, holder.born);
}

std::string line_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(name) && line.substr(name.size()).starts_with(' ')) return std::string(line.substr(name.size() + 1));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return "";
}

Holder holder_from(const std::string& text) {
  Holder holder{.doing = line_of(text, "doing"),
                .host = line_of(text, "host"),
                .since = line_of(text, "since"),
                .machine = line_of(text, "machine"),
                .born = line_of(text, "born")};
  const std::string number = line_of(text, "process");
  std::from_chars(number.data(), number.data() + number.size(), holder.process);
  return holder;
}

std::string name_of(const Holder& holder) {
  if (holder.process <= 0) return "a process that has not said its name";
  return fmt::format("process {} on host {} since {}", holder.process, holder.host, holder.since);
}

bool lives_here(const Holder& holder) {
  return holder.machine == machine() && holder.process > 0 && birth_of(holder.process) == holder.born && !holder.born.empty();
}

fs::path topmost_missing(const fs::path& folder) {
  fs::path missing;
  for (fs::path at = fs::absolute(folder).lexically_normal(); !at.empty() && !fs::exists(at); at = at.parent_path()) {
    if (at.has_filename()) missing = at;
    if (at == at.parent_path()) break;
  }
  return missing;
}

[[noreturn]] void fail_lock(const fs::path& path, const char* doing) {
  fail(ErrorCode::kIo, "{}: cannot {}: {}", path.string(), doing, std::strerror(errno));
}

}  // namespace

bool holder_has_ended(const fs::path& folder, const char* name) {
  const Holder holder = holder_from(text_or_nothing(folder / name));
  return holder.process > 0 && holder.machine == machine() && !lives_here(holder);
}

FolderLock::FolderLock(const fs::path& folder, std::string_view doing, Means means, const char* name)
    : folder_(folder), file_(folder / name), made_(topmost_missing(folder)), means_(means) {
  make_folders(folder_);
  try {
    take(doing);
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

void FolderLock::take(std::string_view doing) {
  while (!lock_file()) continue;
  const Holder last = holder_from(text_or_nothing(file_));
  // With the lock in hand and its holder alive, either that one is just ending or it holds the lock of another mount of the folder.
  for (int tries = 0; means_ == Means::kSystem && tries < 100 && lives_here(last); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (lives_here(last) || (means_ == Means::kFileAlone && last.process > 0 && last.machine != machine())) give_way_to_holder();
  if (last.process > 0 && last.machine == machine())
    log::info("{}: left locked by {}, which has ended; taken over", folder_.string(), name_of(last));
  else if (last.process > 0)
    log::warning(
        "{}: left locked by {}; taken over, for this file system says that it has ended. Where it is mounted without locks between "
        "hosts (nolock, local_lock) it may not know: then stop one of the two",
        folder_.string(), name_of(last));
  const std::string text = facts_of(this_process(doing));
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) != std::ssize(text)) fail_lock(file_, "write");
}

// False: somebody removed the file meanwhile, and a lock on what has no name keeps nobody away.
bool FolderLock::lock_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor_ < 0) fail_lock(file_, "open");
  if (means_ == Means::kSystem && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) give_way_to_holder();
    if (errno == EINTR) return false;
    if (errno != ENOLCK && errno != ENOSYS && errno != EOPNOTSUPP && errno != EINVAL) fail_lock(file_, "lock");
    log::info("{}: no locks on this file system ({}); the file {} alone keeps other runs away", folder_.string(), std::strerror(errno),
              file_.filename().string());
    means_ = Means::kFileAlone;
  }
  struct stat opened {
  }, named{};
  return ::fstat(descriptor_, &opened) == 0 && ::stat(file_.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

void FolderLock::give_way_to_holder() const {
  const Holder holder = holder_from(text_or_nothing(file_));
  const std::string doing = holder.doing.empty() ? "another run" : holder.doing;
  const bool elsewhere = means_ == Means::kFileAlone && holder.machine != machine();
  fail(ErrorCode::kUnavailable, "{}: {} is under way there, by {}; wait for its end, stop it, or choose another folder{}", folder_.string(),
       doing, name_of(holder),
       elsewhere
           ? fmt::format(". This file system cannot tell whether it still runs: if you know that it does not, remove {}", file_.string())
           : std::string());
}

FolderLock::~FolderLock() {
  // First the name, then the lock: who opens the file in between finds it locked, or gone.
  ::unlink(file_.c_str());
  ::close(descriptor_);
  if (made_.empty()) return;
  const fs::path top = made_.parent_path();
  for (fs::path at = fs::absolute(folder_).lexically_normal(); at != top && at != at.parent_path(); at = at.parent_path())
    if (at.has_filename() && ::rmdir(at.c_str()) != 0) break;
}

}  // namespace millrace
