// `millrace plan`: from a model and a cluster to a plan, or the reason why there is none.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/field_kinds.h"
#include "core/base/files.h"
#include "core/base/index.h"
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
#include "deploy/command/plan/plan_output.h"
#include "deploy/command/plan/profile_plan.h"
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
#include "deploy/session/word_meaning.h"
#include "partitioner/baseline/explain_kind.h"
#include "partitioner/choice/choose.h"
#include "partitioner/choice/planner.h"
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

struct PlanFlags {
  std::string job_file, model, cluster, strategy = "hybrid", alignment, accounting, optimizer, batch_norm, balance = "auto",
                                        order = "given", replicas, laps, engine, divide = "auto", mode = "overlap", out, report, show;
  std::vector<std::string> catalogues, pins, cuts, compare;
  std::optional<int64_t> mini_batch, micro_batch, bits;
  std::string time_chunks;
  std::optional<double> link_gbps, link_gbps_both;
  double epoch_images = 1281167;
  InferenceRequest batch;  // of inference
  bool inference = false, recompute = false, explain = false, resources = false, allow_empty = false, fc_barrier = false,
       fpdeep_lifetimes = false, exactly = false, json = false;
  ProfilePlanFlags profile;
  std::vector<std::string> given;  // names of the options on the command line
  std::string command;             // as it was typed, near enough to type it again
};

int64_t integer_of(std::string_view text, std::string_view flag, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    fail(ErrorCode::kUsage, "{} \"{}\": \"{}\" is not a whole number", flag, whole, text);
  return value;
}

// What strategy kind alone has.
void check_kind_options(const PlanFlags& flags, Strategy strategy) {
  for (const char* name : {"--laps", "--engine", "--divide", "--mode"})
    if (strategy != Strategy::kKind && std::ranges::find(flags.given, name) != flags.given.end())
      fail(ErrorCode::kUsage, "{} has no effect without --strategy kind; leave it out, or add that", name);
  if (strategy == Strategy::kKind && std::ranges::find(flags.given, "--balance") != flags.given.end())
    fail(ErrorCode::kUsage,
         "--balance has no effect with --strategy kind, where parameters lie beside the products of their layer; leave it out");
}

// LAYER=DEVICE
void add_pin(const std::string& text, PlanOptions& options) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) fail(ErrorCode::kUsage, "--pin \"{}\": write LAYER=DEVICE, such as conv1=0", text);
  const std::string layer = text.substr(0, equals);
  const int64_t device = integer_of(std::string_view(text).substr(equals + 1), "--pin", text);
  if (!options.pins.emplace(layer, device).second) fail(ErrorCode::kUsage, "--pin \"{}\": the layer is pinned already", text);
}

// LINK=LAYER[:CHANNEL[:OUTPUTS]]
void add_cut(const std::string& text, PlanOptions& options) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size())
    fail(ErrorCode::kUsage, "--cut \"{}\": write LINK=LAYER, LINK=LAYER:CHANNEL or LINK=LAYER:CHANNEL:OUTPUTS, such as 3=conv2_1:40", text);
  const int64_t link = integer_of(std::string_view(text).substr(0, equals), "--cut", text);
  FixedCut cut;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  const size_t first = rest.find(':');
  cut.layer = std::string(rest.substr(0, first));
  if (first != std::string_view::npos) {
    rest = rest.substr(first + 1);
    const size_t second = rest.find(':');
    cut.channel = integer_of(rest.substr(0, second), "--cut", text);
    if (second != std::string_view::npos) cut.outputs = integer_of(rest.substr(second + 1), "--cut", text);
  }
  if (!options.cuts.emplace(link, std::move(cut)).second) fail(ErrorCode::kUsage, "--cut \"{}\": link {} is cut already", text, link);
}

Balance balance_from(const std::string& word) {
  return meaning_of<Balance>("--balance", word, {{"auto", Balance::kAuto}, {"always", Balance::kAlways}, {"never", Balance::kNever}});
}

bool some_dedicated(const CostModels& models) {
  return std::any_of(models.of_devices.begin(), models.of_devices.end(), [](const CostModel* model) { return model->dedicated_engines(); });
}

// 0: to be chosen.
int64_t time_chunks_of(const PlanFlags& flags, const Job& job) {
  if (flags.inference) return 1;
  if (flags.time_chunks.empty() && !flags.job_file.empty()) return job.time_chunks;
  return flags.time_chunks.empty() ? 0 : time_chunks_from(flags.time_chunks);
}

