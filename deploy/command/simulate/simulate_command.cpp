// `millrace simulate`: a plan row by row in virtual time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/field_kinds.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/writable.h"
#include "core/graph/norm_statistics.h"
#include "core/graph/zoo.h"
#include "core/plan/validate.h"
#include "core/train/action_times.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/command_words.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/simulate/scenario_flags.h"
#include "deploy/command/simulate/simulate_output.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/ring_devices.h"
#include "deploy/session/ring_flags.h"
#include "deploy/session/simulate_ranks.h"
#include "node/simulate/schedule_figure.h"
#include "node/simulate/simulation_page.h"
#include "node/simulate/trace.h"
#include "partitioner/choice/choose.h"

namespace millrace {
namespace {

constexpr const char* kSimulateExamples = R"(
Examples:
  millrace simulate --model vgg16 --cluster vc709x15
      plan it, then run four mini-batches through it row by row: does the ring keep the plan's pace, and what does each engine wait for
  millrace simulate --plan plan.textproto --images 400 --json
      a plan that was written before; JSON for scripts
  millrace simulate --model resnet18 --cluster vc709x15 --batch-norm running --report reports/resnet18
      a page to show: waiting by cause, links, memory beside the plan's
  millrace simulate --model alexnet --cluster vc709x8 --mini-batch 16 --images 64 --trace trace.json
      with mini-batch boundaries in it; a trace for ui.perfetto.dev
  mpirun -n 2 millrace simulate --model vgg16 --cluster vc709x400 --images 32
      a large ring on several cores or hosts: the same result, to the bit
  millrace simulate --model vgg16 --cluster vc709x15 --fc-barrier
      what FPDeep's formulas leave out: dense layers wait for whole maps
  millrace simulate --model vgg16 --cluster vc709x15 --stragglers 0.1:1.5 --jitter-us 2 --seed 7
      slow devices and unsteady links, drawn: the same on any number of ranks
  millrace simulate --model vgg16 --cluster vc709x15 --replicas 16 --replica-group 4 --mtbf-hours 8760
      sixteen rings that agree on every update, over links within and between groups; what their failures cost, by checkpoint interval
  millrace simulate --plan cpu.textproto --times times.json --cores 2
      what a training on this machine would do, from what millrace train --plan cpu.textproto --times-out times.json measured
)";

struct SimulateFlags {
  std::string plan, model, cluster, strategy = "hybrid", alignment, accounting, optimizer, batch_norm, trace, report, command;
  std::vector<std::string> catalogues, given;
  std::optional<int64_t> mini_batch, micro_batch, bits, images;
  std::optional<double> link_gbps, link_gbps_both;
  int64_t fifo_rows = 0;
  std::string times;
  int64_t cores = 0, trainer_ranks = 0;
  std::optional<double> act_ram;
  ScenarioFlags scenario;
  FailureFlags failures;
  std::optional<int64_t> seed;
  bool plan_fc_barrier = false, fc_barrier = false, unpaced = false, json = false;
};

Plan made_plan(const SimulateFlags& flags) {
  if (flags.model.empty() || flags.cluster.empty())
    fail(ErrorCode::kUsage, "give --plan, or --model and --cluster, such as --model vgg16 --cluster vc709x15");
  const Graph graph(
      with_choice(find_model(flags.model), flags.batch_norm.empty() ? BatchNormChoice::kAsModel : batch_norm_from(flags.batch_norm)));
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  PlanTask task;
  task.graph = &graph;
  task.cluster = cluster_from(flags.cluster, catalogue);
  set_link_gbps(task.cluster, flags.link_gbps, flags.link_gbps_both);
  task.options.arithmetic = arithmetic_for(task.cluster, catalogue, flags.bits);
  const Accounting accounting = accounting_of(flags.accounting, Accounting::kFull);
  const CostModels models = models_for(task.cluster, catalogue, task.options.arithmetic, accounting, graph);
  task.models = models.of_devices;
  task.options.strategy = strategy_from(flags.strategy);
  check_division(task.options.strategy, graph, task.cluster);
  const bool some_boards = std::ranges::any_of(task.models, [](const CostModel* model) { return model->dedicated_engines(); });
  if (some_boards) task.options.optimizer.kind = OptimizerKind::kSgd;
  if (flags.plan_fc_barrier && !some_boards)
    fail(ErrorCode::kUsage, "--plan-fc-barrier has no effect on a ring whose devices all take turns; leave it out, or name a board");
  if (!flags.alignment.empty()) task.options.alignment = alignment_from(flags.alignment);
  if (!flags.optimizer.empty()) task.options.optimizer.kind = optimizer_from(flags.optimizer);
  if (flags.mini_batch) task.options.mini_batch = *flags.mini_batch;
  if (flags.micro_batch) task.options.micro_batch = *flags.micro_batch;
  task.options.fc_barrier = flags.plan_fc_barrier;
  task.options.time_chunks = 0;
  account(task, accounting);
  // With rings side by side asked for, the plan is of one of them, whatever it shares with others.
  const Freedom usual = usual_freedom(task);
  if (flags.scenario.replicas == 1 && std::ranges::none_of(usual.replicas, [](int64_t count) { return count > 1; }))
    fail(ErrorCode::kUsage, "--replicas 1 has no effect; leave it out");
  Outcome outcome = choose_plan(task, flags.scenario.replicas ? Freedom{} : usual).outcome;
  if (!outcome.feasible) fail(ErrorCode::kInfeasible, "infeasible: {}", outcome.reason.text);
  if (!outcome.plan)
    fail(ErrorCode::kUsage, "--strategy {} is compared, not run: no ring of segments expresses it, so there is nothing to simulate",
         flags.strategy);
  return std::move(*outcome.plan);
}

Plan loaded_plan(const SimulateFlags& flags) {
  for (const std::string& name : flags.given)
    for (const char* idle :
         {"--model", "--cluster", "--catalogue", "--strategy", "--alignment", "--accounting", "--mini-batch", "--micro-batch",
          "--optimizer", "--batch-norm", "--bits", "--link-gbps", "--link-gbps-both", "--plan-fc-barrier"})
      if (name == idle) fail(ErrorCode::kUsage, "{} has no effect with --plan, which says it already; leave one of the two out", name);
  return flags.times.empty() ? load_timed_plan(flags.plan) : load_plan(flags.plan);
}

// Where devices take turns there is neither FIFO nor Act-RAM, and nothing streams.
void refuse_idle_options(const SimulateFlags& flags, const Plan& plan, const Graph& graph) {
  if (flags.times.empty() && streams_rows(plan, graph)) return;
  for (const std::string& name : flags.given)
    for (const char* idle : {"--fc-barrier", "--act-ram", "--fifo-rows", "--unpaced"})
      if (name == idle) fail(ErrorCode::kUsage, "{} has no effect on a ring whose devices all take turns; leave it out", name);
}

// A rank that waits takes messages in and wakes for nothing now and then: no matter where it has a core of its own.
bool crowded(const SimulateFlags& flags, const Plan& plan) {
  return flags.cores > 0 && flags.cores < (flags.trainer_ranks > 0 ? flags.trainer_ranks : plan.devices());
}

// Times of as many ranks as are asked for say who acts for whom.
void take_times(const SimulateFlags& flags, const Plan& plan, SimulationOptions& options) {
  const ActionTimes times = load_action_times(flags.times, plan);
  const double waits = crowded(flags, plan) ? 1 : 0;
  const auto picoseconds = [](double seconds) { return std::llround(1e12 * seconds); };
  for (const DeviceActionTimes& device : times.devices) {
    if (times.ranks == flags.trainer_ranks) options.trainer_rank_of.push_back(device.rank);
    options.measured.push_back({.forward = picoseconds(device.forward.seconds),
                                .error_back = picoseconds(device.error_back.seconds),
                                .parameter_gradient = picoseconds(device.parameter_gradient.seconds),
                                .update = picoseconds(device.update.seconds),
                                .between = picoseconds(device.between_seconds + waits * device.waiting_seconds)});
  }
}

Plan plan_of(const SimulateFlags& flags) { return flags.plan.empty() ? made_plan(flags) : loaded_plan(flags); }

SimulationOptions options_of(const SimulateFlags& flags, const Plan& plan) {
  SimulationOptions options;
  options.scenario = scenario_of(flags.scenario, flags.seed, plan, flags.plan.empty());
  options.samples = flags.images.value_or(samples_of_mini_batches(plan, Graph(plan.model), options.scenario.replicas.count > 1));
  options.fc_barrier = flags.fc_barrier;
  // Full accounting promises a pace with the memory that the plan has.
  const bool as_planned = plan.accounting == Accounting::kFull && flags.times.empty() && !flags.fc_barrier;
  options.act_ram = flags.act_ram.value_or(as_planned ? 1 : 0);
  options.fifo_rows = flags.fifo_rows;
  options.paced = !flags.unpaced;
  // The report shows a mini-batch where devices take turns.
  const bool shows = !flags.report.empty() && has_schedule_rows(plan) && (!flags.times.empty() || !streams_rows(plan, Graph(plan.model)));
  options.trace = !flags.trace.empty() || shows;
  if (!flags.times.empty()) take_times(flags, plan, options);
  options.cores = flags.cores;
  options.trainer_ranks = flags.trainer_ranks;
  return options;
}

// The cluster's rate while nothing fails: that of all replicas, whose devices fail as often as any.
std::optional<FailureStudy> failures_of(const SimulateFlags& flags, const Plan& plan, const SimulationResult& result) {
  if (!wants_failures(flags.failures)) return std::nullopt;
  const int64_t replicas = options_of(flags, plan).scenario.replicas.count;
  return failure_study(flags.failures, flags.seed, replicas * plan.devices(), static_cast<double>(replicas) * result.images_per_second);
}

void show(const SimulateFlags& flags, const Plan& plan, const Graph& graph, const SimulationResult& result, int64_t ranks) {
  const PlanSummary summary = summarize(plan, graph);
  const SimulationView view{.plan = &plan,
                            .summary = &summary,
                            .result = &result,
                            .options = options_of(flags, plan),
                            .ranks = ranks,
                            .sample = sample_word(graph),
                            .rows_stream = flags.times.empty() && streams_rows(plan, graph),
                            .failures = failures_of(flags, plan, result)};
  fmt::print("{}", flags.json ? simulation_json(view) : simulation_table(view));
  if (!flags.report.empty()) {
    make_folders(flags.report);
    write_atomically(std::filesystem::path(flags.report) / "index.html", simulation_page(plan, result, forecast_of(view), flags.command));
    log::info("report written to {}/index.html", flags.report);
  }
  if (flags.trace.empty()) return;
  write_atomically(flags.trace, trace_json(plan, result));
  log::info("trace written to {}: open it in ui.perfetto.dev", flags.trace);
}

int run(const SimulateFlags& flags) {
  const bool fails = wants_failures(flags.failures);
  refuse_idle_seed(flags.seed, fails || flags.scenario.jitter_us || !flags.scenario.drawn.empty());
  const auto options = [&](const Plan& plan, const Graph& graph) {
    refuse_idle_options(flags, plan, graph);
    return options_of(flags, plan);
  };
  const auto show_result = [&](const Plan& plan, const Graph& graph, const SimulationResult& result, int64_t ranks) {
    show(flags, plan, graph, result, ranks);
  };
  const auto plan_here = [&] {
    require_writable("--trace", flags.trace);
    return plan_of(flags);
  };
  if (under_mpirun()) return simulate_on_ranks(plan_here, options, show_result);
  const Plan plan = plan_here();
  const Graph graph(plan.model);
  show_result(plan, graph, simulate(plan, graph, options(plan, graph)), 1);
  return 0;
}

}  // namespace

