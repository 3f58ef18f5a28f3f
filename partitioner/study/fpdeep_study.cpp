#include "partitioner/study/fpdeep_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>

#include "core/graph/zoo.h"
#include "partitioner/planning/roomy_memory.h"
#include "partitioner/study/fpdeep_network.h"
#include "partitioner/study/parallel.h"

namespace millrace {
namespace {

constexpr std::array<const char*, 3> kNetworks = {"alexnet", "vgg16", "vgg19"};
constexpr double kLinkBudget = 150;  // Gb/s, both directions together

// Over the networks.
void add_orders(Measurements& results) {
  const auto value = [&](const char* id, const char* network) {
    const auto found = results.find({id, network});
    return found == results.end() ? std::numeric_limits<double>::quiet_NaN() : found->second.value;
  };
  const auto put = [&](const char* id, bool holds) { results[{id, ""}] = {holds ? 1.0 : 0.0, ""}; };
  double max_link = 0;
  std::string links;
  for (const char* network : kNetworks) {
    const double gbps = value("max_link_of", network);
    max_link = std::isfinite(gbps) ? std::max(max_link, gbps) : gbps;
    links += fmt::format("{}{} {:.1f}", links.empty() ? "" : ", ", network, gbps);
  }
  results[{"max_link", ""}] = {max_link, links};
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
    for (const CatalogueValue& rule : fpdeep_rules())
      if (rule.name == name) parts.push_back(fmt::format("{} {}", name, rule.origin));
  }
  return parts.empty() ? "counted" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<CatalogueValue> fpdeep_constants(std::span<const PaperRow> rows, const CatalogueDevice& board) {
  std::vector<CatalogueValue> constants;
  const auto add_used = [&](std::span<const CatalogueValue> values) {
    for (const CatalogueValue& value : values)
      if (std::ranges::any_of(rows, [&](const PaperRow& row) {
            return fmt::format(" {} ", row.figure.constants).find(fmt::format(" {} ", value.name)) != std::string::npos;
          }))
        constants.push_back(value);
  };
  add_used(board.values);
  add_used(fpdeep_rules());
  return constants;
}

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

namespace {

// Steps of all networks, shared out.
Measurements measure(const FpdeepBoards& boards, StudyWork& work, bool simulated, const Measurements& known,
                     const std::function<void()>& advance) {
  std::vector<std::pair<std::string, std::string>> steps;
  for (const char* network : kNetworks)
    for (const std::string& step : network_steps(network, simulated)) steps.emplace_back(network, step);
  std::vector<std::string> keys;
  for (const auto& [network, step] : steps) keys.push_back(network + ": " + step);
  work.run(keys, [&](size_t i) -> std::optional<std::string> {
    std::string text = run_network_step(boards, steps[i].first, steps[i].second, known);
    advance();
    return text;
  });
  Measurements results;
  for (size_t i = 0; i < keys.size(); ++i) add_measurements(steps[i].first, *work.find(keys[i]), results);
  add_orders(results);
  return results;
}

size_t step_count(bool simulated) {
  size_t count = 0;
  for (const char* network : kNetworks) count += network_steps(network, simulated).size();
  return count;
}

std::vector<PaperRow> rows_of(const FpdeepBoards& boards, const Measurements& measurements) {
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

void add_simulated(const Measurements& simulated, std::vector<PaperRow>& rows) {
  for (PaperRow& row : rows) {
    const auto found = simulated.find({std::string(row.figure.id), std::string(row.figure.network)});
    if (found == simulated.end()) continue;
    row.simulated = found->second.value;
    row.simulated_note = found->second.note;
    row.simulated_verdict = verdict_on(row.figure, found->second.value);
  }
}

// What the tasks of a report point to.
struct Owned {
  explicit Owned(const CostModel& model) : roomy(model) {
    for (const char* network : kNetworks) graphs.emplace_back(zoo_model(network));
  }
  RoomyMemory roomy;
  std::deque<Graph> graphs;
};

StudyTask curve_task(const Graph& graph, const CostModel& model, double gbps_both) {
  StudyTask task;
  task.graph = &graph;
  task.device = model.device();
  task.model = &model;
  task.link = {gbps_both, gbps_both, gbps_both, kFpdeepHop};
  task.options.optimizer.kind = OptimizerKind::kSgd;
  task.options.micro_batch = 1;
  task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
  return task;
}

class Report {
 public:
  Report(const FpdeepBoards& boards, StudyWork& work, const StudyProgress& progress)
      : boards_(boards), work_(work), progress_(progress), owned_(std::make_shared<Owned>(*boards.bits_16)) {}

  FpdeepReport run() {
    all_ = static_cast<int64_t>(step_count(false) + (boards_.simulate ? step_count(true) : 0)) + kPointsOfCurves;
    const auto advance = [this] { told(1); };
    const Measurements modelled = measure(boards_, work_, false, {}, advance);
    report_.rows = rows_of(boards_, modelled);
    report_.constants = fpdeep_constants(report_.rows, boards_.board);
    draw_networks();
    compare_strategies();
    compare_wirings();
    if (boards_.simulate) {
      add_simulated(measure(boards_, work_, true, modelled, advance), report_.rows);
    }
    report_.owned = owned_;
    return std::move(report_);
  }

 private:
  static constexpr int64_t kPointsOfCurves = 40;

  void told(int64_t steps) {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = std::min(all_, done_ + steps);
    if (progress_) progress_(done_, all_);
  }

  // A sweep, as so many of the steps.
  std::vector<Study> swept(const std::vector<StudyTask>& tasks, const char* name, int64_t steps) {
    int64_t shown = 0;
    return run_sweep(
        tasks, work_,
        [&](int64_t done, int64_t of) {
          const int64_t now = steps * done / of;
          told(now - std::exchange(shown, now));
        },
        name);
  }

  void draw_networks() {
    std::vector<StudyTask> tasks;
    for (const Graph& graph : owned_->graphs) {
      StudyTask& task = tasks.emplace_back(curve_task(graph, owned_->roomy, kLinkBudget));
      task.counts = parse_counts("5:100:5");
      if (boards_.simulate)
        task.simulate = [this, &graph](const Plan& plan) { return boards_.simulate(plan, graph, kImages, false).figures; };
    }
    std::vector<Study> studies = swept(tasks, "curves ", kPointsOfCurves - 10);
    for (size_t t = 0; t < tasks.size(); ++t) {
      Study& study = studies[t];
      for (StudyPoint& point : study.points)
        for (double& share : point.device_memory) share *= RoomyMemory::kTimes;
      for (StudyPoint& point : study.points) point.memory_fraction *= RoomyMemory::kTimes;
      report_.networks.push_back({.curves = {{tasks[t], std::move(study)}}, .wirings = {}, .failures = {}});
    }
  }

  void compare_strategies() {
    const double gbps = boards_.board.value("link_gbps");
    std::vector<StudyTask> tasks;
    for (const Strategy strategy : {Strategy::kHybrid, Strategy::kLayer, Strategy::kData, Strategy::kModel}) {
      StudyTask& task = tasks.emplace_back(curve_task(owned_->graphs[1], *boards_.bits_16, 0));
      task.link = {gbps, gbps, 0, kFpdeepHop};
      task.options.strategy = strategy;
      task.options.micro_batch = strategy == Strategy::kHybrid || strategy == Strategy::kLayer ? 1 : 0;
      task.counts = parse_counts("12:16:2,24:64:8");
    }
    std::vector<Study> studies = swept(tasks, "strategies ", 10);
    for (size_t t = 0; t < tasks.size(); ++t) report_.strategies.curves.push_back({tasks[t], std::move(studies[t])});
  }

  void compare_wirings() {
    report_.wirings.layers = {"conv2_1", "conv2_2", "conv3_1"};
    report_.wirings.rules = {.ports = boards_.board.value("ring_ports")};
    const std::vector<TopologyLayer> layers = topology_layers(owned_->graphs[1], report_.wirings.layers);
    for (int64_t devices = 3; devices <= 16; ++devices)
      report_.wirings.points.push_back({devices, compare_topologies(layers, devices, report_.wirings.rules)});
  }

  static constexpr int64_t kImages = 24;

  const FpdeepBoards& boards_;
  StudyWork& work_;
  const StudyProgress& progress_;
  std::shared_ptr<Owned> owned_;
  FpdeepReport report_;
  std::mutex mutex_;
  int64_t all_ = 1;
  int64_t done_ = 0;
};

}  // namespace

std::vector<PaperRow> fpdeep_rows(const FpdeepBoards& boards, StudyWork& work, const StudyProgress& progress) {
  std::mutex mutex;
  int64_t done = 0;
  const Measurements modelled = measure(boards, work, false, {}, [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    if (progress) progress(++done, static_cast<int64_t>(step_count(false)));
  });
  return rows_of(boards, modelled);
}

std::vector<PaperRow> fpdeep_rows(const FpdeepBoards& boards) {
  StudyWork work;
  return fpdeep_rows(boards, work);
}

FpdeepReport fpdeep_report(const FpdeepBoards& boards, StudyWork& work, const StudyProgress& progress) {
  return Report(boards, work, progress).run();
}

}  // namespace millrace
