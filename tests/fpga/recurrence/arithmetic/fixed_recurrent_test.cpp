#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace {

// Each parameter a number of its own: rows leave gate by gate and arrive unit by unit.
TEST(FixedRecurrent, RowsOfAUnitLieSideBySide) {
  const std::vector<float> w{0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F, 0.8F}, u(16, 0.25F), b{1, 2, 3, 4, 5, 6, 7, 8}, none(8);
  ArithmeticCounters counters;
  const FixedRecurrent layer = fixed_recurrent({.cell = CellKind::kLstm, .hidden = 2}, 1, {w, u, b, none, {}}, {}, {}, counters);
  for (size_t unit = 0; unit < 2; ++unit)
    for (size_t gate = 0; gate < 4; ++gate) {
      EXPECT_EQ(layer.input_weight[unit * 4 + gate], std::lround(w[gate * 2 + unit] * 8192));
      EXPECT_EQ(layer.bias[unit * 4 + gate], static_cast<int32_t>(b[gate * 2 + unit]) << 27);
    }
  EXPECT_EQ(layer.hidden_weight[0], 1 << 10);  // 14 + 13 - 15 fraction bits
  EXPECT_EQ(counters.saturated, 0);
}

TEST(FixedRecurrent, AGrusNewStateKeepsItsBiasesApart) {
  const std::vector<float> w(3), u(3), b{1, 2, 3}, of_state{0.5F, 0.5F, 0.25F};
  ArithmeticCounters counters;
  const FixedRecurrent layer =
      fixed_recurrent({.cell = CellKind::kGru, .hidden = 1, .reset_after = true}, 1, {w, u, b, of_state, {}}, {}, {}, counters);
  EXPECT_EQ(layer.bias, (std::vector<int32_t>{3 << 26, 5 << 26, 3 << 27}));
  EXPECT_EQ(layer.hidden_bias, (std::vector<int32_t>{1 << 25}));
}

// A matrix that swaps and halves what the cells make.
TEST(FixedRecurrent, AProjectionIsASecondProduct) {
  Recurrent cell{.cell = CellKind::kLstm, .hidden = 2};
  const std::vector<float> w{1, -1, 1, -1, 1, -1, 1, -1}, none(8), swap{0, 0.5F, 0.5F, 0};
  ArithmeticCounters counters;
  const std::vector<float> nothing(16);
  const FixedRecurrent plain = fixed_recurrent(cell, 1, {w, nothing, none, none, {}}, {}, {}, counters);
  cell.projection = 2;
  const FixedRecurrent projected = fixed_recurrent(cell, 1, {w, nothing, none, none, swap}, {}, {}, counters);
  RecurrentState first = zero_state(plain, 1), second = zero_state(projected, 1);
  RecurrentCounters events;
  const std::vector<int16_t> x{9000, -7000, 12000};
  const std::vector<int16_t> h = direct_forward(plain, {.steps = 3, .lengths = {}}, x, first, events);
  const std::vector<int16_t> p = direct_forward(projected, {.steps = 3, .lengths = {}}, x, second, events);
  for (size_t step = 0; step < 3; ++step)
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(p[2 * step + i], 0.5 * h[2 * step + 1 - i], 0.5) << step;
  EXPECT_EQ(first.cell, second.cell);
}

TEST(FixedRecurrent, WhatIsBehindTheLastStepStandsStill) {
  const std::vector<float> w(4, 0.5F), u(4, 0.25F), b(4, 0.1F);
  ArithmeticCounters counters;
  const FixedRecurrent layer = fixed_recurrent({.cell = CellKind::kLstm, .hidden = 1}, 1, {w, u, b, b, {}}, {}, {}, counters);
  RecurrentCounters events;
  const std::vector<int16_t> x(10, 8000);
  RecurrentState shorter = zero_state(layer, 2), alone = zero_state(layer, 1);
  const std::vector<int16_t> h = direct_forward(layer, {.streams = 2, .steps = 5, .lengths = {2, 5}}, x, shorter, events);
  direct_forward(layer, {.steps = 2, .lengths = {}}, std::span(x).first(2), alone, events);
  EXPECT_EQ(shorter.hidden[0], alone.hidden[0]);
  EXPECT_EQ(shorter.cell[0], alone.cell[0]);
  EXPECT_NE(h[1], 0);
  EXPECT_EQ(h[2], 0);
  EXPECT_EQ(h[4], 0);
  EXPECT_NE(h[9], 0);
}

}  // namespace millrace
