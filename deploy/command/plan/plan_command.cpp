// `millrace plan`: from a model and a cluster to a plan, or the reason why there is none.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/field_kinds.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/progress.h"
#include "core/base/writable.h"
#include "core/graph/frozen_model.h"
#include "core/graph/norm_statistics.h"
#include "core/graph/zoo.h"
#include "core/plan/recomputation.h"
#include "core/plan/rings_side_by_side.h"
#include "core/plan/time_chunking.h"
#include "core/plan/validate.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/command_words.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/plan/plan_flags.h"
#include "deploy/command/plan/plan_output.h"
#include "deploy/command/plan/resource_output.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/job_paths.h"
#include "deploy/session/pair_laps.h"
#include "deploy/session/plan_inference.h"
#include "deploy/session/ring_check.h"
#include "deploy/session/ring_devices.h"
#include "deploy/session/ring_flags.h"
#include "partitioner/baseline/explain_kind.h"
#include "partitioner/choice/choose.h"
#include "partitioner/hybrid/explain.h"
#include "partitioner/planning/sample_word.h"
#include "partitioner/report/report.h"

namespace millrace {
namespace {

constexpr const char* kPlanExamples = R"(
Examples:
  millrace plan --model vgg16 --cluster vc709x15
      FPDeep's own case: where every channel of every layer goes, and what limits it
  millrace plan --model resnet50 --cluster u280x8+h200x2 --batch-norm running --explain --report reports/resnet50
      boards and GPUs in one ring; what would lift the limit, in words, and a page to show
  millrace plan --model alexnet --cluster vc709x40 --link-gbps-both 150 --json
      links with one budget for both directions; JSON for scripts
  millrace plan --model lenet5 --cluster cpux4 --mini-batch 64 --out plan.textproto
      a plan for `millrace train --plan plan.textproto`
  millrace plan --model vgg16 --cluster vc709x15 --pin conv1_1=0 --cut 3=conv2_1:40
      some of it by hand: layer conv1_1 on device 0, link 3 cuts conv2_1 at channel 40; the rest is planned
  millrace plan --model rnnt-encoder --cluster p100+vu13p --laps auto --strategy kind --bits 32 --divide all --engine 16x16x8192
      a GPU and a board, layer after layer: inputs' products here, steps there, on an engine given by hand
  millrace plan --profile graph.txt --devices 8 --objective max --link-gbps 10
      measured times instead of a model and device figures
  millrace plan --compare before.textproto after.textproto
      how two plans differ
)";

// ImageNet's images make no epoch of anything else.
double epoch_of(const PlanFlags& flags, const Graph& graph) {
  const bool given = flags.is_given("--epoch-images");
  return given || sample_word(graph).one == "image" ? flags.epoch_images : 0;
}

ReportContext report_context(const PlanFlags& flags, const Graph& graph, const std::vector<std::string>& explanation, double solve_seconds,
                             const RingCheck& built) {
  ReportContext context;
  context.pace_ratio = built.pace_ratio;
  context.waiting_pace_ratio = built.waiting_pace_ratio;
  context.built_text = built_text(built);
  if (const std::string waiting = waiting_text(built); !waiting.empty()) context.built_text += "; " + waiting;
  for (const CheckedDevice& device : built.devices)
    context.built.push_back({.counts = device.counts,
                             .generated = device.check.generated,
                             .fits = device.check.fits(),
                             .planned_seconds = device.check.planned_seconds,
                             .built_seconds = device.check.built_seconds});
  context.explanation = explanation;
  context.solve_seconds = solve_seconds;
  context.command = flags.command;
  context.epoch_images = epoch_of(flags, graph);
  return context;
}

// Long rings take long.
ChosenPlan plan_with_progress(PlanTask& task, const Freedom& freedom) {
  constexpr size_t kWorthABar = 500;
  if (task.models.size() < kWorthABar) return choose_plan(task, freedom);
  Progress bar("planning", 100);
  int64_t shown = 0;
  task.progress = [&](double share) {
    const auto now = static_cast<int64_t>(100 * share);
    if (now > shown) bar.advance(now - shown);
    shown = std::max(shown, now);
  };
  ChosenPlan chosen = choose_plan(task, freedom);
  chosen.task.progress = {};
  task.progress = {};
  bar.finish();
  return chosen;
}

// As a ring of two such devices has it, where this one has no link.
LinkEntry link_to_one_more(const PlanFlags& flags, const Cluster& cluster, const Catalogue& catalogue) {
  if (!cluster.links.empty()) return cluster.links.back();
  Cluster two = cluster_from(fmt::format("{}x2", cluster.devices.front().device), catalogue);
  set_link_gbps(two, flags.link_gbps, flags.link_gbps_both);
  return two.links.front();
}

int plan_model(const PlanFlags& flags) {
  Job job;
  if (!flags.job_file.empty()) job = load_job_with_files(flags.job_file);
  require_writable("--out", flags.out);
  const std::string model_name = !flags.model.empty() ? flags.model : flags.job_file.empty() ? "" : job.model;
  const std::string cluster_name = !flags.cluster.empty() ? flags.cluster : flags.job_file.empty() ? "" : job.cluster;
  if (model_name.empty() || cluster_name.empty())
    fail(ErrorCode::kUsage, "give --model and --cluster, such as --model vgg16 --cluster vc709x15 (or --profile, --show, --compare)");
  BatchNormChoice norms = flags.job_file.empty() ? BatchNormChoice::kAsModel : job.batch_norm;
  if (!flags.batch_norm.empty()) norms = batch_norm_from(flags.batch_norm);
  if (flags.inference)
    refuse_training_options(flags);
  else
    refuse_inference_options(flags);
  Model model = with_choice(find_model(model_name), norms);
  const Graph graph(flags.inference ? frozen_model(std::move(model)) : std::move(model));
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  PlanTask asked;
  asked.graph = &graph;
  const int64_t time_chunks = time_chunks_of(flags, job);
  check_time_chunks(time_chunks, graph);
  refuse_options_of_other_strategies(flags);
  asked.cluster = cluster_from(with_laps(cluster_name, flags.laps, graph), catalogue);
  set_link_gbps(asked.cluster, flags.link_gbps, flags.link_gbps_both);
  const Arithmetic arithmetic = arithmetic_for(asked.cluster, catalogue, flags.bits);
  const Accounting accounting = accounting_of(flags.accounting, Accounting::kFull);
  std::optional<ChainDimensions> chains;
  if (!flags.engine.empty()) chains = chain_dimensions_from(flags.engine);
  // They know much by the time that the process ends, which nobody needs taken apart.
  static auto* const kept = new std::vector<CostModels>;
  CostModels& models = kept->emplace_back(flags.inference ? models_for(asked.cluster, catalogue, arithmetic)
                                                          : models_for(asked.cluster, catalogue, arithmetic, accounting, graph, chains));
  asked.models = models.of_devices;
  if (!flags.engine.empty() && !some_dedicated(models))
    fail(ErrorCode::kUsage, "--engine {}: cluster \"{}\" has no board to build it on; leave it out, or name one", flags.engine,
         cluster_name);
  refuse_options_of_boards(flags, models);
  asked.options = options_of(flags, job, models);
  asked.options.arithmetic = arithmetic;
  asked.options.time_chunks = time_chunks;
  check_division(asked.options.strategy, graph, asked.cluster);
  const auto rooms = std::make_shared<KnownRooms>();
  account(asked, accounting, rooms);

  const bool orders = flags.order != "given" || !flags.replicas.empty();
  if (flags.inference && orders) fail(ErrorCode::kUsage, "--order and --replicas are for training; leave them out with --inference");
  ChosenPlan chosen;
  if (flags.inference) {
    chosen.outcome = plan_inference(flags.batch, catalogue, asked, models);
    chosen.task = asked;
  } else {
    chosen = plan_with_progress(asked, freedom_of(flags, asked, cluster_name, catalogue));
  }
  const PlanTask& task = chosen.task;
  if (task.options.pair_mode != PairMode::kOverlap) chosen.outcome.plan.reset();                                  // compared, not run
  if (chosen.outcome.plan && recomputes(*chosen.outcome.plan)) check_recomputation(*chosen.outcome.plan, graph);  // which chunks rule out
  const RingCheck built = chosen.outcome.plan ? check_ring_if_possible(*chosen.outcome.plan, graph, rooms.get()) : RingCheck{};
  if (const std::string why = chosen.outcome.plan ? cannot_be_built(*chosen.outcome.plan, graph, built) : ""; !why.empty()) {
    Outcome infeasible;
    infeasible.reason.resource = "hardware";
    infeasible.reason.text = why;
    infeasible.solve_seconds = chosen.outcome.solve_seconds;
    chosen.outcome = std::move(infeasible);
  }
  const Outcome& outcome = chosen.outcome;
  // The models of a plan for inference know engines of this ring alone, those of layers that share its boards.
  const auto planner = [&](const PlanTask& other) {
    if (!flags.inference) return choose_plan(other, flags.replicas.empty() ? usual_freedom(other) : Freedom{}).outcome;
    PlanTask anew = other;
    CostModels models_of_it;
    return plan_inference(flags.batch, catalogue, anew, models_of_it);
  };
  std::vector<std::string> explanation;
  const bool told = flags.explain || !flags.report.empty();
  if (outcome.feasible && outcome.plan && told) {
    explanation = explain(task, outcome, {.planner = planner, .link = link_to_one_more(flags, task.cluster, catalogue)});
    for (std::string& words : divisions_in_words(task, *outcome.plan)) explanation.push_back(std::move(words));
  }
  if (flags.inference && outcome.plan && flags.explain)
    for (std::string& words : fronts_in_words(flags.batch, task, catalogue, *outcome.plan)) explanation.push_back(std::move(words));
  if (!flags.json && outcome.feasible) fmt::print("{}", plan_table(task, outcome, epoch_of(flags, *task.graph), built));
  if (!flags.json && flags.inference && outcome.plan)
    for (const std::string& words : engines_in_words(*outcome.plan, graph)) fmt::print("{} (modelled)\n", words);
  if (flags.json) fmt::print("{}", plan_json(task, outcome, epoch_of(flags, *task.graph), explanation, built, flags.resources));
  if (!outcome.feasible) {
    fmt::print(stderr, "millrace: infeasible: {}\n", outcome.reason.text);
    return exit_status_of(ErrorCode::kInfeasible);
  }
  if (!flags.json && flags.explain) {
    fmt::print("\nwhat limits it, and what would lift it\n");
    for (const std::string& sentence : explanation) fmt::print("  - {}\n", sentence);
    fmt::print("{}", choices_text(task, outcome));
  }
  const std::string advice =
      flags.inference ? advice_to_leave_devices_empty(task, outcome, planner) : advice_to_leave_devices_empty(task, outcome);
  if (!advice.empty()) log::info("{}", advice);
  if (!outcome.plan) {
    const std::string_view wants = !flags.out.empty() ? "--out" : !flags.report.empty() ? "--report" : flags.resources ? "--resources" : "";
    if (!wants.empty() && task.options.pair_mode != PairMode::kOverlap)
      fail(ErrorCode::kUsage, "--mode {} is compared, not run: there is no plan for {}; leave one of the two out",
           name_of(task.options.pair_mode), wants);
    if (!wants.empty())
      fail(ErrorCode::kUsage, "--strategy {} is compared, not run: no ring of segments expresses it, so there is no plan for {}",
           name_of(task.options.strategy), wants);
    return 0;
  }
  if (!flags.json && flags.resources) fmt::print("{}", resource_table(*outcome.plan, outcome.summary));
  if (!flags.out.empty()) {
    validate(*outcome.plan, graph, flags.out);
    save(*outcome.plan, flags.out);
    log::info(
        "plan written to {}{}", flags.out,
        outcome.replicas > 1 ? fmt::format(", of one of {} rings side by side; --replicas 1 plans a single one", outcome.replicas) : "");
  }
  if (!flags.report.empty()) {
    write_plan_report(flags.report, *outcome.plan, graph, outcome.summary,
                      report_context(flags, graph, explanation, outcome.solve_seconds, built));
    log::info("report written to {}/index.html", flags.report);
  }
  return 0;
}

// An outcome as if it had just been planned.
struct LoadedPlan {
  explicit LoadedPlan(const std::string& path) : plan(load_timed_plan(path)), graph(plan.model), summary(summarize(plan, graph)) {
    count_rings(summary, rings_side_by_side(plan));
  }
  Plan plan;
  Graph graph;
  PlanSummary summary;
};

int show_plan(const PlanFlags& flags) {
  LoadedPlan loaded(flags.show);
  PlanTask task;
  task.graph = &loaded.graph;
  task.cluster = loaded.plan.cluster;
  task.options.alignment = loaded.plan.alignment;
  task.options.mini_batch = loaded.plan.mini_batch;
  task.options.accounting = loaded.plan.accounting;
  Outcome outcome;
  outcome.feasible = true;
  outcome.plan = loaded.plan;
  outcome.summary = loaded.summary;
  outcome.replicas = rings_side_by_side(loaded.plan);
  const RingCheck built = check_ring_if_possible(loaded.plan, loaded.graph);
  if (flags.json) {
    fmt::print("{}", plan_json(task, outcome, epoch_of(flags, *task.graph), {}, built, flags.resources));
  } else {
    fmt::print("{}", plan_table(task, outcome, epoch_of(flags, *task.graph), built));
    if (flags.resources) fmt::print("{}", resource_table(loaded.plan, loaded.summary));
  }
  if (!flags.report.empty())
    write_plan_report(flags.report, loaded.plan, loaded.graph, loaded.summary, report_context(flags, loaded.graph, {}, 0, built));
  return 0;
}

int compare_plans(const PlanFlags& flags) {
  const LoadedPlan before(flags.compare.at(0));
  const LoadedPlan after(flags.compare.at(1));
  fmt::print("{} against {} (modelled)\n", flags.compare[1], flags.compare[0]);
  for (const std::string& sentence : compare(before.plan, before.summary, after.plan, after.summary)) fmt::print("  - {}\n", sentence);
  return 0;
}

int run(const PlanFlags& flags) {
  if (!flags.compare.empty()) {
    refuse_idle_options(flags, "with --compare", {"--compare"});
    return compare_plans(flags);
  }
  if (!flags.show.empty()) {
    refuse_idle_options(flags, "with --show", {"--show", "--report", "--resources", "--epoch-images", "--json"});
    return show_plan(flags);
  }
  const std::vector<std::string> of_profiles = {"--profile", "--devices",     "--objective", "--exactly",   "--at-most", "--memory-gb",
                                                "--speeds",  "--memory-rule", "--replicate", "--link-gbps", "--json"};
  if (!flags.profile.profile.empty()) {
    refuse_idle_options(flags, "with --profile", of_profiles);
    if (flags.exactly && flags.profile.at_most) fail(ErrorCode::kUsage, "--exactly and --at-most exclude each other; choose one");
    ProfilePlanFlags profile = flags.profile;
    profile.link_gbps = flags.link_gbps;
    return plan_from_profile(profile, flags.json);
  }
  for (const std::string& name : flags.given)
    if (name != "--link-gbps" && name != "--json" && std::find(of_profiles.begin(), of_profiles.end(), name) != of_profiles.end())
      fail(ErrorCode::kUsage, "{} has no effect without --profile; leave it out", name);
  return plan_model(flags);
}

// Options under a heading of the help.
struct Section {
  CLI::App& command;
  std::string heading;

