#include "deploy/launch/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "core/base/exit_status.h"
#include "core/base/files.h"
#include "core/base/folder_lock.h"
#include "core/base/log.h"
#include "core/base/private_folder.h"
#include "core/plan/validate.h"
#include "core/train/task.h"
#include "deploy/launch/child.h"
#include "deploy/launch/run_state.h"
#include "deploy/launch/training_command.h"
#include "transport/mpi/mpi_launch.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

double seconds(SteadyClock::duration time) { return std::chrono::duration<double>(time).count(); }

constexpr int kStopSignal = SIGUSR2;

std::string counted(int64_t number, std::string_view one) { return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s"); }

class Launcher {
 public:
  explicit Launcher(const LaunchRequest& request);
  int run();

 private:
  enum class Next { kEnd, kAgain, kPlanAgain };

  void refuse_contradictions() const;
  std::vector<Host> listed_hosts() const;
  std::vector<std::string> agent(std::chrono::seconds patience = HostProbe::kPatience) const;
  std::vector<Host> find_present(std::chrono::seconds patience = HostProbe::kPatience);
  RankPlacement placement(const std::vector<Host>& present) const;
  bool await_enough_devices();
  std::string missing_hosts() const;
  void say_change(const RankPlacement& before) const;
  Attempt attempt();
  int watch(pid_t process);
  void handle_signal(int signal, pid_t process);
  void look_at_hosts(pid_t process);
  void end_what_stalls(pid_t process, SteadyClock::time_point begun);
  bool stopped_while_starting(const Attempt& attempt) const;
  Next judge(Attempt& attempt);
  bool pause(Attempt& attempt);
  std::unique_ptr<FolderLock> lock_folder();
  void await_free_folder();
  int finish(int status, std::string reason);
  int finish_stopped();

  const LaunchRequest& request_;
  Cluster whole_;
  int64_t cores_;
  SignalInbox inbox_{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
  std::vector<Host> hosts_;          // as they are listed now
  std::vector<std::string> silent_;  // those that did not answer when they were last waited for
  RankPlacement now_;
  LaunchSummary summary_;
  SteadyClock::time_point started_ = SteadyClock::now();
  std::chrono::milliseconds next_pause_;
  std::unique_ptr<HostProbe> probe_;
  SteadyClock::time_point looked_ = SteadyClock::now();
  int stops_asked_ = 0;       // by signals
  bool plans_again_ = false;  // the training was asked to stop for that
  bool stalled_ = false;
  SteadyClock::time_point killed_at_;
  std::unique_ptr<FolderLock> lock_;
};

Launcher::Launcher(const LaunchRequest& request)
    : request_(request), whole_(find_cluster(request.job.cluster)), cores_(usable_cores()), next_pause_(request.pause) {
  if (!request.job.plan.empty()) whole_ = load_plan(request.job.plan).cluster;
  refuse_contradictions();
  hosts_ = listed_hosts();
}

void Launcher::refuse_contradictions() const {
  const Job& job = request_.job;
  if (job.out.empty() && request_.max_restarts > 0)
    fail(ErrorCode::kUsage, "launch starts again from checkpoints: give the training a folder with --out, or --max-restarts 0");
  const auto devices = static_cast<int64_t>(whole_.devices.size());
  if (request_.min_devices && *request_.min_devices > devices)
    fail(ErrorCode::kUsage, "--min-devices {}: the cluster has {}; ask for fewer", *request_.min_devices, devices);
  if (is_elastic(request_, whole_)) {
    const std::string_view fixed = !job.plan.empty()   ? "--plan: a plan stands for its devices"
                                   : !job.cuts.empty() ? "cuts given by hand: they stand for the job's devices"
                                   : !job.pins.empty() ? "pins given by hand: they stand for the job's devices"
                                                       : "";
    if (!fixed.empty()) fail(ErrorCode::kUsage, "--min-devices {} cannot plan again with {}", *request_.min_devices, fixed);
    if (request_.hosts_file.empty() && !request_.slurm)
      fail(ErrorCode::kUsage, "--min-devices {} has no effect: without --hosts or --slurm all devices are on this machine",
           *request_.min_devices);
  }
  if (request_.ranks && *request_.ranks % job.replicas != 0)
    fail(ErrorCode::kUsage, "--ranks {}: {} replicas need a multiple of that", *request_.ranks, job.replicas);
  if (request_.ranks && *request_.ranks > devices * job.replicas)
    fail(ErrorCode::kUsage, "--ranks {}: every rank needs a device, and there are {}", *request_.ranks, devices * job.replicas);
}

std::vector<Host> Launcher::listed_hosts() const {
  if (!request_.hosts_file.empty()) {
    std::vector<Host> hosts = load_hosts(request_.hosts_file);
    if (hosts.empty() && hosts_.empty())
      fail(ErrorCode::kUsage, "--hosts {}: no host is listed; write NAME slots=NUMBER", request_.hosts_file);
    return hosts;
  }
  if (!request_.slurm) return {};
  const char *const nodes = std::getenv("SLURM_JOB_NODELIST"), *const tasks = std::getenv("SLURM_TASKS_PER_NODE");
  if (nodes == nullptr || tasks == nullptr)
    fail(ErrorCode::kUsage,
         "--slurm: this is no Slurm job (SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE are not set); use sbatch or salloc");
  return parse_slurm_hosts(nodes, tasks);
}

// Slurm's own daemon starts what is asked for on a node, as mpirun does there.
std::vector<std::string> Launcher::agent(std::chrono::seconds patience) const {
  if (!request_.agent.empty()) return request_.agent;
  if (request_.slurm)
    return {"srun", "--overlap", "--ntasks=1", "--nodes=1", fmt::format("--immediate={}", patience.count() / 2), "--quiet", "--nodelist"};
  return {"ssh", "-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", patience.count() / 2)};
}

std::vector<Host> Launcher::find_present(std::chrono::seconds patience) {
  hosts_ = listed_hosts();
  HostProbe probe(hosts_, agent(patience), patience);
  while (!probe.finished() && stops_asked_ == 0) {
    const std::optional<int> signal = inbox_.wait(50ms);
    if (signal && *signal != SIGCHLD && *signal != SIGUSR1) ++stops_asked_;
  }
  looked_ = SteadyClock::now();
  silent_ = probe.silent();
  return probe.present();
}

RankPlacement Launcher::placement(const std::vector<Host>& present) const {
  PlacementWishes wishes{.whole = whole_,
                         .hosts = hosts_,
                         .replicas = request_.job.replicas,
                         .threads = request_.job.threads,
                         .ranks = request_.ranks,
                         .cores = cores_};
  if (wishes.hosts.empty() && !(request_.hosts_file.empty() && !request_.slurm)) return {};  // none is left in the file
  return place(wishes, present);
}

// False when there are too few and nobody may wait any longer. Hosts that are slow to answer, as a busy Slurm is, get longer each time.
bool Launcher::await_enough_devices() {
  constexpr std::chrono::seconds kLongestPatience{80};
  std::chrono::seconds patience = HostProbe::kPatience;
  for (int64_t tries = 0;; ++tries, patience = std::min(patience * 2, kLongestPatience)) {
    const RankPlacement before = now_;
    now_ = placement(find_present(patience));
    const auto devices = static_cast<int64_t>(now_.cluster.devices.size());
    if (stops_asked_ > 0) return true;
    if (devices >= least_devices(request_, whole_)) {
      if (!before.cluster.devices.empty() && before.cluster != now_.cluster) say_change(before);
      return true;
    }
    const std::string few =
        fmt::format("{} of {} are there, and at least {} are asked for{}", devices,
                    counted(static_cast<int64_t>(whole_.devices.size()), "device"), least_devices(request_, whole_), missing_hosts());
    if (summary_.restarts() + tries >= request_.max_restarts) {
      log::error("{}; bring the hosts back, or let --min-devices accept fewer", few);
      return false;
    }
    log::warning("{}; looking again in {:.1f} s", few, std::chrono::duration<double>(next_pause_).count());
    Attempt none;
    if (!pause(summary_.attempts.empty() ? none : summary_.attempts.back())) return true;
  }
}

// With what asks a host, for whoever wants to see why.
std::string Launcher::missing_hosts() const {
  constexpr size_t kNamed = 6;
  if (silent_.empty()) return "";
  const size_t named = std::min(kNamed, silent_.size());
  return fmt::format(
      ": no answer from {}{} (asked by: {} {} true)", fmt::join(silent_.begin(), silent_.begin() + std::ptrdiff_t(named), ", "),
      silent_.size() > named ? fmt::format(" and {} more", silent_.size() - named) : "", fmt::join(agent(), " "), silent_.front());
}

void Launcher::say_change(const RankPlacement& before) const {
  const auto modelled = [&](const RankPlacement& one) -> std::string {
    const fs::path plan = fs::path(request_.job.out) / "plan.textproto";
    if (!request_.throughput || !fs::exists(plan)) return "";
    const std::optional<LaunchRequest::Throughput> rate = request_.throughput(plan, one.cluster);
    if (!rate) return "";
    return fmt::format(", {:.1f} {}/s (modelled)", rate->rate * static_cast<double>(request_.job.replicas), rate->samples);
  };
  const auto what = [&](const RankPlacement& one) {
    return fmt::format("{} on {} and {}{}", counted(static_cast<int64_t>(one.cluster.devices.size()), "device"),
                       counted(static_cast<int64_t>(one.hosts.size()), "host"), counted(one.ranks, "rank"), modelled(one));
  };
  log::info("planned again: {}; before: {}", what(now_), what(before));
}

Attempt Launcher::attempt() {
  const fs::path out = request_.job.out;
  const RunState before = out.empty() ? RunState{} : state_of_run(out);
  const bool resumes = !summary_.attempts.empty() || request_.goes_on || request_.resumes;
  Attempt attempt{.devices = static_cast<int64_t>(now_.cluster.devices.size()),
                  .ranks = now_.ranks,
                  .hosts = std::max<int64_t>(1, static_cast<int64_t>(now_.hosts.size())),
                  .from_step = resumes ? before.checkpoint_step : 0};
  const std::vector<std::string> words = training_command(request_, whole_, now_, {.cores = cores_, .resume = resumes && before.begun});
  StartOptions options{.kept = lock_ ? lock_->descriptor() : -1};
  if (words.front() == request_.mpirun)
    for (const LaunchSetting& variable : launch_environment(geteuid() == 0)) options.environment[variable.name] = variable.value;
  log::debug("{}", fmt::join(words, " "));
  const auto started = SteadyClock::now();
  const auto begun_at = std::chrono::system_clock::now();
  attempt.status = watch(start_process(words, options));
  const auto ended_at = std::chrono::system_clock::now();
  attempt.seconds = seconds(SteadyClock::now() - started);
  const RunState after = out.empty() ? RunState{} : state_of_run(out);
  attempt.checkpoint_step = after.checkpoint_step;
  attempt.last_step = after.last_step;
  const std::chrono::duration<double> unsaved = ended_at - std::max(begun_at, after.checkpoint_at);
  attempt.lost_seconds = std::clamp(unsaved.count(), 0.0, attempt.seconds);
  return attempt;
}

int Launcher::watch(pid_t process) {
  plans_again_ = stalled_ = false;
  const auto begun = SteadyClock::now();
  if (stops_asked_ > 0) kill(process, SIGTERM);  // asked while it was started
  for (;;) {
    if (const std::optional<int> status = ended(process)) return stalled_ ? kExitTimeout : *status;
    const std::optional<int> signal = inbox_.wait(probe_ ? 50ms : 500ms);
    if (signal && *signal != SIGCHLD) handle_signal(*signal, process);
    look_at_hosts(process);
    end_what_stalls(process, begun);
  }
}

void Launcher::handle_signal(int signal, pid_t process) {
  if (signal == SIGUSR1) {
    kill(process, SIGUSR1);
    return;
  }
  ++stops_asked_;
  if (stops_asked_ == 1) {
    log::info("asked to stop: the training ends with a checkpoint; again, and it ends at once");
    kill(process, kStopSignal);
  } else if (signal == SIGINT || signal == SIGTERM) {
    kill(stops_asked_ == 2 ? process : -process, stops_asked_ == 2 ? SIGTERM : SIGKILL);
  }
}

// One that is gone is mpirun's to notice; here it is about those that come back, and lists that change.
void Launcher::look_at_hosts(pid_t process) {
  if (!is_elastic(request_, whole_) || plans_again_ || stops_asked_ > 0) return;
  if (!probe_) {
    if (SteadyClock::now() - looked_ < request_.look_every) return;
    try {
      hosts_ = listed_hosts();
      probe_ = std::make_unique<HostProbe>(hosts_, agent());
    } catch (const Error& error) {  // it may be in the middle of being edited
      log::warning("{}", error.what());
      looked_ = SteadyClock::now();
    }
    return;
  }
  if (!probe_->finished()) return;
  const RankPlacement found = placement(probe_->present());
  probe_.reset();
  looked_ = SteadyClock::now();
  const bool unlisted = std::ranges::any_of(now_.hosts, [&](const Host& host) {
    const auto listed = std::ranges::find(hosts_, host.name, &Host::name);
    return listed == hosts_.end() || listed->slots < host.slots;
  });
  const bool more = found.cluster.devices.size() > now_.cluster.devices.size();
  if (!(more || unlisted) || found.cluster == now_.cluster) return;
  if (std::cmp_less(found.cluster.devices.size(), least_devices(request_, whole_))) return;
  log::info("{} now instead of {}: the training stops with a checkpoint to be planned again",
            counted(static_cast<int64_t>(found.cluster.devices.size()), "device"), now_.cluster.devices.size());
  plans_again_ = true;
  kill(process, kStopSignal);
}

void Launcher::end_what_stalls(pid_t process, SteadyClock::time_point begun) {
  if (request_.stalled_after.count() == 0 || request_.job.out.empty()) return;
  constexpr auto kTimeToEnd = 10s;
  if (stalled_) {
    if (SteadyClock::now() - killed_at_ > kTimeToEnd) kill(-process, SIGKILL);
    return;
  }
  if (SteadyClock::now() - begun < request_.stalled_after) return;
  const std::chrono::system_clock::duration running = SteadyClock::now() - begun;
  const auto silent = std::min(running, std::chrono::system_clock::now() - state_of_run(request_.job.out).changed_at);
  if (silent < request_.stalled_after) return;
  log::warning("{} has had no record for {:.1f} s: what runs is ended", request_.job.out, std::chrono::duration<double>(silent).count());
  stalled_ = true;
  killed_at_ = SteadyClock::now();
  kill(process, SIGTERM);
  kill(process, SIGCONT);
}

// What asks a training to stop ends it where it comes before the training listens, while ranks start; where it has nothing to save yet,
// while it measures or chooses formats, it says so and fails. Without a folder it fails whenever it is stopped, and cannot be told apart.
bool Launcher::stopped_while_starting(const Attempt& attempt) const {
  if (!plans_again_ && stops_asked_ == 0) return false;
  if (attempt.status == 128 + kStopSignal) return true;
  return attempt.status == kExitFailed && !request_.job.out.empty() && !state_of_run(request_.job.out).begun;
}

Launcher::Next Launcher::judge(Attempt& attempt) {
  const int status = attempt.status;
  attempt.end = stalled_ ? fmt::format("{}: no record for too long", status) : text_of_status(status);
  const bool starting = stopped_while_starting(attempt);
  if (starting) attempt.end = "stopped while it was starting";
  const bool saved = status == kExitDone || status == kExitInterrupted || starting;
  if ((status == kExitInterrupted || starting) && plans_again_ && stops_asked_ == 0) {
    attempt.end = "planned again";
    attempt.lost_seconds = 0;
    return Next::kPlanAgain;
  }
  if (saved) {
    attempt.lost_seconds = 0;
    return Next::kEnd;
  }
  attempt.failed = true;
  if (stops_asked_ > 0) return Next::kEnd;
  if (status != kExitFailed && status != kExitUsage && status != kExitInfeasible) return Next::kAgain;
  if (hosts_.empty()) return Next::kEnd;
  const RankPlacement found = placement(find_present());
  if (found == now_) return Next::kEnd;
  attempt.end += ", and hosts are gone";
  return Next::kAgain;
}

// False when a signal asked to stop meanwhile.
bool Launcher::pause(Attempt& attempt) {
  const auto begun = SteadyClock::now();
  while (SteadyClock::now() - begun < next_pause_ && stops_asked_ == 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_pause_ - (SteadyClock::now() - begun));
    const std::optional<int> signal = inbox_.wait(std::max(1ms, left));
    if (signal && *signal != SIGCHLD && *signal != SIGUSR1) ++stops_asked_;
  }
  next_pause_ = std::min(next_pause_ * 2, request_.longest_pause);
  attempt.pause_seconds += seconds(SteadyClock::now() - begun);
  return stops_asked_ == 0;
}

