#include "deploy/launch/training_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/plan/validate.h"
#include "transport/mpi/mpi_launch.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> training_words(const LaunchRequest& request, const Cluster& whole, const RankPlacement& now, bool resume) {
  const Job& job = request.job;
  std::vector<std::string> words = resume ? resuming_words(request.words, job.out) : request.words;
  const bool all = now.cluster == whole;
  if (all && !(resume && is_elastic(request, whole))) return words;  // a run that was resumed on fewer devices has those in its job
  const bool is_path = job.cluster.find('/') != std::string::npos || job.cluster.ends_with(".textproto");
  if (all || !is_path) {
    words = with_value(std::move(words), "--cluster", all ? job.cluster : shorthand_of(now.cluster));
  } else {
    const fs::path document = fs::path(job.out) / "present.textproto";
    make_folders(job.out);
    save(now.cluster, document);
    words = with_value(std::move(words), "--cluster", document.string());
  }
  // Who chose it chose it for the first ring; norms over a micro-batch would change with it.
  const fs::path plan = fs::path(job.out) / "plan.textproto";
  if (resume && job.micro_batch == 0 && fs::exists(plan))
    words = with_value(std::move(words), "--micro-batch", fmt::format("{}", load_plan(plan).micro_batch));
  return words;
}

}  // namespace

int64_t least_devices(const LaunchRequest& request, const Cluster& whole) {
  return request.min_devices.value_or(static_cast<int64_t>(whole.devices.size()));
}

bool is_elastic(const LaunchRequest& request, const Cluster& whole) {
  return least_devices(request, whole) < static_cast<int64_t>(whole.devices.size());
}

std::vector<std::string> training_command(const LaunchRequest& request, const Cluster& whole, const RankPlacement& now,
                                          const CommandOptions& options) {
  std::vector<std::string> words;
  const bool alone = now.hosts.empty() && now.ranks == 1;
  if (!alone) {
    if (request.mpirun.empty())
      fail(ErrorCode::kUnavailable, "{} ranks need mpirun, and there is none in PATH; install openmpi-bin, or name it with --mpirun",
           now.ranks);
    words = {request.mpirun, "-n", fmt::format("{}", now.ranks)};
    const bool several = std::ranges::any_of(now.hosts, [](const Host& host) { return !is_this_machine(host.name); });
    const int64_t threads = std::max<int64_t>(1, request.job.threads);
    const bool crowded = now.hosts.empty() && now.ranks * threads > options.cores;
    const auto add = [&words](std::string_view text) {
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find(' ', begin), text.size());
        if (end > begin) words.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
      }
    };
    const bool free = crowded || !now.hosts.empty() || !request.binds;
    if (free) add("--oversubscribe --bind-to none");
    if (!free) add("--bind-to core");
    if (!free && threads > 1) add(fmt::format("--map-by slot:PE={}", threads));
    for (const LaunchSetting& setting : launch_arguments(1, 2, several)) add(setting.name + " " + setting.value);
    if (!now.hosts.empty()) {
      std::string list;
      for (const Host& host : now.hosts) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.name, host.slots);
      words.insert(words.end(), {"--host", list});
      if (!request.agent.empty()) {
        words.insert(words.end(), {"--mca", "plm", "rsh", "--mca", "plm_rsh_agent", fmt::format("{}", fmt::join(request.agent, " "))});
      }
    }
    words.insert(words.end(), request.mpi.begin(), request.mpi.end());
  }
  words.push_back(request.program);
  words.insert(words.end(), request.before.begin(), request.before.end());
  for (const std::string& word : training_words(request, whole, now, options.resume)) words.push_back(word);
  return words;
}

std::vector<std::string> resuming_words(const std::vector<std::string>& words, const std::string& out) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    // Its rates lie in the run's folder: others would make another plan, and other bits.
    if (words[i] == "--measure" || words[i].starts_with("--measure=")) continue;
    bool begins = false;
    for (const std::string_view flag : {"--out", "--job", "--init-from", "--calibrate", "--formats", "--resume"}) {
      if (words[i] == flag) {
        begins = true;
        ++i;  // its value
        break;
      }
      begins = begins || words[i].starts_with(std::string(flag) + "=");
    }
    if (!begins) kept.push_back(words[i]);
  }
  kept.insert(kept.end(), {"--resume", out});
  return kept;
}

std::vector<std::string> with_value(std::vector<std::string> words, const std::string& flag, const std::string& value) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) {
      words[i + 1] = value;
      return words;
    }
    if (words[i].starts_with(flag + "=")) {
      words[i] = flag + "=" + value;
      return words;
    }
  }
  words.insert(words.end(), {flag, value});
  return words;
}

}  // namespace millrace
