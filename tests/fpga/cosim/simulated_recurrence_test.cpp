// Recurrent layers on simulated engines: the functional model's bits whatever the blocks, batches and lengths, and refusals by name.
#include "fpga/cosim/simulated_recurrence.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "fpga/sbe/timing.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/sbe/phases/random_layer.h"

namespace millrace {
namespace {

using testing_support::Dice;

const EngineBuildOptions kEngineCache{.cache = MILLRACE_COSIM_TEST_CACHE};

bool lacks_verilator() { return std::system("verilator --version > /dev/null 2>&1") != 0; }

FixedRecurrent layer_of(Dice& dice, CellKind cell, int64_t inputs, int64_t hidden) {
  FixedRecurrent layer = testing_support::random_layer(dice, cell, inputs, hidden);
  layer.forms = {};
  return layer;
}

RecurrentRun run_of(Dice& dice, int64_t streams, int64_t steps) {
  RecurrentRun run{.streams = streams, .steps = steps, .first_step = 0, .lengths = {}};
  for (int64_t stream = 0; stream < streams; ++stream) run.lengths.push_back(dice.from_to(0, steps));
  return run;
}

}  // namespace

// Weights in three blocks from the memory outside, three streams of four steps at a time: seven sequences of nine steps, of which most
// end before, so that streams and steps are left over. What is fetched is what the plan's model says, batch for batch.
TEST(SimulatedRecurrence, StreamsBlocksOfWeightsForSequencesOfAnyLength) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  Dice dice(3);
  const SbeConfig config{.shape = {5, 4, 4},
                         .row_lanes = 8,
                         .tail_units = 1,
                         .latency = kBuiltLatency,
                         .block_chunks = 3,
                         .words_per_cycle = 4,
                         .inputs_share_bus = false,
                         .streams = 3,
                         .steps = 4};
  SimulatedRecurrence engine({.planned = {{"walk", CellKind::kLstm, {}, config}}, .build = kEngineCache});
  const FixedRecurrent layer = layer_of(dice, CellKind::kLstm, 5, 4);
  const RecurrentRun run = run_of(dice, 7, 9);
  const std::vector<int16_t> x = testing_support::random_elements(dice, 7 * 9 * 5, 20000);
  RecurrentState state = zero_state(layer, 7), expected_state = zero_state(layer, 7);
  RecurrentCounters counters, expected_counters;
  RecurrentTrace trace, expected_trace;
  const std::vector<int16_t> expected = direct_forward(layer, run, x, expected_state, expected_counters, &expected_trace);
  EXPECT_EQ(engine.forward(layer, run, x, state, counters, &trace), expected);
  EXPECT_EQ(state, expected_state);
  EXPECT_EQ(trace.sums, expected_trace.sums);
  EXPECT_EQ(counters.outputs.rounded, expected_counters.outputs.rounded);
  EXPECT_EQ(engine.weight_words(), 3 * 3 * batch_timing(config).weight_words);  // thirds of the sequences, thirds of the steps
  EXPECT_GT(engine.cycles(), 9 * batch_timing(config).cycles);

  // Other weights, from zeros again; then on from the state that is left, in tables, and what the plan has no engine for.
  const FixedRecurrent other = layer_of(dice, CellKind::kLstm, 5, 4);
  RecurrentState fresh = zero_state(other, 7), again = zero_state(other, 7);
  EXPECT_EQ(engine.forward(other, run, x, fresh, counters, nullptr), direct_forward(other, run, x, again, counters, nullptr));
  EXPECT_EQ(engine.forward(other, run, x, fresh, counters, nullptr), direct_forward(other, run, x, again, counters, nullptr));
  EXPECT_EQ(fresh, again);
  RecurrentState zeros = zero_state(other, 7);
  FixedRecurrent tables = other;
  tables.forms = {SigmoidForm::kTable, TanhForm::kTable};
  const std::vector<int16_t> smooth = engine.forward(tables, run, x, fresh, counters, nullptr);
  EXPECT_EQ(smooth, direct_forward(tables, run, x, again, counters, nullptr));
  const FixedRecurrent wider = layer_of(dice, CellKind::kLstm, 6, 4);
  expect_error(ErrorCode::kUnavailable, "no engine of the plan's device computes a layer of 6 inputs",
               [&] { engine.forward(wider, run, x, zeros, counters, nullptr); });
}

// An lstm of eight units that projects to four, and a gru, each from a state that is brought, one sequence in two chunks of time.
TEST(SimulatedRecurrence, ProjectsAndGoesOnFromAState) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  Dice dice(6);
  SimulatedRecurrence engine({.planned = {}, .build = kEngineCache});
  FixedRecurrent projected = testing_support::random_layer(dice, CellKind::kLstm, 3, 8, 4);
  projected.forms = {};
  for (const FixedRecurrent& layer : {projected, layer_of(dice, CellKind::kGru, 3, 4)}) {
    constexpr int64_t kStreams = 5, kSteps = 8;
    const std::vector<int16_t> x = testing_support::random_elements(dice, kStreams * kSteps * 3, 20000);
    RecurrentRun whole = run_of(dice, kStreams, kSteps);
    RecurrentState state = testing_support::random_state(dice, layer, kStreams), expected_state = state;
    RecurrentCounters counters;
    const std::vector<int16_t> expected = direct_forward(layer, whole, x, expected_state, counters, nullptr);
    for (int64_t first = 0; first < kSteps; first += kSteps / 2) {
      RecurrentRun chunk{.streams = kStreams, .steps = kSteps / 2, .first_step = first, .lengths = whole.lengths};
      std::vector<int16_t> of_chunk;
      for (int64_t stream = 0; stream < kStreams; ++stream)
        of_chunk.insert(of_chunk.end(), x.begin() + (stream * kSteps + first) * 3, x.begin() + (stream * kSteps + first + kSteps / 2) * 3);
      const std::vector<int16_t> h = engine.forward(layer, chunk, of_chunk, state, counters, nullptr);
      const int64_t width = layer.features();
      for (int64_t at = 0; at < kStreams * (kSteps / 2) * width; ++at) {
        const int64_t stream = at / width / (kSteps / 2), step = first + at / width % (kSteps / 2);
        ASSERT_EQ(h[static_cast<size_t>(at)], expected[static_cast<size_t>((stream * kSteps + step) * width + at % width)])
            << "stream " << stream << ", step " << step;
      }
    }
    EXPECT_EQ(state, expected_state);
  }
}

// Without a plan small engines are made, all weights on the chip; they are loaded again when they change.
TEST(SimulatedRecurrence, SmallEnginesKeepTheirWeights) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  Dice dice(4);
  SimulatedRecurrence engine({.planned = {}, .build = kEngineCache});
  const FixedRecurrent layer = layer_of(dice, CellKind::kGru, 3, 4), other = layer_of(dice, CellKind::kGru, 3, 4);
  int64_t loaded = 0;
  for (const FixedRecurrent* one : {&layer, &layer, &other}) {
    const RecurrentRun run = run_of(dice, 2, 6);
    const std::vector<int16_t> x = testing_support::random_elements(dice, 2 * 6 * 3, 20000);
    RecurrentState state = zero_state(*one, 2), expected = zero_state(*one, 2);
    RecurrentCounters counters;
    EXPECT_EQ(engine.forward(*one, run, x, state, counters, nullptr), direct_forward(*one, run, x, expected, counters, nullptr));
    loaded = loaded == 0 ? engine.weight_words() : loaded;
  }
  EXPECT_GT(loaded, 0);
  EXPECT_EQ(engine.weight_words(), 2 * loaded);
}

}  // namespace millrace
