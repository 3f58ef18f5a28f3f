// Steps of recurrent layers behind the link to a device: the functional model's bits, states, records and counters, and refusals.
#include "fpga/xrt/device/xrt_chain_engine.h"

#include <gtest/gtest.h>

#include <cstring>

#include "fpga/xrt/protocol/steps_block.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/pe_chain/random_steps.h"
#include "tests/fpga/xrt/device/direct_link.h"

namespace millrace::xrt::chain_engine {
namespace {

using testing_support::Dice;

bool same(const ArithmeticCounters& one, const ArithmeticCounters& other) { return std::memcmp(&one, &other, sizeof(one)) == 0; }

}  // namespace

TEST(XrtChainEngine, GivesTheFunctionalModelsBits) {
  DirectLink link;
  const auto engine = make_xrt_chain_engine(link, "board");
  const auto host = make_host_chain_engine();
  Dice dice(1);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const auto cell = static_cast<CellKind>(i % 4);
    FixedRecurrent layer = testing_support::random_steps(dice, cell, dice.from_to(2, 12));
    UnitRange board{0, layer.hidden};
    StepPart part = StepPart::kBoth;
    if (cell == CellKind::kLstm && i % 12 == 0) {
      layer = testing_support::random_steps(dice, cell, 3 * dice.from_to(2, 4));
      board = {3, layer.hidden};  // one board of two, and one of whose steps' parts
      part = i % 24 == 0 ? StepPart::kUnits : StepPart::kFeatures;
    }
    if (part != StepPart::kBoth || (cell == CellKind::kLstm && dice.from_to(0, 1) == 0)) {
      layer.projection = part != StepPart::kBoth ? layer.hidden / 3 : dice.from_to(1, layer.hidden);
      layer.formats.projection = 12;
      layer.hidden_weight = testing_support::random_elements(dice, layer.rows() * layer.projection, 3000);
      layer.projection_weight = testing_support::random_elements(dice, layer.projection * layer.hidden, 3000);
    } else if (dice.from_to(0, 2) == 0) {
      board = {1, layer.hidden};  // one board of two
    }
    const StepsOfBoard of{layer, board, static_cast<int>(dice.from_to(9, 14)), part};
    RecurrentRun run{.streams = dice.from_to(1, 4), .steps = dice.from_to(1, 6), .first_step = 0, .lengths = {}};
    if (dice.from_to(0, 1) == 1)
      for (int64_t stream = 0; stream < run.streams; ++stream) run.lengths.push_back(dice.from_to(0, run.steps));
    const int64_t vectors = run.streams * run.steps;
    const bool units_too = part != StepPart::kFeatures;
    const std::vector<int16_t> sums = testing_support::random_elements(dice, units_too ? vectors * layer.rows() : 0, 20000);
    const std::vector<int16_t> errors = testing_support::random_elements(dice, vectors * layer.features(), 8000);
    RecurrentState state = testing_support::random_state(dice, layer, run.streams), expected_state = state;
    FixedBackState back = testing_support::random_back_state(dice, layer, run.streams), expected_back = back;
    FixedKept kept, expected_kept;
    if (!units_too) kept.units = expected_kept.units = testing_support::random_elements(dice, vectors * layer.hidden, 30000);
    RecurrentCounters counters, expected_counters;
    ArithmeticCounters back_counters, expected_back_counters;
    ASSERT_EQ(engine->forward(of, sums, run, state, kept, counters),
              host->forward(of, sums, run, expected_state, expected_kept, expected_counters));
    EXPECT_EQ(state, expected_state);
    EXPECT_EQ(kept.units, expected_kept.units);
    ASSERT_EQ(kept.records.size(), expected_kept.records.size());
    EXPECT_EQ(std::memcmp(kept.records.data(), expected_kept.records.data(), sizeof(UnitRecord) * kept.records.size()), 0);
    const FixedErrors found = engine->back(of, errors, run, kept, back, back_counters);
    const FixedErrors expected = host->back(of, errors, run, kept, expected_back, expected_back_counters);
    EXPECT_EQ(found.sums, expected.sums);
    EXPECT_EQ(found.candidates, expected.candidates);
    EXPECT_EQ(found.features, expected.features);
    EXPECT_EQ(back.errors, expected_back.errors);
    EXPECT_EQ(back.carried, expected_back.carried);
    EXPECT_TRUE(same(counters.sums, expected_counters.sums) && same(counters.cells, expected_counters.cells) &&
                same(counters.outputs, expected_counters.outputs) && same(back_counters, expected_back_counters));
  }
}

// A device whose memory says something else refuses, or its answer is noticed.
TEST(XrtChainEngine, NoticesWhatIsWrong) {
  Dice dice(2);
  const FixedRecurrent layer = testing_support::random_steps(dice, CellKind::kGru, 4);
  const std::vector<int16_t> errors(4);
  const auto back = [&](DirectLink& link, int error_bits) {
    const auto engine = make_xrt_chain_engine(link, "board");
    FixedBackState state = zero_back_state(layer, 1);
    FixedKept kept{std::vector<UnitRecord>(4), {}};
    ArithmeticCounters counters;
    engine->back({layer, {0, 4}, error_bits}, errors, {.streams = 1, .steps = 1, .first_step = 0, .lengths = {}}, kept, state, counters);
  };
  DirectLink late;
  late.damage = [](const PhaseRegisters& registers, DeviceMemory& memory) {
    auto header = memory.at(registers.pointers[kResult], sizeof(ResultHeader));
    ++header[offsetof(ResultHeader, run)];
  };
  expect_error(ErrorCode::kUnavailable, "board: the device left no result of run 1 of the steps back", [&] { back(late, 12); });
  DirectLink sound;
  expect_error(ErrorCode::kUnavailable, "board", [&] { back(sound, 31); });  // no such format
  EXPECT_NO_THROW(back(sound, 30));
}

TEST(StepsBlock, RefusesWhatNoLayerHas) {
  const auto refused = [](const char* words, auto change) {
    StepsBlock block{
        .layer = {.input_bits = 12, .weight_bits = 13, .hidden_bits = 13, .projection_bits = 13, .hidden = 4, .streams = 2, .steps = 5},
        .board_begin = 0,
        .board_end = 4};
    EXPECT_NO_THROW(layer_of(block));
    change(block);
    expect_error(ErrorCode::kMalformed, words, [&] { layer_of(block); });
  };
  refused("3 inputs", [](StepsBlock& block) { block.layer.inputs = 3; });
  refused("units [0, 5) of 4", [](StepsBlock& block) { block.board_end = 5; });
  refused("units [2, 2) of 4", [](StepsBlock& block) { block.board_begin = block.board_end = 2; });
  refused("that are projected, and both parts", [](StepsBlock& block) { block.layer.projection = block.board_begin = 1; });
  refused("no whole number of their 1 features", [](StepsBlock& block) { block.layer.projection = block.board_begin = block.part = 1; });
  refused("its units are not projected", [](StepsBlock& block) { block.part = 2; });
  refused("part 3 of a step", [](StepsBlock& block) { block.part = 3; });
  refused("31 fraction bits", [](StepsBlock& block) { block.error_bits = 31; });
  refused("9 as its cell", [](StepsBlock& block) { block.layer.cell = 9; });
}

}  // namespace millrace::xrt::chain_engine
