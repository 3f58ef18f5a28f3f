// `millrace study`: a curve for every combination of what is swept.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <optional>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/graph/norm_statistics.h"
#include "core/graph/zoo.h"
#include "deploy/command/line/command_words.h"
#include "deploy/command/study/study_flags.h"
#include "deploy/command/study/study_output.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/ring_flags.h"
#include "node/simulate/simulate.h"
#include "partitioner/planning/sample_word.h"
#include "partitioner/study/study_page.h"

namespace millrace {
namespace {

std::vector<int64_t> counts_of(const StudyFlags& flags) {
  try {
    return parse_counts(flags.count);
  } catch (const Error& error) {
    throw error.within("--count");
  }
}

// Once each, in the order given; what is not given: the default alone.
template <typename Value>
std::vector<std::optional<Value>> choices_of(const std::vector<Value>& given) {
  std::vector<std::optional<Value>> choices;
  for (const Value& value : given)
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) choices.push_back(value);
  if (choices.empty()) choices.push_back(std::nullopt);
  return choices;
}

PlanOptions options_of(const StudyFlags& flags, const CostModel& model) {
  PlanOptions options;
  if (model.dedicated_engines()) options.optimizer.kind = OptimizerKind::kSgd;  // as FPDeep: no further copy on chip
  if (!flags.optimizer.empty()) options.optimizer.kind = optimizer_from(flags.optimizer);
  if (flags.mini_batch) options.mini_batch = *flags.mini_batch;
  if (flags.micro_batch) options.micro_batch = *flags.micro_batch;
  options.fc_barrier = flags.fc_barrier;
  options.fpdeep_lifetimes = flags.fpdeep_lifetimes;
  return options;
}

// What is swept, with the cost models that it needs.
class SweepMaker {
 public:
  explicit SweepMaker(const StudyFlags& flags)
      : flags_(flags),
        graph_(
            with_choice(find_model(flags.model), flags.batch_norm.empty() ? BatchNormChoice::kAsModel : batch_norm_from(flags.batch_norm))),
        catalogue_(catalogue_with(flags.catalogues)) {
    static_cast<void>(catalogue_.find(flags.device));  // so that an unknown one is named alone
    if (!flags.link_gbps.empty() && !flags.link_gbps_both.empty())
      fail(ErrorCode::kUsage, "--link-gbps and --link-gbps-both exclude each other; choose one");
    const std::vector<int64_t> counts = counts_of(flags);
    for (const auto& each : choices_of(flags.link_gbps))
      for (const auto& both : choices_of(flags.link_gbps_both))
        for (const auto& strategy : choices_of(flags.strategies))
          for (const auto& alignment : choices_of(flags.alignments))
            for (const auto& bits : choices_of(flags.bits)) add(each, both, strategy, alignment, bits, counts);
    if (sweep_.curves.size() * counts.size() > kMostPoints)
      fail(ErrorCode::kUsage, "{} curves of {} points are {}; {} at most", sweep_.curves.size(), counts.size(),
           sweep_.curves.size() * counts.size(), kMostPoints);
    simulate_or_refuse();
    compare_wirings(counts);
  }

  StudySweep take() { return std::move(sweep_); }

  // What has to be the same for points to be worth keeping.
  StudyQuestion question() const {
    const StudyTask& task = sweep_.curves.front().task;
    StudyQuestion question{{"program", std::string(kVersion)},
                           {"--model", graph_.model().name},
                           {"the model's layers", digest_of(text_of(graph_.model()))},
                           {"--device", task.device},
                           {"the device's constants", digest_of_constants(*task.model)},
                           {"--count", fmt::format("{}", fmt::join(task.counts, ","))},
                           {"--optimizer", std::string(name_of(task.options.optimizer.kind))},
                           {"--mini-batch", fmt::format("{}", task.options.mini_batch)},
                           {"--micro-batch", fmt::format("{}", task.options.micro_batch)},
                           {"--accounting", std::string(name_of(task.options.accounting))},
                           {"--fc-barrier", flags_.fc_barrier ? "given" : "not given"},
                           {"--fpdeep-lifetimes", flags_.fpdeep_lifetimes ? "given" : "not given"},
                           {"--epoch-images", fmt::format("{:.17g}", task.epoch_images)},
                           {"--simulate", flags_.simulate ? "given" : "not given"},
                           {"--images", flags_.images ? fmt::format("{}", *flags_.images) : "not given"}};
    for (const char* name : {"--strategy", "--alignment", "--bits", "--link-gbps"}) question.emplace_back(name, swept(name));
    return question;
  }

