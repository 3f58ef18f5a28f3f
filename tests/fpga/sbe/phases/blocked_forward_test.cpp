// The functional model of the engine of blocked columns: the plain order's bits whatever the blocks, the timing model's words, and a
// sequence in double precision.
#include "fpga/sbe/phases/blocked_forward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "fpga/sbe/timing.h"
#include "tests/fpga/sbe/phases/random_layer.h"

namespace millrace {
namespace {

using testing_support::Dice;
using testing_support::random_elements;

bool same(const ArithmeticCounters& a, const ArithmeticCounters& b) {
  return a.rounded == b.rounded && a.saturated == b.saturated && a.accumulator_overflows == b.accumulator_overflows;
}

RecurrentRun random_run(Dice& dice, const SbeConfig& config) {
  RecurrentRun run{.streams = config.streams, .steps = config.steps, .first_step = dice.from_to(0, 5), .lengths = {}};
  if (dice.from_to(0, 1) == 1)
    for (int64_t stream = 0; stream < run.streams; ++stream) run.lengths.push_back(run.first_step + dice.from_to(-1, run.steps));
  return run;
}

}  // namespace

TEST(BlockedForward, GivesThePlainOrdersBitsAndTheTimingModelsWords) {
  Dice dice(11);
  int64_t cases[4] = {}, wrapped_sums = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SbeConfig config = testing_support::random_engine(dice);
    config.shape.inputs = dice.from_to(trial % 10 == 0 && config.pinned == Pinned::kAll ? 0 : 1, 80);
    config.shape.hidden = dice.from_to(1, 40);
    config.shape.projection = std::min(config.shape.projection, config.shape.hidden);
    config.row_lanes = divided_up(config.shape.hidden, dice.from_to(1, std::min<int64_t>(4, config.shape.hidden))) * config.shape.gates;
    const int64_t chunks = config.input_chunks() + (config.pinned == Pinned::kNone ? config.hidden_chunks() : 0);
    if (config.pinned != Pinned::kAll) config.block_chunks = divided_up(chunks, dice.from_to(1, 12));
    FixedRecurrent layer = testing_support::random_layer(dice, testing_support::cell_of(dice, config.shape.gates), config.shape.inputs,
                                                         config.shape.hidden, config.shape.projection);
    const bool wraps = trial % 7 == 0;  // whatever it holds, the order does not show
    if (wraps) layer.input_weight = random_elements(dice, layer.rows() * layer.inputs, 32767);
    const RecurrentRun run = random_run(dice, config);
    const std::vector<int16_t> x = random_elements(dice, config.vectors() * layer.inputs, wraps ? 32767 : 16384);
    RecurrentState state = testing_support::random_state(dice, layer, run.streams), direct_state = state;
    RecurrentCounters counters, direct_counters;
    BlockedTraffic traffic;
    const WeightImage image = weight_image(config, layer);
    const std::vector<int16_t> blocked = blocked_forward(config, layer, image, run, x, state, counters, traffic);
    ASSERT_EQ(blocked, direct_forward(layer, run, x, direct_state, direct_counters)) << trial;
    ASSERT_EQ(state, direct_state);
    ASSERT_TRUE(same(counters.sums, direct_counters.sums) && same(counters.cells, direct_counters.cells) &&
                same(counters.outputs, direct_counters.outputs));
    wrapped_sums += counters.sums.accumulator_overflows;

    const BatchTiming timing = batch_timing(config);
    ASSERT_EQ(traffic.weight_words, timing.weight_words) << trial;
    config.inputs_share_bus = true;
    const int64_t words = traffic.weight_words + traffic.input_words + traffic.output_words;
    if (layer.inputs % config.columns == 0) {
      ASSERT_EQ(words, batch_timing(config).words) << trial;
    }
    ++cases[timing.paper_case()];
  }
  for (const int64_t count : cases) EXPECT_GE(count, 20);  // pinned, and all three of the paper's
  EXPECT_GT(wrapped_sums, 0);
}

