#include "partitioner/study/fpdeep_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "core/base/index.h"
#include "core/graph/zoo.h"
#include "partitioner/choice/planner.h"
#include "partitioner/planning/roomy_memory.h"
#include "partitioner/study/full_bypass.h"
#include "partitioner/study/parallel.h"
#include "partitioner/study/topology.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kBoards = 15;
constexpr int64_t kFewest = 5;
constexpr int64_t kMany = 100;
constexpr int64_t kBelow = 12;  // boards below a limit that are simulated, at most
constexpr int64_t kImagesOfMany = 24;
constexpr int64_t kImagesOfIdle = 12;
constexpr int64_t kMostFor150 = 100;
constexpr int64_t kMostFor250 = 130;
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
  NetworkStudy(const FpdeepBoards& boards, const std::string& name, const Measurements& known, std::map<std::string, Measurement>& results)
      : boards_(boards), name_(name), known_(known), graph_(zoo_model(name)), results_(results) {}

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
    put("max_link_of", summary.max_link_gbps);
  }

  void plan_in_memory() {
    const RoomyMemory roomy(*boards_.bits_16);
    PlanTask task = free_task(roomy, kBoards);
    task.options.balance = Balance::kAlways;
    const PlanSummary summary = make_plan(task).summary;
    put("bram_at_home", 100 * fullest(summary, RoomyMemory::kTimes, [](const DeviceFigures& device) { return share_at_home(device); }));
    put("bram_balanced", 100 * fullest(summary, RoomyMemory::kTimes, balanced_share));
    put("bram_blocks", 100 * fullest(summary, 1, share_in_blocks));
    PlanTask as_plan_counts = task;
    as_plan_counts.options.fpdeep_lifetimes = false;
    put("bram_plan", 100 * fullest(make_plan(as_plan_counts).summary, RoomyMemory::kTimes, balanced_share));
    task.options.fc_barrier = true;
    put("bram_barrier", 100 * fullest(make_plan(task).summary, RoomyMemory::kTimes, balanced_share),
        "an image period more for the whole map, and two for each dense layer");
  }

  void plan_at_32_bits() {
    if (name_ == "alexnet") return;
    const RoomyMemory roomy(*boards_.bits_32);
    PlanTask task = free_task(roomy, kBoards);
    task.options.arithmetic = {};
    task.options.balance = Balance::kAlways;
    put("memory_32", 100 * fullest(make_plan(task).summary, RoomyMemory::kTimes, balanced_share));
    PlanTask real = free_task(*boards_.bits_32, kBoards);
    real.options.arithmetic = {};
    const Outcome outcome = make_plan(real);
    if (!outcome.feasible) return put("on_chip_32", 0, outcome.reason.text);
    // A plan that leaves convolutions to the last boards' off-chip memory is none on chip.
    const Shard* off_chip = nullptr;
    double bits = 0;
    for (const Shard& shard : outcome.plan->shards)
      for (const NamedAmount& amount : shard.resources) {
        if (amount.name != "dram_bytes" || shard.unit != StreamingUnit::kRow || amount.amount <= 0) continue;
        if (off_chip == nullptr) off_chip = &shard;
        bits += 8 * amount.amount;
      }
    if (off_chip == nullptr) return put("on_chip_32", 1);
    put("on_chip_32", 0,
        fmt::format("{:.1f} Mb of on-chip memory would hold the convolutions that device {} and those after it keep off chip, from {} on",
                    bits / 1e6, off_chip->device, off_chip->layer));
  }

  void sweep() {
    const RoomyMemory roomy(*boards_.bits_16);
    std::vector<SweepPoint> points(to_size(kMany - kFewest + 1));
    for_each_in_parallel(points.size(), default_threads(), [&](size_t i) {
      PlanTask task = free_task(roomy, kFewest + static_cast<int64_t>(i));
      task.options.balance = Balance::kAlways;
      const Outcome outcome = make_plan(task);
      points[i] = {outcome.summary.idle_fraction, fullest(outcome.summary, RoomyMemory::kTimes, balanced_share),
                   full_bypass_bits(*outcome.plan, graph_)};
    });
    const auto at = [&](int64_t boards) -> const SweepPoint& { return item(points, boards - kFewest); };
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
  }

  void find_linear_limits() {
    const int64_t at_150 = linear_limit(150, kFewest, kMostFor150);
    const int64_t at_250 = linear_limit(250, at_150 + 1, kMostFor250);  // a plan within 150 Gb/s is one within 250
    const auto tried = [](int64_t limit, int64_t most) { return limit == most ? fmt::format("{} boards were tried at most", most) : ""; };
    put("linear_150", static_cast<double>(at_150), tried(at_150, kMostFor150));
    put("linear_250", static_cast<double>(at_250), tried(at_250, kMostFor250));
  }

  // What waits at the barrier may not fit: its ring has a memory that is never full.
  void plan_hundred() {
    const RoomyMemory roomy(*boards_.bits_16);
    for (const bool barrier : {false, true}) {
      PlanTask task = free_task(barrier ? static_cast<const CostModel&>(roomy) : *boards_.bits_16, kMany);
      task.options.mini_batch = 1024;
      task.options.fc_barrier = barrier;
      const Outcome outcome = make_plan(task);
      const double samples = outcome.feasible ? static_cast<double>(outcome.summary.in_flight_samples) : kNotANumber;
      put(barrier ? "unaligned_barrier" : "unaligned", samples, outcome.reason.text);
    }
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
      summaries[strategy] = make_plan(plan_task_of(task, boards, {gbps, gbps, 0, kFpdeepHop})).summary;
    }
    for (const Metric& metric : kMetrics) {
      int pairs = 0;
      std::string note, otherwise;
      for (size_t i = 0; i < metric.best_first.size(); ++i) {
        const double better = summaries[metric.best_first[i]].*metric.value;
        note += fmt::format("{}{} {:.4g}", note.empty() ? "" : ", ", name_of(metric.best_first[i]), better);
        for (size_t j = i + 1; j < metric.best_first.size(); ++j) {
          const double worse = summaries[metric.best_first[j]].*metric.value;
          if (metric.more_is_better ? better >= worse : better <= worse)
            ++pairs;
          else
            otherwise += fmt::format("{}{} before {}", otherwise.empty() ? "; not so: " : ", ", name_of(metric.best_first[i]),
                                     name_of(metric.best_first[j]));
        }
      }
      put(metric.id, pairs, fmt::format("{} boards; in the paper's order, best first: {}{}", boards, note, otherwise));
    }
  }

  // --- the same rings row by row in virtual time

  void simulate_fifteen() {
    const StudyTask task = study_task(*boards_.bits_16, 150);
    const Outcome outcome = make_plan(plan_task_of(task, kBoards, task.link));
    if (!outcome.plan) return;
    const PlanSummary& summary = outcome.summary;
    const FpdeepRun run = boards_.simulate(*outcome.plan, graph_, 64, false);
    const double rate = run.figures.images_per_second / summary.images_per_second;
    const double hours = kImageNetImages / run.figures.images_per_second / 3600;
    put("gops", rate * summary.gops_per_device);
    put("hours", hours);
    put("hours_scaled", hours / kRateOfPaperHours);
    // As many watts as the plan counts with.
    put("gops_per_joule", rate * summary.gops_per_joule);
    put("max_link_of", run.figures.max_link_gbps);
  }

  // Activations as many as were held, in place of the formula's.
  void simulate_memory() {
    const RoomyMemory roomy(*boards_.bits_16);
    PlanTask task = free_task(roomy, kBoards);
    task.options.balance = Balance::kAlways;
    for (const bool barrier : {false, true}) {
      task.options.fc_barrier = barrier;
      const Outcome outcome = make_plan(task);
      const FpdeepRun run = boards_.simulate(*outcome.plan, graph_, 32, barrier);
      double balanced = 0;
      double at_home = 0;
      double most = 0;
      for (const DeviceFigures& device : outcome.summary.devices) {
        if (device.off_chip_parameters) continue;
        const double real = device.bram_capacity_bits / RoomyMemory::kTimes;
        const double more = item(run.act_ram_bits, device.index);
        balanced = std::max(balanced, RoomyMemory::kTimes * device.memory_fraction + more / real);
        at_home = std::max(at_home, RoomyMemory::kTimes * share_at_home(device) + more / real);
        most = std::max(most, more / real);
      }
      const std::string note = fmt::format("activations held take {:+.1f}% of a memory beside the formula, at most", 100 * most);
      put(barrier ? "bram_barrier" : "bram_balanced", 100 * balanced, note);
      if (!barrier) put("bram_at_home", 100 * at_home, note);
    }
  }

  void simulate_limits() {
    simulate_limit("linear_150", 150);
    simulate_limit("linear_250", 250);
  }

  // As the closed form: links that never bind, a memory that is never full.
  void simulate_idle() {
    const RoomyMemory roomy(*boards_.bits_16);
    std::vector<double> idle(to_size(kMany - kFewest + 1));
    for_each_in_parallel(idle.size(), default_threads(), [&](size_t i) {
      const Outcome outcome = make_plan(free_task(roomy, kFewest + static_cast<int64_t>(i)));
      idle[i] = 100 * boards_.simulate(*outcome.plan, graph_, kImagesOfIdle, false).figures.idle_fraction;
    });
    const auto from = [&](int64_t boards) { return idle.begin() + (boards - kFewest); };
    put("idle_5", idle.front());
    put("idle_from_6", *std::max_element(from(6), idle.end()));
    put("idle_most", *std::max_element(from(31), idle.end()));
    put("idle_mean", std::accumulate(from(31), idle.end(), 0.0) / static_cast<double>(idle.end() - from(31)));
  }

  void simulate_hundred() {
    const RoomyMemory roomy(*boards_.bits_16);
    for (const bool barrier : {false, true}) {
      PlanTask task = free_task(barrier ? static_cast<const CostModel&>(roomy) : *boards_.bits_16, kMany);
      task.options.mini_batch = 1024;
      task.options.fc_barrier = barrier;
      const Outcome outcome = make_plan(task);
      if (!outcome.plan) continue;
      const FpdeepRun run = boards_.simulate(*outcome.plan, graph_, 32, barrier);
      put(barrier ? "unaligned_barrier" : "unaligned", static_cast<double>(run.figures.in_flight_samples));
    }
  }

 private:
  void put(const char* id, double value, std::string note = {}) { results_[id] = {value, std::move(note)}; }

  StudyTask study_task(const CostModel& model, double gbps_both) const {
    StudyTask task;
    task.graph = &graph_;
    task.device = model.device();
    task.model = &model;
    task.link = {gbps_both, gbps_both, gbps_both, kFpdeepHop};
    task.options.optimizer.kind = OptimizerKind::kSgd;
    task.options.fpdeep_lifetimes = true;
    task.options.micro_batch = 1;
    task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
    return task;
  }

  // With links that never bind.
  PlanTask free_task(const CostModel& model, int64_t devices) const {
    constexpr double kFree = 1e6;
    return plan_task_of(study_task(model, kFree), devices, {kFree, kFree, 0, kFpdeepHop});
  }

  void infeasible(const Outcome& outcome, std::initializer_list<const char*> ids) {
    for (const char* id : ids) put(id, kNotANumber, outcome.reason.text);
    put("max_link_of", kNotANumber, outcome.reason.text);
  }

  int64_t linear_limit(double gbps_both, int64_t from, int64_t most) const {
    if (from > most) return most;
    StudyTask task = study_task(*boards_.bits_16, gbps_both);
    task.counts = {from, most};
    return std::max(run_study(task).linear_up_to, from - 1);
  }

  // From where the formulas see the limit downwards: the first ring within the budget that has its devices' full speed.
  void simulate_limit(const char* id, double gbps_both) {
    const auto found = known_.find({id, name_});
    if (found == known_.end() || !std::isfinite(found->second.value)) return;
    const auto formula = static_cast<int64_t>(found->second.value);
    const StudyTask task = study_task(*boards_.bits_16, gbps_both);
    int64_t limit = 0;
    std::string note;
    for (int64_t boards = formula + 1; boards >= formula - kBelow && limit == 0; --boards) {
      const double alone = make_plan(free_task(*boards_.bits_16, boards)).summary.images_per_second;
      const Outcome outcome = make_plan(plan_task_of(task, boards, task.link));
      if (!outcome.plan) continue;
      const double rate = boards_.simulate(*outcome.plan, graph_, kImagesOfMany, false).figures.images_per_second;
      note += fmt::format("{}{} boards {:.2f}%", note.empty() ? "of the devices' full speed: " : ", ", boards, 100 * rate / alone);
      if (rate >= alone * (1 - kLinearTolerance)) limit = boards;
    }
    put(id, limit == 0 ? kNotANumber : static_cast<double>(limit), note);
  }

  const FpdeepBoards& boards_;
  std::string name_;
  const Measurements& known_;
  Graph graph_;
  std::map<std::string, Measurement>& results_;
};

