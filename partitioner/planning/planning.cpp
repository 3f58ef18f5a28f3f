#include "partitioner/planning/planning.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"

namespace millrace {
namespace {

constexpr std::array<std::pair<Strategy, std::string_view>, 5> kStrategies{{{Strategy::kHybrid, "hybrid"},
                                                                            {Strategy::kLayer, "layer"},
                                                                            {Strategy::kModel, "model"},
                                                                            {Strategy::kData, "data"},
                                                                            {Strategy::kKind, "kind"}}};

}  // namespace

std::string_view name_of(Strategy strategy) {
  for (const auto& [known, name] : kStrategies)
    if (known == strategy) return name;
  return "";
}

Strategy strategy_from(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [strategy, known] : kStrategies) {
    if (known == name) return strategy;
    names.emplace_back(known);
  }
  fail(ErrorCode::kUsage, "\"{}\" is not a strategy{}", name, suggestion(name, names));
}

Division division_from(std::string_view name) {
  if (name == "auto") return Division::kAuto;
  if (name == "all") return Division::kAll;
  if (name == "boards") return Division::kBoards;
  fail(ErrorCode::kUsage, "--divide \"{}\" is unknown{}", name, suggestion(name, {"auto", "all", "boards"}));
}

void divide(PlanOptions& options, Division division) {
  options.divide_all = division == Division::kAll;
  options.every_board = division == Division::kBoards;
}

double busy_seconds(const PlanTask& task) {
  constexpr double kPhases = 3;
  double products = 0, rate = 0;
  for (const Node& node : task.graph->nodes()) products += kPhases * static_cast<double>(node.work.forward_macs);
  for (const CostModel* model : task.models) {
    const std::vector<NamedAmount> inventory = model->inventory();
    const auto own = std::ranges::find(inventory, "macs_per_second", &NamedAmount::name);
    if (own == inventory.end() || own->amount <= 0) return 0;
    rate += own->amount;
  }
  return rate > 0 ? products / rate : 0;
}

}  // namespace millrace
