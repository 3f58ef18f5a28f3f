#include "partitioner/study/fpdeep_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/graph/zoo.h"
#include "partitioner/planner/planner.h"
#include "partitioner/study/full_bypass.h"
#include "partitioner/study/parallel.h"
#include "partitioner/study/roomy_memory.h"
#include "partitioner/study/topology.h"

namespace millrace {
namespace {

constexpr std::array<const char*, 3> kNetworks = {"alexnet", "vgg16", "vgg19"};
constexpr int64_t kBoards = 15;
constexpr int64_t kFewest = 5;
constexpr int64_t kMany = 100;
constexpr int64_t kMostFor150 = 100;
constexpr int64_t kMostFor250 = 130;
constexpr double kHop = 0.5;  // us, to the next board
// What Table 6's hours take beside its GOPS: fitted, the paper does not explain it.
constexpr double kRateOfPaperHours = 0.82;
constexpr double kFull = 0.8;

double paper_gops(const std::string& network) {
  for (const FpdeepFigure& figure : fpdeep_figures())
    if (figure.id == "gops" && figure.network == network) return figure.paper;
  return 0;
}

// The fullest of the boards that keep their parameters on chip; `times` what the plan took for the board's memory.
template <typename Share>
double fullest(const PlanSummary& summary, double times, const Share& share) {
  double most = 0;
  for (const DeviceFigures& device : summary.devices)
    if (!device.off_chip_parameters) most = std::max(most, times * share(device));
  return most;
}

double balanced_share(const DeviceFigures& device) { return device.memory_fraction; }

// With every parameter stored where it is used.
double share_at_home(const DeviceFigures& device) {
  double bits = 0;
  for (const ShardFigures& shard : device.shards) {
    bits += shard.parameter_storage;
    for (const NamedAmount& amount : shard.resources)
      if (amount.name == "bram_bits") bits += amount.amount;
  }
  return bits / device.bram_capacity_bits;
}

double share_in_blocks(const DeviceFigures& device) {
  return device.bram_block_capacity > 0 ? device.bram_blocks / device.bram_block_capacity : 0;
}

// Idle stages and memory of one ring of the sweep.
struct SweepPoint {
  double idle = 0;
  double memory = 0;         // needed for balanced parameters, in memories
  double bypassed_bits = 0;  // both directions, of the fullest link
};

class NetworkStudy {
 public:
  NetworkStudy(const FpdeepBoards& boards, const char* name, const std::function<void(int64_t)>& advance, Measurements& results)
      : boards_(boards), name_(name), graph_(zoo_model(name)), advance_(advance), results_(results) {}

  void run() {
    count();
    plan_fifteen();
    plan_in_memory();
    plan_at_32_bits();
    sweep();
    find_linear_limits();
    plan_hundred();
    if (name_ == "vgg16") {
      compare_wirings();
      compare_strategies();
    }
  }

  double max_link() const { return max_link_; }

 private:
  void put(const char* id, double value, std::string note = {}) { results_[{id, name_}] = {value, std::move(note)}; }

  StudyTask study_task(const CostModel& model, double gbps_both) const {
    StudyTask task;
    task.graph = &graph_;
    task.device = model.device();
    task.model = &model;
    task.link = {gbps_both, gbps_both, gbps_both, kHop};
    task.options.optimizer.kind = OptimizerKind::kSgd;
    task.options.micro_batch = 1;
    task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
    return task;
  }

  // With links that never bind.
  PlanTask free_task(const CostModel& model, int64_t devices) const {
    constexpr double kFree = 1e6;
    return plan_task_of(study_task(model, kFree), devices, {kFree, kFree, 0, kHop});
  }

  void count() {
    const Graph::Macs macs = graph_.macs();
    put("conv_macs", 1e-9 * static_cast<double>(macs.conv));
    put("dense_macs", 1e-9 * static_cast<double>(macs.dense));
    put("parameters", static_cast<double>(graph_.parameter_count()));
  }