  template <typename T>
  CLI::Option* add_option(const char* name, T& value, const char* help) const {
    return command.add_option(name, value, help)->group(heading);
  }
  CLI::Option* add_flag(const char* name, bool& value, const char* help) const {
    return command.add_flag(name, value, help)->group(heading);
  }
};

void add_profile_options(const Section& group, PlanFlags& flags) {
  ProfilePlanFlags& profile = flags.profile;
  not_empty(group.add_option("--profile", profile.profile, "PipeDream's graph.txt, or a CSV as millrace profile writes it"));
  whole(group.add_option("--devices", profile.devices, "stages to cut it into"), 1);
  group.add_option("--objective", profile.objective, "compute, max (of compute and transfers), sum [compute]");
  group.add_flag("--exactly", flags.exactly, "as many stages as devices; this is the default");
  group.add_flag("--at-most", profile.at_most, "fewer stages where that is faster");
  real(group.add_option("--memory-gb", profile.memory_gb, "memory of a device, 10^9 bytes [no limit]"), Least::kAboveZero);
  group.add_option("--memory-rule", profile.memory_rule, "what a stage holds: 1f1b, stash, sum [1f1b]");
  group.add_option("--speeds", profile.speeds, "of the devices, relative to the profile's: 2,1,1 [1 each]")->delimiter(',');
  group.add_flag("--replicate", profile.replicate, "stages may be data-parallel, as PipeDream's");
}

}  // namespace

