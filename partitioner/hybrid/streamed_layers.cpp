#include "partitioner/hybrid/streamed_layers.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/plan/off_chip.h"
#include "partitioner/hybrid/pace_bound.h"
#include "partitioner/hybrid/ring_solver.h"

namespace millrace {

namespace {

// Numbers of layers that are tried.
constexpr size_t kMostTried = 16;
// By how much a ring has to be faster for one that streams more.
constexpr double kWorthStreaming = 2e-3;

bool some_board_streams(const PlanTask& task) {
  return std::any_of(task.models.begin(), task.models.end(),
                     [](const CostModel* model) { return model->dedicated_engines() && off_chip_bandwidth(model->inventory()) > 0; });
}

// Those of the fewest rows first.
std::vector<std::string> streamable(const PlanTask& task) {
  std::vector<const Node*> nodes;
  for (const Node& node : task.graph->nodes()) {
    const auto* convolution = std::get_if<Conv2d>(&node.layer.operation);
    if (convolution != nullptr && convolution->groups == 1 && node.trained) nodes.push_back(&node);
  }
  std::ranges::stable_sort(nodes, {}, [](const Node* node) { return node->output.height; });
  std::vector<std::string> names;
  for (const Node* node : nodes) names.push_back(node->layer.name);
  return names;
}

}  // namespace

std::set<std::string> streamable_convolutions(const PlanTask& task) {
  if (task.options.accounting != Accounting::kFull || !some_board_streams(task)) return {};
  const std::vector<std::string> names = streamable(task);
  return {names.begin(), names.end()};
}

std::set<std::string> streamed_convolutions(const PlanTask& task, int64_t micro_batch) {
  if (task.options.accounting != Accounting::kFull || task.options.all_off_chip || !some_board_streams(task)) return {};
  const std::vector<std::string> names = streamable(task);
  PlanTask tried = task;
  if (task.options.pins.empty() && task.options.cuts.empty()) tried.options.allow_empty = true;
  std::set<std::string> best;
  std::optional<double> period;
  // Where memory does not hold the ring back, none is faster.
  const PaceBound bound(tried, micro_batch);
  bool settled = false;
  const auto consider = [&](std::set<std::string> streamed) {
    if (settled) return;
    tried.options.off_chip = std::move(streamed);
    const RingSolver solver(tried, micro_batch);
    if (period && solver.rules_out(*period / (1 + kWorthStreaming))) return;
    const RingSolution solution = solver.solve(Effort::kQuick);
    if (!solution.feasible || (period && solution.period > *period / (1 + kWorthStreaming))) return;
    period = solution.period;
    best = tried.options.off_chip;
    settled = bound.rules_out(*period / (1 + kWorthStreaming));
  };
  const size_t step = std::max<size_t>(1, (names.size() + kMostTried - 1) / kMostTried);
  for (size_t count = 0; count <= names.size(); count = count == names.size() ? count + 1 : std::min(count + step, names.size()))
    consider({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count)});
  if (!period) return streamable_convolutions(task);
  if (best.empty()) return best;
  // A board that streams one layer may have room for another.
  for (size_t i = 0; i < names.size(); i += step) {
    std::set<std::string> other = best;
    for (size_t j = i; j < std::min(i + step, names.size()); ++j)
      if (other.erase(names[j]) == 0) other.insert(names[j]);
    consider(std::move(other));
  }
  return best;
}

}  // namespace millrace