 private:
  static constexpr size_t kMostPoints = 4096;

  std::string swept(std::string_view name) const {
    std::vector<std::string> values;
    for (const StudyCurve& curve : sweep_.curves) {
      const PlanOptions& options = curve.task.options;
      std::string value = link_text(curve.task.link);
      if (name == "--strategy") value = name_of(options.strategy);
      if (name == "--alignment") value = name_of(options.alignment);
      if (name == "--bits") value = fmt::format("{}", bits_of(options.arithmetic.wire));
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    return fmt::format("{}", fmt::join(values, ", "));
  }

  void add(std::optional<double> each, std::optional<double> both, const std::optional<std::string>& strategy,
           const std::optional<std::string>& alignment, std::optional<int64_t> bits, const std::vector<int64_t>& counts) {
    Cluster pair = cluster_from(fmt::format("{0}+{0}", flags_.device), catalogue_);
    set_link_gbps(pair, each, both);
    const Arithmetic arithmetic = arithmetic_for(pair, catalogue_, bits);
    const Accounting accounting = accounting_of(flags_.accounting, Accounting::kFpdeep);
    const CostModels& models = models_.emplace_back(models_for(pair, catalogue_, arithmetic, accounting, graph_));
    StudyTask task;
    task.graph = &graph_;
    task.device = pair.devices.front().device;
    task.model = models.of_devices.front();
    task.link = pair.links.front();
    task.options = options_of(flags_, *task.model);
    if (strategy) task.options.strategy = strategy_from(*strategy);
    if (alignment) task.options.alignment = alignment_from(*alignment);
    task.options.arithmetic = arithmetic;
    PlanTask accounted;
    account(accounted, accounting);
    task.options.accounting = accounted.options.accounting;
    task.mini_batch_time = accounted.mini_batch_time;
    task.waiting_words = accounted.waiting_words;
    task.finds_blocks = accounted.finds_blocks;
    task.counts = counts;
    task.epoch_images = flags_.epoch_images.value_or(sample_word(graph_).one == "image" ? kImageNetImages : 0);
    sweep_.curves.push_back({std::move(task), {}});
  }

  // Every plan row by row in virtual time, beside what its formulas say.
  void simulate_or_refuse() {
    if (!flags_.simulate) {
      if (flags_.images) fail(ErrorCode::kUsage, "--images has no effect without --simulate; leave it out");
      return;
    }
    bool some = false;
    for (StudyCurve& curve : sweep_.curves) {
      const Strategy strategy = curve.task.options.strategy;
      some = some || strategy == Strategy::kHybrid || strategy == Strategy::kLayer || strategy == Strategy::kKind;
      curve.task.simulate = [this](const Plan& plan) {
        return simulated_figures(simulate(plan, graph_, {.samples = flags_.images.value_or(enough_samples(plan))}));
      };
    }
    if (!some)
      fail(ErrorCode::kUsage, "--simulate has no effect with --strategy {}, which no ring of segments expresses; leave one of the two out",
           name_of(sweep_.curves.front().task.options.strategy));
  }

  void compare_wirings(const std::vector<int64_t>& counts) {
    static const std::vector<std::string> kTopologies = {"1d", "2d"};
    bool two = false;
    for (const std::string& topology : flags_.topologies) {
      if (std::find(kTopologies.begin(), kTopologies.end(), topology) == kTopologies.end())
        fail(ErrorCode::kUsage, "--topology \"{}\" is neither 1d nor 2d{}", topology, suggestion(topology, kTopologies));
      two = two || topology == "2d";
    }
    if (!two) {
      if (!flags_.layers.empty()) fail(ErrorCode::kUsage, "--layers has no effect without --topology 1d,2d; leave it out");
      return;
    }
    std::vector<std::string> layers = flags_.layers;
    if (layers.empty())
      for (const LayerGroup& group : graph_.groups()) layers.push_back(graph_.node(group.head).layer.name);
    if (layers.size() > kMostTopologyLayers)
      fail(ErrorCode::kUsage, "--topology 2d compares {} consecutive layers at most and {} has {}; choose some with --layers, such as {}",
           kMostTopologyLayers, graph_.model().name, layers.size(), fmt::join(layers.begin(), layers.begin() + 3, ","));
    const CatalogueDevice& board = catalogue_.find(flags_.device);
    if (board.entry("ring_ports") == nullptr)
      fail(ErrorCode::kUsage, "--topology 2d: the catalogue says no ring_ports of {}, which its links would share", flags_.device);
    WiringStudy& wirings = sweep_.wirings.emplace();
    wirings.layers = layers;
    wirings.rules = {.ports = board.value("ring_ports"), .element_bits = bits_of(sweep_.curves.front().task.options.arithmetic.wire)};
    const std::vector<TopologyLayer> chain = topology_layers(graph_, layers);
    for (const int64_t devices : counts)
      if (devices >= static_cast<int64_t>(layers.size()))
        wirings.points.push_back({devices, compare_topologies(chain, devices, wirings.rules)});
    if (wirings.points.empty())
      fail(ErrorCode::kUsage, "--topology 2d: {} layers need a board each at least; ask for --count {} or more", layers.size(),
           layers.size());
  }

  const StudyFlags& flags_;
  Graph graph_;
  Catalogue catalogue_;
  std::deque<CostModels> models_;
  StudySweep sweep_;
};

// Of the largest ring of the first curve that has one.
FailureStudy failures_of(const StudyFlags& flags, const StudySweep& sweep) {
  const StudyPoint* largest = nullptr;
  for (const StudyCurve& curve : sweep.curves)
    for (const StudyPoint& point : curve.study.points)
      if (point.feasible && (largest == nullptr || (&curve == &sweep.curves.front() && point.devices > largest->devices))) largest = &point;
  return failure_study(flags.failures, flags.seed, largest->devices,
                       largest->simulated ? largest->simulated->images_per_second : largest->images_per_second);
}

}  // namespace

int run_study_sweep(const StudyFlags& flags, const StudyTeam& team) {
  if (flags.model.empty() || flags.device.empty())
    fail(ErrorCode::kUsage, "give --model and --device, such as --model vgg16 --device vc709 (or --paper fpdeep)");
  const bool fails = wants_failures(flags.failures);
  refuse_idle_seed(flags.seed, fails);
  SweepMaker maker(flags);
  const std::unique_ptr<StudyJournal> journal = open_study_journal(flags, team, maker.question());
  StudySweep sweep = maker.take();
  StudyWork work(team, journal.get(), study_threads(flags, team));
  tell_what_is_found(flags, team, work, "points");
  {
    StudyBar bar(flags.simulate ? "planning and simulating rings" : "planning rings", team);
    std::vector<StudyTask> tasks;
    for (const StudyCurve& curve : sweep.curves) tasks.push_back(curve.task);
    std::vector<Study> studies = run_sweep(tasks, work, [&](int64_t done, int64_t of) { bar.show(done, of); });
    for (size_t c = 0; c < studies.size(); ++c) sweep.curves[c].study = std::move(studies[c]);
  }
  const StudyPoint* reason = nullptr;
  bool some = false;
  for (const StudyCurve& curve : sweep.curves)
    for (const StudyPoint& point : curve.study.points) {
      some = some || point.feasible;
      if (reason == nullptr && !point.feasible) reason = &point;
    }
  const int status = some ? 0 : exit_status_of(ErrorCode::kInfeasible);
  if (team.rank > 0) return status;
  if (fails && some) sweep.failures = failures_of(flags, sweep);
  const std::string json = study_json(sweep);
  fmt::print("{}", flags.json ? json : study_table(sweep));
  if (!flags.out.empty())
    write_study(flags.out, {{"points.csv", study_csv(sweep)}, {"study.json", json}, {"index.html", study_page(sweep, flags.command)}});
  if (!some) fmt::print(stderr, "millrace: infeasible: no ring of this size holds the model; the first one: {}\n", reason->reason);
  return status;
}

}  // namespace millrace