TEST(BlockedForward, ChunksOfTimeAreOneSequence) {
  Dice dice(12);
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t gates = dice.one_of<int64_t>({1, 3, 4}), steps = dice.from_to(4, 20), inputs = dice.from_to(1, 30),
                  hidden = dice.from_to(1, 20);
    const FixedRecurrent layer = testing_support::random_layer(dice, testing_support::cell_of(dice, gates), inputs, hidden);
    RecurrentRun whole{.streams = dice.from_to(1, 3), .steps = steps, .first_step = 0, .lengths = {}};
    for (int64_t stream = 0; stream < whole.streams; ++stream) whole.lengths.push_back(dice.from_to(1, steps));
    const std::vector<int16_t> x = random_elements(dice, whole.streams * steps * inputs, 16384);
    RecurrentState at_once = zero_state(layer, whole.streams), in_chunks = at_once;
    RecurrentCounters counters;
    const std::vector<int16_t> expected = direct_forward(layer, whole, x, at_once, counters);
    std::vector<int16_t> got(expected.size());
    for (int64_t first = 0, taken = 0; first < steps; first += taken) {
      taken = std::min(dice.from_to(1, 7), steps - first);
      const SbeConfig config{.shape = {inputs, hidden, gates},
                             .row_lanes = gates * dice.from_to(1, hidden),
                             .columns = dice.from_to(1, 4),
                             .block_chunks = dice.from_to(1, 20),
                             .streams = whole.streams,
                             .steps = taken};
      RecurrentRun run = whole;
      run.steps = taken;
      run.first_step = first;
      const auto copy = [&](auto from, int64_t from_steps, auto to, int64_t to_steps, int64_t skip_from, int64_t skip_to, int64_t width) {
        for (int64_t stream = 0; stream < whole.streams; ++stream)
          std::copy_n(from + (stream * from_steps + skip_from) * width, taken * width, to + (stream * to_steps + skip_to) * width);
      };
      std::vector<int16_t> part(static_cast<size_t>(whole.streams * taken * inputs));
      copy(x.begin(), steps, part.begin(), taken, first, 0, inputs);
      BlockedTraffic traffic;
      const std::vector<int16_t> h = blocked_forward(config, layer, weight_image(config, layer), run, part, in_chunks, counters, traffic);
      copy(h.begin(), taken, got.begin(), steps, 0, first, hidden);
    }
    ASSERT_EQ(got, expected) << trial;
    ASSERT_EQ(in_chunks, at_once);
  }
}

// The state's format of one layer is the input's of the next.
TEST(BlockedForward, SeveralLayers) {
  Dice dice(13);
  const int64_t streams = 2, steps = 9;
  FixedRecurrent first = testing_support::random_layer(dice, CellKind::kLstm, 24, 16);
  FixedRecurrent second = testing_support::random_layer(dice, CellKind::kGru, 16, 12);
  second.formats.input = first.formats.hidden;
  const RecurrentRun run{.streams = streams, .steps = steps, .first_step = 0, .lengths = {9, 5}};
  const std::vector<int16_t> x = random_elements(dice, streams * steps * 24, 16384);
  const auto through = [&](const auto& forward) { return forward(second, forward(first, x)); };
  RecurrentCounters counters;
  const std::vector<int16_t> expected = through([&](const FixedRecurrent& layer, const std::vector<int16_t>& in) {
    RecurrentState state = zero_state(layer, streams);
    return direct_forward(layer, run, in, state, counters);
  });
  for (int trial = 0; trial < 20; ++trial) {
    ASSERT_EQ(expected, through([&](const FixedRecurrent& layer, const std::vector<int16_t>& in) {
                RecurrentState state = zero_state(layer, streams);
                BlockedTraffic traffic;
                const SbeConfig config{.shape = {layer.inputs, layer.hidden, layer.gates()},
                                       .row_lanes = layer.gates() * dice.from_to(1, layer.hidden),
                                       .columns = dice.from_to(1, 3),
                                       .block_chunks = dice.from_to(1, 30),
                                       .pinned = dice.one_of({Pinned::kNone, Pinned::kHidden, Pinned::kAll}),
                                       .streams = streams,
                                       .steps = steps};
                return blocked_forward(config, layer, weight_image(config, layer), run, in, state, counters, traffic);
              }));
  }
}

