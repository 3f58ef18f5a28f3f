// Recurrent layers behind the link to a device: the functional model's bits, states and counters, and refusals.
#include "fpga/xrt/device/xrt_recurrence_engine.h"

#include <gtest/gtest.h>

#include <cstring>

#include "fpga/xrt/protocol/recurrence_block.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/sbe/phases/random_layer.h"
#include "tests/fpga/xrt/device/direct_link.h"

namespace millrace::xrt {
namespace {

using testing_support::Dice;

void expect_equal(const ArithmeticCounters& found, const ArithmeticCounters& expected) {
  EXPECT_EQ(found.rounded, expected.rounded);
  EXPECT_EQ(found.saturated, expected.saturated);
  EXPECT_EQ(found.accumulator_overflows, expected.accumulator_overflows);
  EXPECT_EQ(found.error_squares, expected.error_squares);
}

}  // namespace

TEST(XrtRecurrenceEngine, GivesTheFunctionalModelsBits) {
  DirectLink link;
  const auto engine = make_xrt_recurrence_engine(link, "board");
  Dice dice(1);
  for (int i = 0; i < 60; ++i) {
    const int64_t gates = dice.one_of({int64_t{1}, int64_t{3}, int64_t{4}});
    FixedRecurrent layer =
        testing_support::random_layer(dice, testing_support::cell_of(dice, gates), dice.from_to(0, 9), dice.from_to(1, 12));
    if (gates == 4 && dice.from_to(0, 2) == 0) {
      layer.projection = dice.from_to(1, layer.hidden);
      layer.formats.projection = 12;
      layer.hidden_weight = testing_support::random_elements(dice, layer.rows() * layer.projection, 3000);
      layer.projection_weight = testing_support::random_elements(dice, layer.projection * layer.hidden, 3000);
    }
    RecurrentRun run{.streams = dice.from_to(1, 5), .steps = dice.from_to(1, 7), .first_step = 0, .lengths = {}};
    if (dice.from_to(0, 1) == 1)
      for (int64_t stream = 0; stream < run.streams; ++stream) run.lengths.push_back(dice.from_to(0, run.steps));
    const std::vector<int16_t> x = testing_support::random_elements(dice, run.streams * run.steps * layer.inputs, 30000);
    RecurrentState state = testing_support::random_state(dice, layer, run.streams), expected_state = state;
    RecurrentCounters counters, expected_counters;
    RecurrentTrace trace, expected_trace;
    const bool traced = dice.from_to(0, 1) == 1;
    const std::vector<int16_t> expected =
        direct_forward(layer, run, x, expected_state, expected_counters, traced ? &expected_trace : nullptr);
    ASSERT_EQ(engine->forward(layer, run, x, state, counters, traced ? &trace : nullptr), expected) << i;
    EXPECT_EQ(state, expected_state);
    EXPECT_EQ(trace.sums, expected_trace.sums);
    EXPECT_EQ(trace.cells, expected_trace.cells);
    expect_equal(counters.sums, expected_counters.sums);
    expect_equal(counters.cells, expected_counters.cells);
    expect_equal(counters.outputs, expected_counters.outputs);
  }
}

// A device whose memory says something else refuses, or its answer is noticed.
TEST(XrtRecurrenceEngine, NoticesWhatIsWrong) {
  Dice dice(2);
  const FixedRecurrent layer = testing_support::random_layer(dice, CellKind::kLstm, 3, 4);
  const RecurrentRun run{.streams = 2, .steps = 3, .first_step = 0, .lengths = {}};
  const std::vector<int16_t> x = testing_support::random_elements(dice, 2 * 3 * 3, 30000);
  const auto forward = [&](DirectLink& link) {
    const auto engine = make_xrt_recurrence_engine(link, "board");
    RecurrentState state = zero_state(layer, 2);
    RecurrentCounters counters;
    engine->forward(layer, run, x, state, counters, nullptr);
  };
  DirectLink late;
  late.damage = [](const PhaseRegisters& registers, DeviceMemory& memory) {
    auto header = memory.at(registers.pointers[kResult], sizeof(ResultHeader));
    ++header[offsetof(ResultHeader, run)];
  };
  expect_error(ErrorCode::kUnavailable, "board: the device left no result of run 1 of the recurrence", [&] { forward(late); });
}

TEST(RecurrenceBlock, RefusesWhatNoLayerHas) {
  const auto refused = [](const char* words, auto change) {
    RecurrenceBlock block{.input_bits = 12,
                          .weight_bits = 13,
                          .hidden_bits = 13,
                          .projection_bits = 13,
                          .inputs = 3,
                          .hidden = 4,
                          .projection = 0,
                          .streams = 2,
                          .steps = 5};
    EXPECT_NO_THROW(layer_of(block));
    change(block);
    expect_error(words[0] == '#' ? ErrorCode::kUsage : ErrorCode::kMalformed, words[0] == '#' ? words + 1 : words,
                 [&] { layer_of(block); });
  };
  refused("9 as its cell", [](RecurrenceBlock& block) { block.cell = 9; });
  refused("7 as its sigmoid", [](RecurrenceBlock& block) { block.sigmoid = 7; });
  refused("2 as its tangent", [](RecurrenceBlock& block) { block.tanh = 2; });
  refused("0 hidden units", [](RecurrenceBlock& block) { block.hidden = 0; });
  refused("-1 inputs", [](RecurrenceBlock& block) { block.inputs = -1; });
  refused("0 streams", [](RecurrenceBlock& block) { block.streams = 0; });
  refused("2000000 steps", [](RecurrenceBlock& block) { block.steps = 2'000'000; });
  refused("weights; it holds", [](RecurrenceBlock& block) { block.hidden = block.inputs = 1 << 20; });
  refused("inputs of all vectors; it holds", [](RecurrenceBlock& block) { block.streams = block.steps = 1 << 15; });
  refused("#fraction bits of the state h", [](RecurrenceBlock& block) { block.hidden_bits = 16; });
}

}  // namespace millrace::xrt