// What a killed launcher started may hold its lock for a while, and may even be about to begin.
std::unique_ptr<FolderLock> Launcher::lock_folder() {
  constexpr const char* kLaunchLock = "launch.lock";
  constexpr int64_t kTenths = 300;
  const fs::path out = request_.job.out;
  if (out.empty()) return nullptr;
  refuse_planted_folder(out);
  for (int64_t tries = 0;; ++tries) {
    try {
      return std::make_unique<FolderLock>(out, "a launch", FolderLock::Means::kSystem, kLaunchLock);
    } catch (const Error& error) {
      const bool leftovers = error.code() == ErrorCode::kUnavailable && holder_has_ended(out, kLaunchLock);
      if (!leftovers || tries == kTenths || stops_asked_ > 0) throw;
      if (tries == 0) log::info("{}: waits for what a launcher that has ended left running there", out.string());
    }
    if (const std::optional<int> signal = inbox_.wait(100ms); signal && *signal != SIGCHLD && *signal != SIGUSR1) ++stops_asked_;
  }
}

// Ranks may outlive their mpirun by a second or two, with the folder's lock.
void Launcher::await_free_folder() {
  constexpr int64_t kTenths = 300;
  for (int64_t tries = 0; tries < kTenths && !request_.job.out.empty() && !folder_is_free(request_.job.out); ++tries)
    if (const std::optional<int> signal = inbox_.wait(100ms); signal && *signal != SIGCHLD && *signal != SIGUSR1) ++stops_asked_;
}