// A whole sequence of real numbers: parameters of a model, their nearest in sixteen bits, and the same layer in double precision with the
// real sigmoid and tanh. The forget gates are open, so that cells pass 8.
TEST(BlockedForward, ALongSequenceAgainstDoubles) {
  constexpr int64_t kInputs = 6, kHidden = 5, kSteps = 64;
  Dice dice(14);
  const auto reals = [&](int64_t count, double most) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(most * static_cast<double>(dice.from_to(-1000, 1000)) / 1000);
    return values;
  };
  const std::vector<float> w = reals(4 * kHidden * kInputs, 0.5), u = reals(4 * kHidden * kHidden, 0.3), b = reals(4 * kHidden, 0.1);
  std::vector<float> of_state(4 * kHidden);
  for (size_t unit = 0; unit < kHidden; ++unit) of_state[kHidden + unit] = 5, of_state[unit] = 3, of_state[2 * kHidden + unit] = 1;
  RecurrentCounters counters;
  const FixedRecurrent layer = fixed_recurrent({.cell = CellKind::kLstm, .hidden = kHidden}, kInputs, {w, u, b, of_state, {}},
                                               {.hidden = 15}, {SigmoidForm::kTable, TanhForm::kTable}, counters.sums);
  const std::vector<int16_t> x = random_elements(dice, kSteps * kInputs, 16384);
  const SbeConfig config{.shape = {kInputs, kHidden, 4}, .row_lanes = 8, .columns = 2, .block_chunks = 2, .steps = kSteps};
  RecurrentState state = zero_state(layer, 1);
  BlockedTraffic traffic;
  const std::vector<int16_t> h =
      blocked_forward(config, layer, weight_image(config, layer), {.steps = kSteps, .lengths = {}}, x, state, counters, traffic);
  std::vector<double> c(kHidden), before(kHidden), now(kHidden);
  double largest_cell = 0, largest_error = 0;
  for (size_t step = 0; step < kSteps; ++step) {
    for (size_t unit = 0; unit < kHidden; ++unit) {
      double z[4];
      for (size_t gate = 0; gate < 4; ++gate) {
        const size_t row = gate * kHidden + unit;
        z[gate] = double{b[row]} + of_state[row];
        for (size_t i = 0; i < kInputs; ++i) z[gate] += double{w[row * kInputs + i]} * x[step * kInputs + i] / 16384.0;
        for (size_t i = 0; i < kHidden; ++i) z[gate] += u[row * kHidden + i] * before[i];
      }
      const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
      c[unit] = sigmoid(z[1]) * c[unit] + sigmoid(z[0]) * std::tanh(z[2]);
      now[unit] = sigmoid(z[3]) * std::tanh(c[unit]);
      largest_cell = std::max(largest_cell, std::fabs(c[unit]));
      largest_error = std::max(largest_error, std::fabs(now[unit] - h[step * kHidden + unit] / 32768.0));
    }
    before = now;
  }
  EXPECT_GT(largest_cell, 8);
  EXPECT_EQ(counters.cells.saturated, 0);
  EXPECT_EQ(counters.sums.accumulator_overflows, 0);
  EXPECT_LT(largest_error, 4e-3);
  for (size_t unit = 0; unit < kHidden; ++unit) EXPECT_NEAR(std::ldexp(state.cell[unit], -24), c[unit], 0.05);
}

TEST(BlockedForward, TheImageBeginsItsBlocksOnPages) {
  Dice dice(15);
  const FixedRecurrent layer = testing_support::random_layer(dice, CellKind::kLstm, 10, 6);
  const SbeConfig config{.shape = {10, 6, 4}, .row_lanes = 16, .columns = 2, .block_chunks = 3};
  const WeightImage image = weight_image(config, layer);
  ASSERT_EQ(image.blocks.size(), 3U);  // 5 chunks of x and 3 of h
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(image.blocks[i].first, static_cast<int64_t>(i) * kPageWords);
  // Second block, second group (8 rows left), its second chunk (x columns 8 and 9), row 16 + 3.
  const size_t at = kPageWords + 3 * 16 * 2 + 8 * 2 + 3 * 2;
  EXPECT_EQ(image.words[at], layer.input_weight[19 * 10 + 8]);
  EXPECT_EQ(image.words[at + 1], layer.input_weight[19 * 10 + 9]);
}

TEST(BlockedForward, WhatItDoesNotCompute) {
  Dice dice(16);
  FixedRecurrent layer = testing_support::random_layer(dice, CellKind::kLstm, 10, 6);
  SbeConfig config{.shape = {10, 6, 4}, .row_lanes = 24, .block_chunks = 3};
  EXPECT_NO_THROW(check(config, layer));
  layer.projection = 2;
  EXPECT_THROW(check(config, layer), Error);  // the engine has none
  config.shape.projection = 2;
  EXPECT_NO_THROW(check(config, layer));
  config.shape.projection = layer.projection = 7;
  EXPECT_THROW(check(config, layer), Error);  // of six units
  config.shape.projection = 0;
  layer.projection = 0;
  config.shape.inputs = 9;
  EXPECT_THROW(check(config, layer), Error);
  ArithmeticCounters counters;
  EXPECT_THROW(fixed_recurrent({.cell = CellKind::kGru, .hidden = 1}, 1, {}, {}, {}, counters), Error);
}

}  // namespace millrace