struct Step {
  const char* name;
  void (NetworkStudy::*run)();
};
constexpr std::array kSteps = {Step{"counts", &NetworkStudy::count},
                               Step{"15 boards", &NetworkStudy::plan_fifteen},
                               Step{"memory", &NetworkStudy::plan_in_memory},
                               Step{"32 bits", &NetworkStudy::plan_at_32_bits},
                               Step{"5 to 100 boards", &NetworkStudy::sweep},
                               Step{"linear limits", &NetworkStudy::find_linear_limits},
                               Step{"100 boards", &NetworkStudy::plan_hundred},
                               Step{"wirings", &NetworkStudy::compare_wirings},
                               Step{"strategies", &NetworkStudy::compare_strategies}};
constexpr std::array kSimulatedSteps = {
    Step{"15 boards simulated", &NetworkStudy::simulate_fifteen}, Step{"memory simulated", &NetworkStudy::simulate_memory},
    Step{"linear limits simulated", &NetworkStudy::simulate_limits}, Step{"5 to 100 boards simulated", &NetworkStudy::simulate_idle},
    Step{"100 boards simulated", &NetworkStudy::simulate_hundred}};

}  // namespace

std::vector<std::string> network_steps(const std::string& network, bool simulated) {
  std::vector<std::string> names;
  if (simulated) {
    for (const Step& step : kSimulatedSteps) names.emplace_back(step.name);
    return names;
  }
  for (const Step& step : kSteps)
    if (network == "vgg16" || (step.run != &NetworkStudy::compare_wirings && step.run != &NetworkStudy::compare_strategies))
      names.emplace_back(step.name);
  return names;
}

std::string run_network_step(const FpdeepBoards& boards, const std::string& network, const std::string& name, const Measurements& known) {
  std::map<std::string, Measurement> results;
  NetworkStudy study(boards, network, known, results);
  for (const auto& steps : {std::span<const Step>(kSteps), std::span<const Step>(kSimulatedSteps)})
    for (const Step& step : steps)
      if (step.name == name) (study.*step.run)();
  Json json = Json::array();
  for (const auto& [id, measured] : results)
    json.push_back({id, std::isfinite(measured.value) ? Json(measured.value) : Json(nullptr), measured.note});
  return json.dump();
}

void add_measurements(const std::string& network, const std::string& text, Measurements& measurements) {
  const Json json = Json::parse(text);
  for (const Json& entry : json)
    measurements[{entry.at(0).get<std::string>(), network}] = {entry.at(1).is_null() ? kNotANumber : entry.at(1).get<double>(),
                                                               entry.at(2).get<std::string>()};
}

}  // namespace millrace