int Launcher::finish(int status, std::string reason) {
  summary_.status = status;
  summary_.reason = std::move(reason);
  summary_.seconds = seconds(SteadyClock::now() - started_);
  const std::string text = request_.json ? json_of(summary_) : table_of(summary_);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return status;
}

int Launcher::finish_stopped() {
  const bool begun = !request_.job.out.empty() && state_of_run(request_.job.out).begun;
  return finish(begun ? kExitInterrupted : kExitFailed,
                fmt::format("stopped by a signal {}", summary_.attempts.empty() ? "before the first attempt" : "between two attempts"));
}

int Launcher::run() {
  const auto tell_start = [&] {
    const int64_t threads = std::max<int64_t>(1, request_.job.threads);
    log::info("{} on {}{}", counted(static_cast<int64_t>(now_.cluster.devices.size()), "device"), counted(now_.ranks, "rank"),
              now_.hosts.empty() ? "" : fmt::format(" of {}", counted(static_cast<int64_t>(now_.hosts.size()), "host")));
    if (now_.hosts.empty() && now_.ranks * threads > cores_)
      log::warning("{} of {} on {}: they share cores, unbound, and take turns", counted(now_.ranks, "rank"), counted(threads, "thread"),
                   counted(cores_, "core"));
  };
  if (!await_enough_devices()) return finish(kExitHostLost, "too few devices");
  if (stops_asked_ > 0) return finish_stopped();
  lock_ = lock_folder();
  tell_start();
  if (request_.goes_on) await_free_folder();  // a launcher that was killed leaves them likewise
  for (;;) {
    if (stops_asked_ > 0) return finish_stopped();
    const int64_t step_before = summary_.attempts.empty() ? 0 : summary_.attempts.back().checkpoint_step;
    summary_.attempts.push_back(attempt());
    Attempt& last = summary_.attempts.back();
    const Next next = judge(last);
    if (next == Next::kEnd && stopped_while_starting(last) && !last.failed)
      return finish(state_of_run(request_.job.out).begun ? kExitInterrupted : kExitFailed, "stopped by a signal while it was starting");
    if (next == Next::kEnd) {
      const std::string what = last.status == kExitDone          ? "done"
                               : last.status == kExitInterrupted ? "interrupted, and the run is saved"
                               : stops_asked_ > 0                ? "ended by a signal"
                                                  : fmt::format("gives up: status {}; another attempt would meet it again", last.end);
      return finish(last.status, what);
    }
    if (next == Next::kAgain) {
      const int64_t failures = std::ranges::count_if(summary_.attempts, &Attempt::failed);
      if (failures > request_.max_restarts)
        return finish(last.status, fmt::format("gives up after {}: status {}", counted(request_.max_restarts, "restart"), last.end));
      if (last.checkpoint_step > step_before) next_pause_ = request_.pause;
      log::warning("the training ended with {}; attempt {} of at most {} in {:.1f} s, from {}", last.end, failures + 1,
                   request_.max_restarts + 1, std::chrono::duration<double>(next_pause_).count(),
                   last.checkpoint_step > 0 ? fmt::format("step {}", last.checkpoint_step) : "the beginning");
      pause(last);
    }
    await_free_folder();
    const Cluster before = now_.cluster;
    if (stops_asked_ == 0 && !await_enough_devices()) return finish(kExitHostLost, "gives up: too few devices");
    if (before != now_.cluster) ++summary_.replans;
  }
}

}  // namespace

int launch(const LaunchRequest& request) { return Launcher(request).run(); }

}  // namespace millrace
