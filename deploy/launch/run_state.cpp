#include "deploy/launch/run_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/folder_lock.h"
#include "core/train/checkpoint_manifest.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Time = std::chrono::system_clock::time_point;

Time changed_at(const fs::path& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return {};
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::seconds(facts.st_mtim.tv_sec) +
                                                         std::chrono::nanoseconds(facts.st_mtim.tv_nsec)));
}

std::optional<int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return step;
}

int64_t last_step_in(const fs::path& metrics) {
  std::ifstream file(metrics);
  int64_t last = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object() && record.contains("step") && record["step"].is_number_integer())
      last = std::max(last, record["step"].get<int64_t>());
  }
  return last;
}

}  // namespace

RunState state_of_run(const fs::path& run) {
  RunState state;
  std::error_code error;
  state.begun = fs::exists(run / "job.textproto", error);
  state.last_step = last_step_in(run / "metrics.jsonl");
  state.changed_at = std::max(changed_at(run / "metrics.jsonl"), changed_at(run / "checkpoints"));
  for (fs::directory_iterator entry(run / "checkpoints", error), end; !error && entry != end; entry.increment(error)) {
    const std::optional<int64_t> step = step_of(entry->path());
    const fs::path manifest = entry->path() / kManifestName;
    std::error_code gone;
    if (!step || *step < state.checkpoint_step || !fs::exists(manifest, gone)) continue;
    state.checkpoint_step = *step;
    state.checkpoint_at = changed_at(manifest);
  }
  state.last_step = std::max(state.last_step, state.checkpoint_step);
  return state;
}

bool folder_is_free(const fs::path& run) {
  const int lock = open((run / kLockName).c_str(), O_RDONLY | O_CLOEXEC);
  if (lock < 0) return true;
  const bool held = flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(lock);
  return !held;
}

}  // namespace millrace
