// `millrace launch`: a training under mpirun, watched and started again when it fails.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/plan/validate.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/train/train_words.h"
#include "deploy/launch/launcher.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/machine_report.h"
#include "deploy/session/quantities.h"
#include "partitioner/choice/planner.h"
#include "partitioner/planning/sample_word.h"
#include "transport/mpi/mpi_session.h"

namespace millrace {
namespace {

constexpr const char* kLaunchExamples = R"(
Examples:
  millrace launch -- train --model digits-cnn --data digits --cluster cpux4 --epochs 20 --checkpoint-every 50 --out runs/ring
      a ring of four devices under mpirun; when a rank is killed, on from the newest checkpoint
  millrace launch --hosts hosts --min-devices 6 -- train --model vgg16-cifar --data cifar10:data --cluster cpux8 --out runs/vgg
      hosts, one a line: worker-1 slots=4. Without one of them the training goes on with six devices or more, and with all when it is back
  millrace launch --slurm --continue -- train --job job.textproto
      in a batch script: the hosts of the allocation; a requeued job goes on where it was
)";

struct LaunchFlags {
  std::vector<std::string> words;
  std::string hosts, mpirun, agent, mpi, bind = "auto", pause = "1s", look_every = "30s", stalled_after = "0";
  std::optional<int64_t> max_restarts, min_devices, ranks;
  bool slurm = false, goes_on = false, json = false;
};

std::chrono::milliseconds time_of(const std::string& text, std::string_view flag) {
  return std::chrono::milliseconds(std::llround(1000 * parse_duration(text, flag)));
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// By the cost models of the catalogue; nothing for devices or networks that they do not know.
std::optional<LaunchRequest::Throughput> modelled_throughput(const std::filesystem::path& path, const Cluster& cluster) {
  try {
    const Plan plan = load_plan(path);
    const Graph graph(plan.model);
    PlanTask task;
    task.graph = &graph;
    task.cluster = cluster;
    const CostModels models = models_for(cluster, shipped_catalogue(), plan.arithmetic);
    task.models = models.of_devices;
    task.options.alignment = plan.alignment;
    task.options.mini_batch = plan.mini_batch;
    task.options.micro_batch = plan.micro_batch;
    task.options.optimizer = plan.optimizer;
    task.options.arithmetic = plan.arithmetic;
    const Outcome outcome = make_plan(task);
    if (outcome.feasible) return LaunchRequest::Throughput{outcome.summary.images_per_second, sample_word(graph).many};
  } catch (const Error&) {  // it only serves a message
  }
  return std::nullopt;
}

int run(const LaunchFlags& flags, const std::vector<std::string>& before) {
  if (flags.words.empty() || flags.words.front() != "train")
    fail(ErrorCode::kUsage, "launch starts `train` alone, and {}; write it behind --, as in: millrace launch -- train --out runs/a",
         flags.words.empty() ? "nothing is said of it" : fmt::format("not \"{}\"", flags.words.front()));
  const TrainWords train = read_train_words(flags.words);
  if (!train.help.empty()) {
    fmt::print("{}", train.help);
    return 0;
  }
  if (MpiSession::launched()) fail(ErrorCode::kUsage, "launch starts mpirun by itself; call it without mpirun or srun before it");
  if (train.dry_run) fail(ErrorCode::kUsage, "--dry-run trains nothing that could be launched; leave one of the two out");
  if (!flags.hosts.empty() && flags.slurm) fail(ErrorCode::kUsage, "--hosts and --slurm exclude each other; choose one");
  if (flags.bind != "auto" && flags.bind != "none") fail(ErrorCode::kUsage, "--bind \"{}\" is unknown; it is auto or none", flags.bind);
  if (flags.goes_on && !train.resume.empty())
    fail(ErrorCode::kUsage, "--continue has no effect with --resume, which goes on anyway; leave one of the two out");
  if (train.measure && !train.resume.empty())
    fail(ErrorCode::kUsage,
         "--measure has no effect with --resume: every attempt plans with the rates of its run; leave one of the two out");
  if (!flags.agent.empty() && flags.hosts.empty())
    fail(ErrorCode::kUsage, "--agent has no effect without --hosts: no other host is reached; leave it out");
  LaunchRequest request;
  request.program = std::filesystem::read_symlink("/proc/self/exe").string();
  request.before = before;
  const auto says_level = [](const std::string& word) { return word.starts_with("--log-level"); };
  if (std::ranges::any_of(flags.words, says_level))  // behind -- it is the training's, before it both's
    if (const auto level = std::ranges::find(request.before, "--log-level"); level != request.before.end())
      request.before.erase(level, level + 2);
  request.words = flags.words;
  request.job = train.job;
  request.resumes = !train.resume.empty();
  request.goes_on = flags.goes_on;
  request.mpirun = program_on_path(flags.mpirun.empty() ? "mpirun" : flags.mpirun);
  if (!flags.mpirun.empty() && request.mpirun.empty()) fail(ErrorCode::kNotFound, "--mpirun {}: there is no such program", flags.mpirun);
  request.hosts_file = flags.hosts;
  request.slurm = flags.slurm;
  request.agent = split(flags.agent);
  request.mpi = split(flags.mpi);
  request.ranks = flags.ranks;
  request.min_devices = flags.min_devices;
  request.max_restarts = flags.max_restarts.value_or(request.max_restarts);
  request.pause = time_of(flags.pause, "--pause");
  request.longest_pause = std::max(request.longest_pause, request.pause);
  request.look_every = time_of(flags.look_every, "--look-every");
  request.stalled_after = time_of(flags.stalled_after, "--stalled-after");
  request.binds = flags.bind == "auto";
  request.json = flags.json || train.json;
  request.throughput = modelled_throughput;
  return launch(request);
}

// The options of the program itself, as they were given.
std::vector<std::string> words_before(const CLI::App& app) {
  std::vector<std::string> words;
  for (const char* name : {"--log-level", "--no-progress"}) {
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr || option->count() == 0) continue;
    words.emplace_back(name);
    if (option->get_items_expected_max() > 0) words.push_back(option->results().back());
  }
  return words;
}

}  // namespace