PlanOptions options_of(const PlanFlags& flags, const Job& job, const CostModels& models) {
  PlanOptions options;
  options.strategy = strategy_from(flags.strategy);
  if (!flags.job_file.empty()) {
    options.alignment = job.alignment;
    options.mini_batch = job.mini_batch;
    options.micro_batch = job.micro_batch;
    options.optimizer = job.optimizer;
    options.recompute = job.recompute;
    options.pins = job.pins;
    options.cuts = job.cuts;
  } else if (some_dedicated(models)) {
    options.optimizer.kind = OptimizerKind::kSgd;  // as FPDeep: no second copy of the parameters on chip
  }
  if (!flags.alignment.empty()) options.alignment = alignment_from(flags.alignment);
  if (!flags.optimizer.empty()) options.optimizer.kind = optimizer_from(flags.optimizer);
  if (flags.mini_batch) options.mini_batch = *flags.mini_batch;
  if (flags.micro_batch) options.micro_batch = *flags.micro_batch;
  if (std::ranges::find(flags.given, "--recompute") != flags.given.end()) options.recompute = flags.recompute;
  options.balance = balance_from(flags.balance);
  options.divide_all = meaning_of<bool>("--divide", flags.divide, {{"auto", false}, {"all", true}});
  options.pair_mode = pair_mode_from(flags.mode);
  options.allow_empty = flags.allow_empty;
  options.fc_barrier = flags.fc_barrier;
  options.fpdeep_lifetimes = flags.fpdeep_lifetimes;
  for (const std::string& pin : flags.pins) add_pin(pin, options);
  for (const std::string& cut : flags.cuts) add_cut(cut, options);
  return options;
}

