#include "fpga/conv_ce/engine_timing.h"

#include <algorithm>
#include <cmath>

#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

namespace {

constexpr double kMostCycles = 4e18;  // stays an int64_t

}  // namespace

EngineSize engine_for(const PhaseWork& phase, double cycles_per_sample) {
  if (phase.work <= 0) return {};
  const auto budget = static_cast<int64_t>(std::min(cycles_per_sample / static_cast<double>(phase.units), kMostCycles));
  if (budget < 1) return {phase.work, false};
  return {divided_up(phase.work, budget), true};
}

int64_t cycles_per_unit(const PhaseWork& phase, const EngineSize& engine) {
  return engine.tiles > 0 ? divided_up(phase.work, engine.tiles) : 0;
}

int64_t channels_side_by_side(int64_t tiles, int64_t within) {
  if (tiles <= 0) return 0;
  auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(tiles)));
  if (side * side < tiles) ++side;
  return divided_up(tiles, std::min(side, within));
}

}  // namespace millrace
