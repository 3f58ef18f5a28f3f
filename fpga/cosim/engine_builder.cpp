#include "fpga/cosim/engine_builder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/private_folder.h"

extern char** environ;

namespace millrace {

namespace {

std::string on_path(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "" : path;
  while (!left.empty()) {
    const size_t end = std::min(left.find(':'), left.size());
    const std::string candidate = fmt::format("{}/{}", left.substr(0, end), program);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return "";
}

// Runs a program with its output in a file; its exit status, or 127 where it could not be started.
int run(const std::vector<std::string>& words, const std::filesystem::path& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));  // posix_spawn leaves them alone
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int spawned = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) return 127;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// "Verilator 5.006 2023-01-22 rev (Debian 5.006-3)"
std::string version_of(const std::string& verilator, const std::filesystem::path& folder) {
  std::string answer = (folder / "version.XXXXXX").string();  // of this call alone: threads ask side by side
  const int file = ::mkstemp(answer.data());
  if (file < 0) fail(ErrorCode::kIo, "{}: {}", answer, std::strerror(errno));
  ::close(file);
  const int status = run({verilator, "--version"}, answer);
  std::string line = status == 0 ? read_text(answer) : "";
  std::filesystem::remove(answer);
  line.erase(std::min(line.find('\n'), line.size()));
  if (line.empty()) fail(ErrorCode::kUnavailable, "{} --version ends with {}: is it Verilator, and complete?", verilator, status);
  return line;
}

// A file that one process at a time has locked; the lock goes with the process.
class Lock {
 public:
  explicit Lock(const std::filesystem::path& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ < 0) fail(ErrorCode::kIo, "{}: {}", path.string(), std::strerror(errno));
    while (::flock(file_, LOCK_EX) != 0)
      if (errno != EINTR) {
        const int reason = errno;
        ::close(file_);
        fail(ErrorCode::kIo, "{} cannot be locked: {}", path.string(), std::strerror(reason));
      }
  }
  ~Lock() { ::close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

// Verilator's own sources are the same for every engine, and take longer than a small one to compile: the first build leaves its objects in
// `runtime`, where the others link them from.
std::vector<std::string> runtime_objects(const std::filesystem::path& runtime) {
  std::vector<std::string> objects;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(runtime, none)) objects.push_back(entry.path().string());
  std::ranges::sort(objects);
  return objects;
}

void keep_runtime(const std::filesystem::path& objects, const std::filesystem::path& runtime) {
  if (std::filesystem::exists(runtime)) return;
  const std::filesystem::path partial = fmt::format("{}.{}", runtime.string(), ::getpid());
  make_folders(partial);
  for (const auto& entry : std::filesystem::directory_iterator(objects))
    if (const std::string name = entry.path().filename().string(); name.starts_with("verilated") && name.ends_with(".o"))
      std::filesystem::copy_file(entry.path(), partial / name);
  std::error_code somebody_was_first;
  std::filesystem::rename(partial, runtime, somebody_was_first);
  if (somebody_was_first) std::filesystem::remove_all(partial);
}

std::vector<std::string> command_for(const std::string& verilator, const EngineLibrary& library, const std::filesystem::path& folder,
                                     const std::vector<std::string>& runtime) {
  std::vector<std::string> words = {verilator, "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "fast", "--x-initial", "fast"};
  for (const std::string& word : {std::string("--noassert"), std::string("-Wno-fatal"), std::string("--top-module"), library.top,
                                  std::string("--prefix"), "V" + library.top, std::string("--Mdir")})
    words.push_back(word);
  words.push_back((folder / "objects").string());
  for (const auto& [name, value] : library.parameters) words.push_back(fmt::format("-G{}={}", name, value));
  if (!library.image_parameter.empty())
    words.push_back(fmt::format("-G{}=\"{}\"", library.image_parameter, (folder / library.image_file).string()));
  std::string flags = fmt::format("-fPIC -std=c++20 -I'{}'", folder.string());
  for (const auto& [name, value] : library.defines) flags += fmt::format(" -D{}={}", name, value);
  words.insert(words.end(), {"-CFLAGS", flags});
  words.insert(words.end(), {"-LDFLAGS", "-shared"});
  const std::string compiler_cache = on_path("ccache").empty() ? "" : " OBJCACHE=ccache";
  const std::string no_runtime = runtime.empty() ? "" : " VM_GLOBAL_FAST=";
  words.insert(words.end(), {"-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0" + no_runtime + compiler_cache, "-o", "engine.so"});
  if (library.small) words.insert(words.end(), {"-fno-inline", "-MAKEFLAGS", "VM_PARALLEL_BUILDS=0"});
  const auto add_harness = [&](std::string_view ending) {
    for (const HarnessSource& source : library.harness)
      if (source.file.ends_with(ending)) words.push_back((folder / source.file).string());
  };
  add_harness(".sv");
  for (const RtlModule& module : library.modules) words.push_back((folder / "rtl" / module.file).string());
  add_harness(".cpp");
  words.insert(words.end(), runtime.begin(), runtime.end());
  return words;
}

std::string last_lines(const std::string& text, size_t most) {
  size_t at = text.size();
  for (size_t lines = 0; at > 0; --at)
    if (text[at - 1] == '\n' && at != text.size() && ++lines == most) break;
  return text.substr(at);
}

}  // namespace

std::filesystem::path default_engine_cache() {
  const auto set = [](const char* name) -> const char* {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
  };
  if (const char* chosen = set("MILLRACE_COSIM_CACHE")) return chosen;
  if (const char* caches = set("XDG_CACHE_HOME")) return std::filesystem::path(caches) / "millrace" / "cosim";
  if (const char* home = set("HOME")) return std::filesystem::path(home) / ".cache" / "millrace" / "cosim";
  return std::filesystem::temp_directory_path() / fmt::format("millrace-cosim-{}", ::getuid());
}

BuiltEngine build_library(const EngineLibrary& library, const EngineBuildOptions& options) {
  const std::string verilator = on_path("verilator");
  if (verilator.empty())
    fail(ErrorCode::kUnavailable,
         "the RTL cannot be simulated: no verilator on PATH; install it (apt-get install verilator), or train on emulated-fpga, which "
         "computes the same numbers");
  const std::filesystem::path cache = std::filesystem::absolute(options.cache.empty() ? default_engine_cache() : options.cache);
  make_private_folder(cache);  // what lies there is loaded
  BuiltEngine built;
  built.simulator = version_of(verilator, cache);
  std::string content = built.simulator;
  for (const auto& [name, value] : library.parameters) content += fmt::format("\n{} {}", name, value);
  for (const RtlModule& module : library.modules) content += module.text;
  for (const HarnessSource& source : library.harness) content += source.text;
  if (!library.image_parameter.empty()) content += cache.string() + library.image;  // its place is compiled in
  const std::filesystem::path folder = cache / digest_of(std::string_view(content));
  built.engine_file = folder / "engine.so";

  const Lock lock(folder.string() + ".lock");
  if (std::filesystem::exists(built.engine_file)) {
    require_own_file(built.engine_file);
    return built;
  }
  log::info("building the simulation of an engine ({}) with {}", library.name, built.simulator);
  const auto begin = std::chrono::steady_clock::now();
  std::filesystem::remove_all(folder);  // what a build before left unfinished
  make_folders(folder / "rtl");
  for (const RtlModule& module : library.modules) write_atomically(folder / "rtl" / module.file, module.text);
  for (const HarnessSource& source : library.harness) {
    make_folders((folder / source.file).parent_path());
    write_atomically(folder / source.file, source.text);
  }
  if (!library.image_parameter.empty()) write_atomically(folder / library.image_file, std::string_view(library.image));
  const std::filesystem::path report = folder / "verilator.log";
  const std::filesystem::path runtime = cache / ("runtime-" + digest_of(std::string_view(built.simulator)));
  const int status = run(command_for(verilator, library, folder, runtime_objects(runtime)), report);
  const std::filesystem::path made = folder / "objects" / "engine.so";
  if (status != 0 || !std::filesystem::exists(made))
    fail(ErrorCode::kUnavailable, "{} cannot build the engine ({}): it ends with {}; all of it is in {}\n{}", built.simulator, library.name,
         status, report.string(), last_lines(read_text(report), 5));
  std::filesystem::rename(made, built.engine_file);
  using std::filesystem::perms;
  for (const std::filesystem::path& path : {folder, built.engine_file})  // whatever the umask
    std::filesystem::permissions(path, perms::group_write | perms::others_write, std::filesystem::perm_options::remove);
  keep_runtime(folder / "objects", runtime);
  std::filesystem::remove_all(folder / "objects");
  built.build_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  log::info("  built in {:.1f} s", built.build_seconds);
  return built;
}

}  // namespace millrace