void add_plan_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand("plan", "cut a model into segments for a ring of devices, or say why it does not fit");
  command->footer(kPlanExamples);

  const Section what{*command, "What to plan"};
  not_empty(what.add_option("--model", flags->model, "zoo name (millrace models) or PATH.textproto"));
  not_empty(what.add_option("--cluster", flags->cluster, "devices (millrace devices): vc709x15, u280x8+h200x2, or a .textproto"));
  not_empty(what.add_option("--job", flags->job_file, "job.textproto with model, cluster, batches, pins and cuts; flags override it"));
  not_empty(what.add_option("--catalogue", flags->catalogues, "a file with devices of your own"));
  what.add_option("--strategy", flags->strategy, "hybrid, layer, kind, model, data [hybrid]");

  const Section training{*command, "How it will train"};
  training.add_option("--alignment", flags->alignment, "fpdeep, flush, 1f1b, stash, zero-bubble [fpdeep]");
  whole(training.add_option("--mini-batch", flags->mini_batch, "samples between two updates [128]"), 1, text::kMostBatch);
  whole(training.add_option("--micro-batch", flags->micro_batch,
                            "samples per message [1 on FPGAs unless weights off chip ask for more, else what is fastest]"),
        1, text::kMostBatch);
  training.add_flag("--recompute", flags->recompute, kRecomputeHelp);
  not_empty(
      training.add_option("--time-chunks", flags->time_chunks, "parts that train takes sequences in, or auto [auto: as many as gain 1%]"));
  training.add_option("--accounting", flags->accounting, kFullAccounting);
  training.add_option("--optimizer", flags->optimizer, "sgd, momentum, nesterov, adam, adamw [sgd where there are FPGAs, else momentum]");
  not_empty(
      training.add_option("--batch-norm", flags->batch_norm, "statistics in training: exact (the micro-batch's), running [as the model]"));
  whole(training.add_option("--bits", flags->bits, "width of elements, 16 or 32 [16 with FPGAs, else 32]"), 1);

  const Section asked{*command, "For inference"};
  asked.add_flag("--inference", flags->inference,
                 "forward passes alone: nothing is trained, and recurrent layers on boards get BB-LSTM's engine, which streams weights");
  whole(asked.add_option("--streams", flags->batch.streams, "sequences side by side [the fastest of 1, 2 and 4]"), 1, 64);
  whole(asked.add_option("--steps-per-pass", flags->batch.steps_per_pass, "steps of each sequence at a time [what is fastest]"), 1);
  whole(asked.add_option("--blocks", flags->batch.blocks, "in which weights are streamed [what is fastest; all on chip where they fit]"), 1,
        4096);

  const Section ring{*command, "The ring"};
  real(ring.add_option("--link-gbps", flags->link_gbps, "bandwidth of every link, per direction [the devices' own]"), Least::kAboveZero);
  real(ring.add_option("--link-gbps-both", flags->link_gbps_both, "bandwidth of every link, both directions together"), Least::kAboveZero);
  ring.add_option("--order", flags->order, "of the devices: given, or best: each kind together, in the order that is fastest [given]");
  not_empty(ring.add_option("--replicas", flags->replicas,
                            "rings side by side that share devices and mini-batch: a number, or auto [auto without FPGAs, else 1]"));
  ring.add_option("--pin", flags->pins, "LAYER=DEVICE: that layer whole on that device");
  ring.add_option("--cut", flags->cuts, "LINK=LAYER[:CHANNEL[:OUTPUTS]]: where that link cuts");
  ring.add_option("--balance", flags->balance, "store parameters upstream of their user: auto (above 80%), always, never [auto]");
  not_empty(ring.add_option("--laps", flags->laps, "of strategy kind: how often the ring visits its two cards: a number, or auto"));
  ring.add_option(
      "--divide", flags->divide,
      "of strategy kind, recurrent layers that are divided: auto (where that is faster), all, boards (those of every board) [auto]");
  not_empty(ring.add_option("--engine", flags->engine,
                            "of strategy kind, each board's: CHAINSxLENGTHxWEIGHTS, such as 16x12x8192 [the fastest for each layer]"));
  ring.add_option("--mode", flags->mode, "of strategy kind, compared and not run: overlap, no-overlap, all-fpga [overlap]");
  ring.add_flag("--allow-empty", flags->allow_empty, "devices may be left without work even where that is no faster");
  ring.add_flag("--fc-barrier", flags->fc_barrier,
                "activations wait for the whole map before fully connected layers, and for these, one after the other");
  ring.add_flag("--fpdeep-lifetimes", flags->fpdeep_lifetimes,
                "activations are held as long as FPDeep's formulas say, which let errors pass strides and links in no time");

  const Section output{*command, "Output"};
  output.add_flag("--explain", flags->explain, "say in words what limits the plan and what would lift it");
  output.add_flag("--resources", flags->resources, "DSP, LUT, FF, BRAM and URAM of every FPGA, by layer and module");
  real(output.add_option("--epoch-images", flags->epoch_images, "samples of an epoch [1281167 where they are images]"), Least::kAboveZero);
  not_empty(output.add_option("--out", flags->out, "write the plan here, for train, simulate and rtl"));
  not_empty(output.add_option("--report", flags->report, "write an HTML page into this folder"));
  not_empty(output.add_option("--show", flags->show, "print a plan that was written before"));
  output.add_option("--compare", flags->compare, "two plans: say how they differ")->expected(2);
  output.add_flag("--json", flags->json, "JSON on standard output");

  const Section profile{*command, "From measured times"};
  add_profile_options(profile, *flags);

  command->callback([command, flags, &invocation] {
    flags->command = typed_words(*command);
    for (const CLI::Option* option : command->parse_order()) flags->given.push_back(option->get_name());
    invocation.json = flags->json;
    invocation.run = [flags] { return run(*flags); };
  });
}

}  // namespace millrace
