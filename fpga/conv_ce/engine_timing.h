// How large an engine must be to keep up with a period, and how long it then takes: exact in cycles.
//
//   const EngineSize engine = engine_for({.units = 55, .work = 15840}, period_seconds * clock_hz);
//   engine.tiles * kernel_h * kernel_w;                                         // multipliers
//   picoseconds_of(cycles_per_unit(phase, engine), clock_hz);                   // of one row (fpga/common/cost/clock_time.h)
//
// A unit (row, step, sample) has a budget of floor(cycles of a sample / units) cycles; the engine has the fewest tiles that
// stay within it, at least one. Where the budget is below one cycle no engine keeps up; the size is then that of an engine
// which does a unit in a single cycle.
// A longer period never asks for more tiles, more work never for fewer.
#pragma once

#include <cstdint>

#include "fpga/common/cost/shard_geometry.h"

namespace millrace {

struct EngineSize {
  int64_t tiles = 0;  // 0: nothing to compute
  bool keeps_up = true;
};

EngineSize engine_for(const PhaseWork& phase, double cycles_per_sample);
// What that engine takes for a unit, which may be less than its budget.
int64_t cycles_per_unit(const PhaseWork& phase, const EngineSize& engine);

// How an engine's tiles lie side by side: as square as they can, `within` channels of the layer at a time, the rest of the
// tiles along the other channels. Sizes what is as wide as the engine: accumulators, ports.
int64_t channels_side_by_side(int64_t tiles, int64_t within);

}  // namespace millrace