void add_simulate_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command = app.add_subcommand("simulate", "run a plan row by row in virtual time: pace, waiting, links, memory");
  command->footer(kSimulateExamples);

  const auto option = [&](const char* heading, const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group(heading);
  };
  const auto flag = [&](const char* heading, const char* name, bool& value, const char* help) {
    command->add_flag(name, value, help)->group(heading);
  };
  constexpr const char* kWhat = "What to simulate";
  not_empty(option(kWhat, "--plan", flags->plan, "plan.textproto, as millrace plan --out writes it"));
  not_empty(option(kWhat, "--model", flags->model, "or plan on the spot: zoo name (millrace models) or PATH.textproto"));
  not_empty(option(kWhat, "--cluster", flags->cluster, "devices (millrace devices): vc709x15, u280x8+h200x2, or a .textproto"));
  not_empty(option(kWhat, "--catalogue", flags->catalogues, "a file with devices of your own"));

  constexpr const char* kPlanning = "Planned on the spot";
  option(kPlanning, "--strategy", flags->strategy, "hybrid, layer, kind [hybrid]");
  option(kPlanning, "--alignment", flags->alignment, "fpdeep, flush, 1f1b, stash, zero-bubble [fpdeep]");
  whole(option(kPlanning, "--mini-batch", flags->mini_batch, "samples between two updates [128]"), 1, text::kMostBatch);
  whole(option(kPlanning, "--micro-batch", flags->micro_batch,
               "samples per message [1 on FPGAs unless weights off chip ask for more, else what is fastest]"),
        1, text::kMostBatch);
  option(kPlanning, "--accounting", flags->accounting, kFullAccounting);
  option(kPlanning, "--optimizer", flags->optimizer, "sgd, momentum, nesterov, adam, adamw [sgd where there are FPGAs, else momentum]");
  not_empty(
      option(kPlanning, "--batch-norm", flags->batch_norm, "statistics in training: exact (the micro-batch's), running [as the model]"));
  whole(option(kPlanning, "--bits", flags->bits, "width of elements, 16 or 32 [16 with FPGAs, else 32]"), 1);
  real(option(kPlanning, "--link-gbps", flags->link_gbps, "bandwidth of every link, per direction [the devices' own]"), Least::kAboveZero);
  real(option(kPlanning, "--link-gbps-both", flags->link_gbps_both, "bandwidth of every link, both directions together"),
       Least::kAboveZero);
  flag(kPlanning, "--plan-fc-barrier", flags->plan_fc_barrier, "plan memory for dense layers that wait for whole maps");

  constexpr const char* kHow = "How";
  whole(
      option(
          kHow, "--images", flags->images,
          "images to run [four mini-batches, six where devices take turns; 64 of rings that would take long, or with --accounting fpdeep]"),
      2);
  flag(kHow, "--fc-barrier", flags->fc_barrier, "dense layers wait for the whole map before them");
  real(option(kHow, "--act-ram", flags->act_ram,
              "Act-RAM holds so many times the plan's bits, with fpdeep accounting a row more [1 with full accounting and no barrier, else "
              "it grows]"),
       Least::kAboveZero);
  whole(option(kHow, "--fifo-rows", flags->fifo_rows, "rows a FIFO holds beyond the one in use [what links' latency asks for]"), 1);
  flag(kHow, "--unpaced", flags->unpaced, "images come as fast as they are taken, not at the plan's pace");
  not_empty(option(kHow, "--times", flags->times, "measured times of this plan's devices, as millrace train --times-out writes them"));
  whole(option(kHow, "--cores", flags->cores, "cores that the devices' ranks share [one for each]"), 1);
  whole(
      option(
          kHow, "--trainer-ranks", flags->trainer_ranks,
          "ranks that act for the devices, each for one at a time: those of --times where they are as many, else of blocks [one for each]"),
      1);

  add_scenario_flags(*command, flags->scenario);
  add_seed_flag(*command, flags->seed);
  add_failure_flags(*command, flags->failures);

  constexpr const char* kOutput = "Output";
  not_empty(option(kOutput, "--trace", flags->trace, "write a Chrome trace here, for ui.perfetto.dev"));
  not_empty(option(kOutput, "--report", flags->report, "write an HTML page into this folder"));
  flag(kOutput, "--json", flags->json, "JSON on standard output");

  command->callback([command, flags, &invocation] {
    flags->command = typed_words(*command);
    for (const CLI::Option* given : command->parse_order()) flags->given.push_back(given->get_name());
    invocation.json = flags->json;
    invocation.run = [flags] { return run(*flags); };
  });
}

}  // namespace millrace
