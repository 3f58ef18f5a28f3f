// When rows pass: against the engines' own cycle model, and a memory that waits against a recursion of its own.
#include "fpga/conv_ce/generator/row_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "fpga/conv_ce/rtl/cycle_model.h"

namespace millrace {
namespace {

TEST(RowTiming, BlocksCountTheirRows) {
  const RowBlocks blocks{.rows = 7, .first_block_rows = 2, .block_rows = 3};
  EXPECT_EQ(blocks.units(), 3);
  std::vector<int64_t> begins;
  for (int64_t unit = 0; unit <= 6; ++unit) begins.push_back(blocks.rows_to(unit));
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 2, 5, 7, 9, 12, 14}));
  std::vector<int64_t> units;
  for (int64_t row = 0; row < 14; ++row) units.push_back(blocks.unit_of(row));
  EXPECT_EQ(units, (std::vector<int64_t>{0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5}));
}

// FP alone, whose rows come at a beat per cycle.
TEST(RowTiming, AStageTakesTheCyclesOfItsEngine) {
  std::mt19937_64 random(5);
  const auto drawn = [&random](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 100; ++i) {
    ConvolutionShape shape{.inputs = drawn(1, 9), .outputs = drawn(1, 9), .height = drawn(4, 12), .width = drawn(4, 12)};
    shape.kernel_h = shape.kernel_w = drawn(1, 4);
    shape.stride_h = shape.stride_w = drawn(1, 3);
    shape.pad_h = shape.pad_w = drawn(0, shape.kernel_h / 2);
    EngineParallelism engine{.kernel = shape.kernel_h, .stride = shape.stride_h, .input_lanes = drawn(1, 4), .output_lanes = drawn(1, 4)};
    engine.kernels_per_word = kernels_per_word(engine.tiles(), shape.out_width());
    const EngineSweeps sweeps = sweeps_of(engine, shape);
    RowTiming timing;
    const size_t in = timing.stream({.rows = shape.height}, static_cast<double>(sweeps.input_groups * shape.width));
    const int64_t sweep = forward_sweep_cycles(sweeps.load_words, shape.out_width());
    timing.stage({.reads = {{.stream = in,
                             .steps = shape.out_height(),
                             .map_rows = shape.height,
                             .first_top = -shape.pad_h,
                             .stride = shape.stride_h,
                             .window_rows = shape.kernel_h,
                             .banks = int64_t{1} << engine_memories(engine, shape).row_banks}},
                  .compute = static_cast<double>(sweeps.output_groups * sweeps.input_sweeps * sweep)});
    const auto expected = static_cast<double>(forward_cycles(engine, shape, 16) - forward_cycles(engine, shape, 8)) / 8;
    EXPECT_DOUBLE_EQ(timing.run({.samples = 16}).period, expected) << i;
  }
}

constexpr int64_t kRows = 4, kRowCycles = 10;

// Rows wait for their errors, which the host sends `delay` cycles after the last of a sample.
struct Waiting {
  Waiting(double room_rows, double delay) {
    in = timing.stream({.rows = kRows}, kRowCycles);
    const size_t scores = timing.stream({.rows = 1}, 0), errors = timing.stream({.rows = kRows}, kRowCycles);
    timing.stage({.reads = {{.stream = in, .map_rows = kRows, .window_rows = kRows, .banks = 4 * kRows}}, .out = scores, .compute = delay});
    timing.host(scores, errors);
    memory = timing.queue({.in = in, .out = errors, .rows = room_rows, .waits = true});
  }

  RowTiming timing;
  size_t in = 0, memory = 0;
};

double recursion(int64_t room_rows, double delay) {
  constexpr int64_t kSamples = 40;
  std::vector<double> came, left, scored;
  for (int64_t row = 0; row < kSamples * kRows; ++row) {
    double at = (came.empty() ? 0 : came.back()) + kRowCycles;
    if (row >= room_rows) at = std::max(at, left[static_cast<size_t>(row - room_rows)]);
    came.push_back(at);
    if (row % kRows != kRows - 1) continue;
    scored.push_back(std::max(at, scored.empty() ? 0 : scored.back()) + delay);
    for (int64_t i = 0; i < kRows; ++i) left.push_back(std::max(scored.back(), left.empty() ? 0 : left.back()) + kRowCycles);
  }
  return (scored.back() - scored[kSamples / 2 - 1]) / (kSamples / 2);
}

TEST(RowTiming, RoomSetsThePeriodWhereErrorsComeLate) {
  for (const double delay : {0.0, 15.0, 40.0})
    for (int64_t room = kRows; room <= 4 * kRows; ++room) {
      const Waiting waiting(static_cast<double>(room), delay);
      const RowTimes times = waiting.timing.run({.samples = 40});
      EXPECT_NEAR(times.period, recursion(room, delay), 1e-9) << room << " rows, " << delay;
      const bool waits = times.period > std::max<double>(kRows * kRowCycles, delay) + 1e-9;
      EXPECT_EQ(times.samples_held[waiting.memory] > 0, waits) << room << " rows, " << delay;
    }
}

// What is in a memory that has room for all is what it needs.
TEST(RowTiming, ThePeakIsTheRoomThatWouldDo) {
  const double period = kRows * kRowCycles, delay = 35;
  const Waiting free(1, delay);
  const RowTimes times = free.timing.run({.samples = 40, .unlimited = true, .source = free.in, .source_period = period});
  EXPECT_NEAR(times.period, period, 1e-9);
  const double peak = times.peak_rows[free.memory];
  EXPECT_NEAR(Waiting(peak, delay).timing.run({.samples = 40}).period, period, 1e-9) << peak;
  EXPECT_GT(Waiting(peak - 1, delay).timing.run({.samples = 40}).period, period) << peak;
}

TEST(RowTiming, LessRoomThanErrorsNeedStandsStill) {
  EXPECT_TRUE(Waiting(kRows - 1, 0).timing.run({.samples = 4}).stands_still);
  EXPECT_FALSE(Waiting(kRows, 0).timing.run({.samples = 4}).stands_still);
}

// Blocks of two rows leave one by one, while the next comes in.
TEST(RowTiming, SortedRowsWaitForTheirBlock) {
  for (const double banks : {4.0, 2.0}) {
    RowTiming timing;
    const size_t in = timing.stream({.rows = 6, .first_block_rows = 2, .block_rows = 2}, 10), out = timing.stream({.rows = 6}, 10);
    timing.queue({.in = in, .out = out, .rows = banks, .sorts = true});
    EXPECT_DOUBLE_EQ(timing.run({.samples = 8}).period, banks == 4 ? 60 : 120);
  }
}

}  // namespace
}  // namespace millrace
