// Starts a training under mpirun, watches it, and starts it again from its newest checkpoint when it fails.
//
//   LaunchRequest request{.program = "/usr/bin/millrace", .words = {"train", "--out", "runs/a"}, .job = job, .mpirun = "/usr/bin/mpirun"};
//   return launch(request);                                       // the exit status; a summary is printed
//
// | the training ends with                  | then                                                                                   |
// | 0 done, 4 interrupted and saved         | so does the launch                                                                     |
// | 1, 2, 3                                 | so does the launch: it would fail again; unless a host was lost meanwhile              |
// | anything else: killed, a deadline, ...  | it is started again with --resume after a pause that doubles, at most max_restarts times |
// SIGINT, SIGTERM, SIGHUP and SIGUSR2 ask the training to stop with a checkpoint, which mpirun alone would not leave it the time for;
// the second SIGINT or SIGTERM ends it at once. SIGUSR1 asks for a checkpoint.
//
// Elastic: where min_devices is below the cluster's devices, a host that is gone takes its devices with it, and one that comes back
// brings them: what is there is planned for, and the training goes on from its newest checkpoint. Model, mini-batch, micro-batch,
// alignment, seed and so every update's samples stay.
// Two launchers do not share a folder: the file launch.lock there is held by the launcher and by what it starts. Where the launcher was
// killed, the next one waits for what it left behind, at most 30 seconds; where it runs, the next one is told so and ends with status 1.
// One launch per process at a time: signals and children are the process's.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/job.h"
#include "deploy/launch/launch_summary.h"
#include "deploy/launch/placement.h"

namespace millrace {

struct LaunchRequest {
  std::string program;              // millrace itself
  std::vector<std::string> before;  // words before the command: --log-level info
  std::vector<std::string> words;   // "train", "--model", ...
  Job job;                          // what these words ask for
  bool resumes = false;             // they have --resume
  bool goes_on = false;             // where the folder of --out holds a run, that is resumed
  std::string mpirun;               // empty: there is none, and one rank runs without
  std::string hosts_file;           // empty: this machine alone
  bool slurm = false;               // the hosts of this allocation
  std::vector<std::string> agent;   // what reaches a host: AGENT HOST COMMAND; empty: ssh
  std::vector<std::string> mpi;     // further words for mpirun
  std::optional<int64_t> ranks, min_devices;
  int64_t max_restarts = 10;
  std::chrono::milliseconds pause{1000}, longest_pause{60000};
  std::chrono::milliseconds look_every{30000};  // at the hosts, while all goes well
  std::chrono::milliseconds stalled_after{0};   // without a record: what runs is ended, and started again; 0: never
  bool binds = true;                            // ranks to cores, where there are enough
  bool json = false;
  // What a ring like that of the plan document, but on another cluster, would do in a second, and what its samples are called: modelled;
  // none: not known.
  struct Throughput {
    double rate = 0;
    std::string_view samples;
  };
  std::function<std::optional<Throughput>(const std::filesystem::path& plan, const Cluster& cluster)> throughput = {};
};

int launch(const LaunchRequest& request);

}  // namespace millrace
