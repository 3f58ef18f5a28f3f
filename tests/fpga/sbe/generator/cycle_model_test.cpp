// The engine as it is built beside what planners assume of it: LRCN's LSTM-256 on the paper's bus. (The built engine's own cycles are
// compared with its RTL in tests/fpga/sbe/rtl.)
#include "fpga/sbe/rtl/cycle_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fpga/sbe/rtl/engine_hardware.h"
#include "fpga/sbe/timing.h"

namespace millrace {

TEST(BuiltCycles, StayWithinOnePercentOfWhatPlannersAssume) {
  for (const int64_t groups : {1, 2, 4})
    for (const int64_t blocks : {4, 8, 16, 32})
      for (const int64_t latency : {0, 100}) {
        const SbeConfig config{.shape = {1792, 256, 4},
                               .row_lanes = 1024 / groups,
                               .latency = kBuiltLatency,
                               .block_chunks = 2048 / blocks,
                               .inputs_share_bus = false,
                               .steps = 64};
        const double planned = batch_timing(config).cycles, built = built_cycles(config, latency).batch;
        EXPECT_NEAR(built / planned, 1, 0.01) << groups << " groups, " << blocks << " blocks, latency " << latency;
        if (latency == 100) {
          EXPECT_GE(built, built_cycles(config, 0).batch);
        }
      }
}

// Blocks so small that each of them waits for the memory: a longer way costs what it is longer.
TEST(BuiltCycles, LatencyShowsWhereNothingHidesIt) {
  const SbeConfig config{.shape = {16, 8, 4},
                         .row_lanes = 32,
                         .tail_units = 1,
                         .latency = kBuiltLatency,
                         .block_chunks = 2,
                         .words_per_cycle = 16,
                         .inputs_share_bus = false,
                         .steps = 4};
  const double near = built_cycles(config, 0).batch, far = built_cycles(config, 100).batch;
  EXPECT_GT(far, near + 10 * 100);
}

}  // namespace millrace