void add_launch_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* command = app.add_subcommand("launch", "start train under mpirun, watch it, start it again after failures");
  command->footer(kLaunchExamples);
  command->add_option("words", flags->words, "-- train, and its options");
  const std::string where = "Where";
  not_empty(command->add_option("--hosts", flags->hosts, "file of hosts: worker-1 slots=4; a slot has room for a device [this machine]")
                ->group(where));
  command->add_flag("--slurm", flags->slurm, "the hosts of this Slurm job; a task has room for a device")->group(where);
  whole(command->add_option("--ranks", flags->ranks, "processes [one per device; here, no more than cores]")->group(where), 1);
  whole(
      command
          ->add_option("--min-devices", flags->min_devices, "go on with so many when hosts are gone, and with all when they are back [all]")
          ->group(where),
      1);
  const std::string failing = "When it fails";
  whole(command->add_option("--max-restarts", flags->max_restarts, "attempts after the first; status 1 to 3 is never tried again [10]")
            ->group(failing),
        0, 1'000'000);
  command->add_option("--pause", flags->pause, "before the first restart; doubles up to a minute until a checkpoint is made [1s]")
      ->group(failing);
  command->add_option("--stalled-after", flags->stalled_after, "end and restart a training that records nothing for so long [0: never]")
      ->group(failing);
  command->add_flag("--continue", flags->goes_on, "where the folder of --out holds a run, go on with it")->group(failing);
  command->add_option("--look-every", flags->look_every, "with --min-devices: time between two looks at the hosts [30s]")->group(failing);
  const std::string mpi = "mpirun";
  not_empty(command->add_option("--mpirun", flags->mpirun, "the program [the one in PATH]")->group(mpi));
  not_empty(command->add_option("--agent", flags->agent, "reaches a host, as AGENT HOST COMMAND [ssh]")->group(mpi));
  not_empty(command->add_option("--mpi", flags->mpi, "further words for it, in one argument: --mpi \"--mca btl tcp,self\"")->group(mpi));
  command->add_option("--bind", flags->bind, "ranks to cores where there are enough: auto, none [auto]")->group(mpi);
  command->add_flag("--json", flags->json, "the summary as one JSON object");
  command->callback([flags, &invocation, &app] {
    invocation.json = flags->json;
    invocation.run = [flags, before = words_before(app)] { return run(*flags, before); };
  });
}

}  // namespace millrace