  void plan_fifteen() {
    const StudyTask task = study_task(*boards_.bits_16, 150);
    const Outcome outcome = make_plan(plan_task_of(task, kBoards, task.link));
    if (!outcome.feasible) return infeasible(outcome, {"gops", "dsp_utilisation", "hours", "hours_scaled", "gops_per_joule"});
    const PlanSummary& summary = outcome.summary;
    double used = 0;
    double there = 0;
    for (const DeviceFigures& device : summary.devices) {
      used += device.dsp;
      there += device.dsp_capacity;
    }
    const double hours = summary.hours_per_epoch(kImageNetImages);
    put("gops", summary.gops_per_device);
    put("dsp_utilisation", 100 * used / there);
    put("hours", hours);
    put("hours_scaled", hours / kRateOfPaperHours);
    put("gops_per_joule", summary.gops_per_joule);
    max_link_ = summary.max_link_gbps;
    advance_(1);
  }

  void infeasible(const Outcome& outcome, std::initializer_list<const char*> ids) {
    for (const char* id : ids) put(id, std::numeric_limits<double>::quiet_NaN(), outcome.reason.text);
    max_link_ = std::numeric_limits<double>::quiet_NaN();
    advance_(1);
  }

  void plan_in_memory() {
    const RoomyMemory roomy(*boards_.bits_16);
    PlanTask task = free_task(roomy, kBoards);
    task.options.balance = Balance::kAlways;
    const PlanSummary summary = make_plan(task).summary;
    put("bram_at_home", 100 * fullest(summary, RoomyMemory::kTimes, [](const DeviceFigures& device) { return share_at_home(device); }));
    put("bram_balanced", 100 * fullest(summary, RoomyMemory::kTimes, balanced_share));
    put("bram_blocks", 100 * fullest(summary, 1, share_in_blocks));
    task.options.fc_barrier = true;
    put("bram_barrier", 100 * fullest(make_plan(task).summary, RoomyMemory::kTimes, balanced_share),
        "one image period more for every activation");
    advance_(2);
  }

  void plan_at_32_bits() {
    if (name_ == "alexnet") return advance_(2);
    const RoomyMemory roomy(*boards_.bits_32);
    PlanTask task = free_task(roomy, kBoards);
    task.options.arithmetic = {};
    task.options.balance = Balance::kAlways;
    put("memory_32", 100 * fullest(make_plan(task).summary, RoomyMemory::kTimes, balanced_share));
    PlanTask real = free_task(*boards_.bits_32, kBoards);
    real.options.arithmetic = {};
    const Outcome outcome = make_plan(real);
    put("on_chip_32", outcome.feasible ? 1 : 0, outcome.reason.text);
    advance_(2);
  }

  void sweep() {
    const RoomyMemory roomy(*boards_.bits_16);
    std::vector<SweepPoint> points(static_cast<size_t>(kMany - kFewest + 1));
    for_each_in_parallel(points.size(), default_threads(), [&](size_t i) {
      PlanTask task = free_task(roomy, kFewest + static_cast<int64_t>(i));
      task.options.balance = Balance::kAlways;
      const Outcome outcome = make_plan(task);
      points[i] = {outcome.summary.idle_fraction, fullest(outcome.summary, RoomyMemory::kTimes, balanced_share),
                   full_bypass_bits(*outcome.plan, graph_)};
    });
    const auto at = [&](int64_t boards) -> const SweepPoint& { return points[static_cast<size_t>(boards - kFewest)]; };
    put("idle_5", 100 * at(5).idle);
    double most = 0;
    double most_over_30 = 0;
    double sum_over_30 = 0;
    int64_t first_below = kMany + 1;
    int64_t first_over_budget = kMany + 1;
    for (int64_t boards = kFewest; boards <= kMany; ++boards) {
      const SweepPoint& point = at(boards);
      if (boards > 5) most = std::max(most, point.idle);
      if (boards > 30) most_over_30 = std::max(most_over_30, point.idle);
      if (boards > 30) sum_over_30 += point.idle;
      if (point.memory <= kFull) first_below = std::min(first_below, boards);
      const double images_per_second =
          paper_gops(name_) * 1e9 * static_cast<double>(boards) / (6 * static_cast<double>(graph_.macs().conv));
      if (1e-9 * point.bypassed_bits * images_per_second > 150) first_over_budget = std::min(first_over_budget, boards);
    }
    put("idle_from_6", 100 * most);
    put("idle_most", 100 * most_over_30);
    put("idle_mean", 100 * sum_over_30 / static_cast<double>(kMany - 30));
    put("memory_5", 100 * at(5).memory);
    put("boards_for_80", static_cast<double>(first_below));
    put("bypass_150", static_cast<double>(first_over_budget - 1));
    advance_(6);
  }