// ImageNet's images make no epoch of anything else.
double epoch_of(const PlanFlags& flags, const Graph& graph) {
  const bool given = std::find(flags.given.begin(), flags.given.end(), "--epoch-images") != flags.given.end();
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
    context.built.push_back({.generated = device.check.generated,
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

// The ring with its devices in another order. Links given by hand belong to places, so there all have to be alike.
RingOrder reordered(const PlanTask& task, const std::vector<int64_t>& order, bool from_file, const Catalogue& catalogue,
                    const PlanFlags& flags) {
  RingOrder result;
  std::string shorthand;
  for (size_t i = 0; i < order.size();) {
    const std::string& kind = item(task.cluster.devices, order[i]).device;
    size_t end = i;
    while (end < order.size() && item(task.cluster.devices, order[end]).device == kind) ++end;
    shorthand += fmt::format("{}{}x{}", i == 0 ? "" : "+", kind, end - i);
    i = end;
  }
  result.name = shorthand;
  result.cluster = from_file ? task.cluster : cluster_from(shorthand, catalogue);
  if (!from_file) set_link_gbps(result.cluster, flags.link_gbps, flags.link_gbps_both);
  result.cluster.name = task.cluster.name;
  for (size_t i = 0; i < order.size(); ++i) {
    result.cluster.devices[i] = item(task.cluster.devices, order[i]);
    result.models.push_back(item(task.models, order[i]));
  }
  return result;
}

Freedom freedom_of(const PlanFlags& flags, const PlanTask& task, const std::string& cluster_name, const Catalogue& catalogue) {
  Freedom freedom = flags.replicas.empty() ? usual_freedom(task) : Freedom{};
  freedom.next_best = flags.explain;
  const bool by_hand = !task.options.pins.empty() || !task.options.cuts.empty();
  if (flags.order != "given" && flags.order != "best")
    fail(ErrorCode::kUsage, "--order \"{}\" is unknown{}", flags.order, suggestion(flags.order, {"given", "best"}));
  if (flags.order == "best") {
    if (by_hand) fail(ErrorCode::kUsage, "--order best moves devices, and pins and cuts name them; leave one of the two out");
    const bool from_file = cluster_name.ends_with(".textproto") || cluster_name.find('/') != std::string::npos;
    const std::vector<LinkEntry>& links = task.cluster.links;
    if (from_file && std::ranges::any_of(links, [&](const LinkEntry& link) { return link != links.front(); }))
      fail(ErrorCode::kUsage, "--order best: the links of {} differ, and belong to places in the ring; leave it out, or make them alike",
           cluster_name);
    for (const std::vector<int64_t>& order : orders_of_kinds(task.cluster))
      freedom.orders.push_back(reordered(task, order, from_file, catalogue, flags));
  }
  if (flags.replicas.empty()) return freedom;
  if (task.options.accounting == Accounting::kFpdeep)
    fail(ErrorCode::kUsage,
         "--replicas needs full accounting: rings side by side agree on every update, which takes time; leave out "
         "--accounting fpdeep");
  if (task.options.strategy != Strategy::kHybrid || by_hand)
    fail(ErrorCode::kUsage, "--replicas goes with hybrid plans without pins and cuts; leave it out");
  const auto devices = static_cast<int64_t>(task.models.size());
  if (flags.replicas == "auto") {
    for (int64_t count = 2; count <= devices; ++count) freedom.replicas.push_back(count);
    return freedom;
  }
  const int64_t count = integer_of(flags.replicas, "--replicas", flags.replicas);
  if (count < 1) fail(ErrorCode::kUsage, "--replicas {}: give a number of rings from 1 on, or auto", count);
  freedom.replicas = {count};
  return freedom;
}

void refuse_training_options(const PlanFlags& flags) {
  static const std::vector<std::string> of_training = {"--job",       "--alignment",  "--mini-batch", "--micro-batch",      "--time-chunks",
                                                       "--optimizer", "--batch-norm", "--balance",    "--fpdeep-lifetimes", "--recompute"};
  for (const std::string& name : flags.given)
    if (std::find(of_training.begin(), of_training.end(), name) != of_training.end())
      fail(ErrorCode::kUsage, "{} has no effect with --inference, which trains nothing; leave one of the two out", name);
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
  if (flags.inference) refuse_training_options(flags);
  if (!flags.inference)
    for (const char* name : {"--streams", "--steps-per-pass", "--blocks"})
      if (std::ranges::find(flags.given, name) != flags.given.end())
        fail(ErrorCode::kUsage, "{} has no effect without --inference; leave it out", name);
  Model model = with_choice(find_model(model_name), norms);
  const Graph graph(flags.inference ? frozen_model(std::move(model)) : std::move(model));
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  PlanTask asked;
  asked.graph = &graph;
  const int64_t time_chunks = time_chunks_of(flags, job);
  check_time_chunks(time_chunks, graph);
  check_kind_options(flags, strategy_from(flags.strategy));
  asked.cluster = cluster_from(with_laps(cluster_name, flags.laps, graph), catalogue);
  set_link_gbps(asked.cluster, flags.link_gbps, flags.link_gbps_both);
  const Arithmetic arithmetic = arithmetic_for(asked.cluster, catalogue, flags.bits);
  const Accounting accounting = accounting_of(flags.accounting, Accounting::kFull);
  std::optional<ChainDimensions> chains;
  if (!flags.engine.empty()) chains = chain_dimensions_from(flags.engine);
  CostModels models = flags.inference ? models_for(asked.cluster, catalogue, arithmetic)
                                      : models_for(asked.cluster, catalogue, arithmetic, accounting, graph, chains);
  asked.models = models.of_devices;
  if (!flags.engine.empty() && !some_dedicated(models))
    fail(ErrorCode::kUsage, "--engine {}: cluster \"{}\" has no board to build it on; leave it out, or name one", flags.engine,
         cluster_name);
  asked.options = options_of(flags, job, models);
  asked.options.arithmetic = arithmetic;
  asked.options.time_chunks = time_chunks;
  check_division(asked.options.strategy, graph, asked.cluster);
  account(asked, accounting);

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
  const RingCheck built = chosen.outcome.plan ? check_ring_if_possible(*chosen.outcome.plan, graph) : RingCheck{};
  if (const std::string why = chosen.outcome.plan ? cannot_be_built(*chosen.outcome.plan, graph, built) : ""; !why.empty()) {
    Outcome infeasible;
    infeasible.reason.resource = "hardware";
    infeasible.reason.text = why;
    infeasible.solve_seconds = chosen.outcome.solve_seconds;
    chosen.outcome = std::move(infeasible);
  }
  const Outcome& outcome = chosen.outcome;
  std::vector<std::string> explanation;
  const bool told = flags.explain || !flags.report.empty();
  if (outcome.feasible && outcome.plan && told) {
    const auto planner = [&](const PlanTask& other) {
      return choose_plan(other, flags.replicas.empty() ? usual_freedom(other) : Freedom{}).outcome;
    };
    explanation = flags.inference ? explain(task, outcome) : explain(task, outcome, planner);
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
  if (const std::string advice = advice_to_leave_devices_empty(task, outcome); !advice.empty()) log::info("{}", advice);
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
  task.options.strategy = strategy_from(loaded.plan.strategy);
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

// Options that the chosen way of planning does not read would be ignored in silence.
void refuse_idle_options(const PlanFlags& flags, std::string_view way, const std::vector<std::string>& read) {
  for (const std::string& name : flags.given)
    if (std::find(read.begin(), read.end(), name) == read.end())
      fail(ErrorCode::kUsage, "{} has no effect {}; leave one of the two out", name, way);
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

Plan load_timed_plan(const std::filesystem::path& path) {
  Plan plan = load_plan(path);
  const bool timed = std::any_of(plan.shards.begin(), plan.shards.end(), [](const Shard& shard) { return !shard.phases.empty(); });
  if (timed || plan.devices() != 1) {
    const Graph graph(plan.model);
    if (plan.purpose == Purpose::kInference)
      check_engines(plan, graph);
    else
      check_built_engines(plan, graph, path.string());
    return plan;
  }
  const Graph graph(plan.model);
  const CostModels models = models_for(plan.cluster, shipped_catalogue(), plan.arithmetic, plan.accounting, graph);
  PlanTask task;
  task.graph = &graph;
  task.cluster = plan.cluster;
  task.models = models.of_devices;
  task.options.alignment = plan.alignment;
  task.options.mini_batch = plan.mini_batch;
  task.options.micro_batch = plan.micro_batch;
  task.options.optimizer = plan.optimizer;
  task.options.recompute = recomputes(plan);
  task.options.arithmetic = plan.arithmetic;
  account(task, plan.accounting);
  Outcome outcome = make_plan(task);
  if (!outcome.plan)
    fail(ErrorCode::kInfeasible, "{}: it carries no engine times, and none can be modelled: {}", path.string(), outcome.reason.text);
  return std::move(*outcome.plan);
}

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
  ring.add_option("--divide", flags->divide,
                  "of strategy kind, recurrent layers that are divided: auto (where that is faster), all [auto]");
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
