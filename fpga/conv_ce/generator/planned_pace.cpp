#include "fpga/conv_ce/generator/planned_pace.h"

#include <algorithm>

namespace millrace {

double planned_seconds(const Node& node, StreamingUnit unit, const PhaseEngine& engine) {
  const int64_t rows = engine.phase == Phase::kErrorBack ? node.input_shapes[0].height : node.output.height;
  return 1e-12 * static_cast<double>(engine.picoseconds_per_unit) * static_cast<double>(unit == StreamingUnit::kSample ? 1 : rows);
}

double planned_clock(const Plan& plan, const std::string& board) {
  for (const DeviceBudget& budget : plan.budgets) {
    if (budget.device != board) continue;
    const auto found = std::ranges::find(budget.amounts, "clock_hz", &NamedAmount::name);
    if (found != budget.amounts.end()) return std::max(found->amount, 0.0);
  }
  return 0;
}

}  // namespace millrace