  void find_linear_limits() {
    const int64_t at_150 = linear_limit(150, kFewest, kMostFor150);
    advance_(10);
    const int64_t at_250 = linear_limit(250, at_150 + 1, kMostFor250);  // a plan within 150 Gb/s is one within 250
    advance_(15);
    const auto tried = [](int64_t limit, int64_t most) { return limit == most ? fmt::format("{} boards were tried at most", most) : ""; };
    put("linear_150", static_cast<double>(at_150), tried(at_150, kMostFor150));
    put("linear_250", static_cast<double>(at_250), tried(at_250, kMostFor250));
  }

  int64_t linear_limit(double gbps_both, int64_t from, int64_t most) const {
    if (from > most) return most;
    StudyTask task = study_task(*boards_.bits_16, gbps_both);
    task.counts = {from, most};
    return std::max(run_study(task).linear_up_to, from - 1);
  }

  void plan_hundred() {
    for (const bool barrier : {false, true}) {
      PlanTask task = free_task(*boards_.bits_16, kMany);
      task.options.mini_batch = 1024;
      task.options.fc_barrier = barrier;
      const Outcome outcome = make_plan(task);
      const double samples =
          outcome.feasible ? static_cast<double>(outcome.summary.in_flight_samples) : std::numeric_limits<double>::quiet_NaN();
      put(barrier ? "unaligned_barrier" : "unaligned", samples, outcome.reason.text);
    }
    advance_(2);
  }

  void compare_wirings() {
    const std::vector<TopologyLayer> layers = topology_layers(graph_, {"conv2_1", "conv2_2", "conv3_1"});
    const TopologyRules rules{.ports = boards_.board.value("ring_ports")};
    const auto ratio = [&](int64_t boards) { return compare_topologies(layers, boards, rules).ratio(); };
    for (const int64_t boards : {4, 5, 6, 8}) {
      const TopologyComparison comparison = compare_topologies(layers, boards, rules);
      put(fmt::format("topology_{}", boards).c_str(), comparison.ratio(),
          fmt::format("{} boards; 2-D limited by {}", fmt::join(comparison.boards, "-"), comparison.two.bottleneck));
    }
    bool as_the_paper_says = ratio(4) < 1;
    for (int64_t boards = 6; boards <= 16; ++boards) as_the_paper_says = as_the_paper_says && ratio(boards) > 1;
    put("topology_order", as_the_paper_says ? 1 : 0);
  }

  // Fig. 5 and Table 5, for as many boards as VGG-16 has layers.
  void compare_strategies() {
    struct Metric {
      const char* id;
      double PlanSummary::*value;
      bool more_is_better;
      std::array<Strategy, 4> best_first;
    };
    using enum Strategy;
    constexpr std::array<Metric, 4> kMetrics = {
        Metric{"rank_flops", &PlanSummary::flop_utilisation, true, {kHybrid, kLayer, kData, kModel}},
        Metric{"rank_storage", &PlanSummary::storage_bits, false, {kHybrid, kLayer, kData, kModel}},
        Metric{"rank_footprint", &PlanSummary::communication_bits, false, {kData, kHybrid, kLayer, kModel}},
        Metric{"rank_bandwidth", &PlanSummary::communication_gbps, false, {kData, kHybrid, kLayer, kModel}}};
    const auto boards = static_cast<int64_t>(graph_.groups().size());
    const double gbps = boards_.board.value("link_gbps");
    std::map<Strategy, PlanSummary> summaries;
    for (const Strategy strategy : {kHybrid, kLayer, kData, kModel}) {
      StudyTask task = study_task(*boards_.bits_16, 0);
      task.options.strategy = strategy;
      task.options.micro_batch = strategy == kHybrid || strategy == kLayer ? 1 : 0;
      summaries[strategy] = make_plan(plan_task_of(task, boards, {gbps, gbps, 0, kHop})).summary;
    }
    for (const Metric& metric : kMetrics) {
      int pairs = 0;
      std::string note;
      for (size_t i = 0; i < metric.best_first.size(); ++i) {
        const double better = summaries[metric.best_first[i]].*metric.value;
        note += fmt::format("{}{} {:.4g}", note.empty() ? "" : ", ", name_of(metric.best_first[i]), better);
        for (size_t j = i + 1; j < metric.best_first.size(); ++j) {
          const double worse = summaries[metric.best_first[j]].*metric.value;
          if (metric.more_is_better ? better >= worse : better <= worse) ++pairs;
        }
      }
      put(metric.id, pairs, fmt::format("{} boards; ", boards) + "in the paper's order, best first: " + note);
    }
  }

  const FpdeepBoards& boards_;
  std::string name_;
  Graph graph_;
  const std::function<void(int64_t)>& advance_;
  Measurements& results_;
  double max_link_ = 0;
};

constexpr int64_t kStepsPerNetwork = 38;

// Over the networks.
void add_orders(Measurements& results) {
  const auto value = [&](const char* id, const char* network) { return results[{id, network}].value; };
  const auto put = [&](const char* id, bool holds) { results[{id, ""}] = {holds ? 1.0 : 0.0, ""}; };
  put("gops_order", value("gops", "alexnet") < value("gops", "vgg16") && value("gops", "alexnet") < value("gops", "vgg19"));
  put("linear_order",
      value("linear_150", "alexnet") > value("linear_150", "vgg19") && value("linear_150", "vgg19") > value("linear_150", "vgg16"));
  put("unaligned_order",
      value("unaligned", "alexnet") > value("unaligned", "vgg16") && value("unaligned", "alexnet") > value("unaligned", "vgg19"));
}

std::string origins_of(const FpdeepFigure& figure, const FpdeepBoards& boards) {
  std::vector<std::string> parts;
  const std::vector<Constant> constants = boards.bits_16->constants();
  std::string_view rest = figure.constants;
  while (!rest.empty()) {
    const size_t space = rest.find(' ');
    const std::string_view name = rest.substr(0, space);
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
    if (const CatalogueValue* entry = boards.board.entry(name)) {
      parts.push_back(fmt::format("{} {}", name, entry->origin));
      continue;
    }
    for (const Constant& constant : constants)
      if (constant.name == name) parts.push_back(fmt::format("{} {}", name, constant.origin));
  }
  return parts.empty() ? "counted" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds: return "holds";
    case Verdict::kPaperContradictsItself: return "paper contradicts itself";
    case Verdict::kNotReproduced: return "not reproduced";
    case Verdict::kReported: return "reported";
  }
  return "";
}

std::optional<double> PaperRow::difference() const {
  if (!std::isfinite(figure.paper) || !std::isfinite(model) || figure.paper == 0) return std::nullopt;
  if (!figure.paper_text.empty() || figure.unit == "yes/no") return std::nullopt;
  return model / figure.paper - 1;
}

Verdict verdict_on(const FpdeepFigure& figure, double model) {
  if (!(model >= figure.least && model <= figure.most)) return Verdict::kNotReproduced;
  if (!figure.contradiction.empty()) return Verdict::kPaperContradictsItself;
  return figure.least == 0 && std::isinf(figure.most) ? Verdict::kReported : Verdict::kHolds;
}

Measurements measure_fpdeep(const FpdeepBoards& boards, const StudyProgress& progress) {
  Measurements results;
  int64_t done = 0;
  const std::function<void(int64_t)> advance = [&](int64_t steps) {
    done += steps;
    if (progress) progress(done, kStepsPerNetwork * static_cast<int64_t>(kNetworks.size()));
  };
  double max_link = 0;
  std::string links;
  for (const char* name : kNetworks) {
    NetworkStudy network(boards, name, advance, results);
    network.run();
    max_link = std::isfinite(network.max_link()) ? std::max(max_link, network.max_link()) : network.max_link();
    links += fmt::format("{}{} {:.1f}", links.empty() ? "" : ", ", name, network.max_link());
  }
  results[{"max_link", ""}] = {max_link, links};
  add_orders(results);
  return results;
}

std::vector<PaperRow> fpdeep_rows(const FpdeepBoards& boards, const StudyProgress& progress) {
  const Measurements measurements = measure_fpdeep(boards, progress);
  std::vector<PaperRow> rows;
  for (const FpdeepFigure& figure : fpdeep_figures()) {
    PaperRow row;
    row.figure = figure;
    row.model = std::numeric_limits<double>::quiet_NaN();
    row.note = "not measured";
    const auto found = measurements.find({std::string(figure.id), std::string(figure.network)});
    if (found != measurements.end()) {
      row.model = found->second.value;
      row.note = found->second.note;
    }
    row.verdict = verdict_on(figure, row.model);
    row.origin = origins_of(figure, boards);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace millrace
