// Steps of cells against the same steps in double precision. The doubles take the real sigmoid and tanh; the bounds follow from how far
// the built ones are off (gate_function.h) and from the half steps of the roundings.
#include "fpga/recurrence/arithmetic/cell_arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/base/error.h"

namespace millrace {
namespace {

struct Function {
  GateForms forms;
  double sigmoid_error, tanh_error;
};
constexpr double kHalfStep = 0.5 / 32768, kArgumentStep = 0.5 / 4096;
const Function kFunctions[] = {{{SigmoidForm::kPlan, TanhForm::kPlan}, 0.0190, 0.0380},
                               {{SigmoidForm::kTable, TanhForm::kTable}, 2.6e-4, 5.2e-4},
                               {{SigmoidForm::kHardFifth, TanhForm::kTable}, 1.1 / 32768, 5.2e-4},
                               {{SigmoidForm::kHardSixth, TanhForm::kPlan}, 1.1 / 32768, 0.0380}};

double exact_gate(SigmoidForm form, double z) {
  if (form == SigmoidForm::kHardFifth) return std::fmin(std::fmax(0.2 * z + 0.5, 0), 1);
  if (form == SigmoidForm::kHardSixth) return std::fmin(std::fmax(z / 6 + 0.5, 0), 1);
  return 1 / (1 + std::exp(-z));
}

class Draw {
 public:
  int16_t sum() { return static_cast<int16_t>(std::uniform_int_distribution<int>(-32768, 32767)(generator_)); }
  int32_t below(double most, int fraction) {
    return static_cast<int32_t>(std::ldexp(std::uniform_real_distribution<double>(-most, most)(generator_), fraction));
  }

 private:
  std::mt19937 generator_{7};
};

double real(int64_t integer, int fraction) { return std::ldexp(static_cast<double>(integer), -fraction); }

}  // namespace

TEST(CellArithmetic, LstmAgainstDoubles) {
  Draw draw;
  for (const Function& function : kFunctions)
    for (int trial = 0; trial < 20000; ++trial) {
      const std::array<int16_t, 4> z{draw.sum(), draw.sum(), draw.sum(), draw.sum()};
      const int32_t before = draw.below(20, kCellFraction);
      RecurrentCounters counters;
      const CellFormats formats{.hidden = trial % 2 == 0 ? 15 : 12};
      const LstmStep now = lstm_step(z, before, formats, function.forms, counters);
      const double i = exact_gate(function.forms.sigmoid, real(z[0], 12)), f = exact_gate(function.forms.sigmoid, real(z[1], 12));
      const double g = std::tanh(real(z[2], 12)), o = exact_gate(function.forms.sigmoid, real(z[3], 12));
      const double c = f * real(before, 24) + i * g;
      const double es = function.sigmoid_error, et = function.tanh_error;
      const double cell_bound = es * std::fabs(real(before, 24)) + es + et + es * et + real(1, 25);
      ASSERT_NEAR(real(now.cell, 24), c, cell_bound);
      // From the cell as it was made: its own sixteen bits (which end at 8, where tanh is 1), tanh, o, the rounding.
      const double made = real(now.cell, 24);
      const double step = real(1, formats.hidden);  // also of what 16 bits cannot hold: 1 - 2^-15 and above
      ASSERT_NEAR(real(now.output, formats.hidden), o * std::tanh(made), es + et + kArgumentStep + step);
      ASSERT_EQ(counters.cells.saturated + counters.outputs.saturated, 0);
    }
}

// Sixteen bits with twelve of fraction end at 8.
TEST(CellArithmetic, ACellThatPassesEightDoesNotSaturate) {
  const CellFormats formats;
  const GateForms forms{SigmoidForm::kTable, TanhForm::kTable};
  RecurrentCounters counters;
  const std::array<int16_t, 4> open{32767, 32767, 32767, 32767};  // every gate almost 1
  int32_t cell = 0;
  double exact = 0;
  const double gate = sigmoid_of(forms.sigmoid, 32767) / 32768.0, bounded = tanh_of(forms.tanh, 32767) / 32768.0;
  for (int step = 1; step <= 100; ++step) {
    const LstmStep now = lstm_step(open, cell, formats, forms, counters);
    cell = now.cell;
    exact = gate * exact + gate * bounded;
    ASSERT_NEAR(real(cell, kCellFraction), exact, step * 1e-7) << step;
    ASSERT_NEAR(real(now.output, 15), gate * std::tanh(exact), 6e-4) << step;
  }
  EXPECT_GT(real(cell, kCellFraction), 95);
  EXPECT_EQ(counters.cells.saturated, 0);
  for (int step = 0; step < 60; ++step) cell = lstm_step(open, cell, formats, forms, counters).cell;
  EXPECT_GT(counters.cells.saturated, 0);  // 128 is the end, and it is counted
  EXPECT_EQ(cell, std::numeric_limits<int32_t>::max());
}

TEST(CellArithmetic, GruAgainstDoubles) {
  Draw draw;
  for (const Function& function : kFunctions)
    for (int trial = 0; trial < 20000; ++trial) {
      const GruSums z{draw.sum(), draw.sum(), draw.sum(), draw.sum()};
      const CellFormats formats{.hidden = trial % 2 == 0 ? 15 : 13};
      const auto before = static_cast<int16_t>(draw.below(0.999, formats.hidden));
      RecurrentCounters counters;
      const int16_t h = gru_step(z, before, formats, function.forms, counters);
      const double r = exact_gate(function.forms.sigmoid, real(z.reset, 12)), u = exact_gate(function.forms.sigmoid, real(z.update, 12));
      const double n = std::tanh(real(z.input, 12) + r * real(z.hidden, 12));
      const double exact = (1 - u) * n + u * real(before, formats.hidden);
      const double es = function.sigmoid_error, et = function.tanh_error;
      // The reset's error reaches tanh, whose slope is 1 at most; its argument may also leave sixteen bits, where tanh is 1.
      const double n_bound = es * std::fabs(real(z.hidden, 12)) + et + kArgumentStep + 3e-7;
      ASSERT_NEAR(real(h, formats.hidden), exact, n_bound + 2 * es + real(1, formats.hidden) + kHalfStep);
    }
}

TEST(CellArithmetic, VanillaAgainstDoubles) {
  RecurrentCounters counters;
  for (int z = -32768; z <= 32767; ++z) {
    const auto sum = static_cast<int16_t>(z);
    const CellFormats formats{.hidden = 11};
    ASSERT_EQ(vanilla_step(CellKind::kVanillaRelu, sum, formats, {}, counters), std::max(z, 0));
    ASSERT_NEAR(real(vanilla_step(CellKind::kVanillaTanh, sum, formats, {}, counters), 11), std::tanh(real(z, 12)), 0.0380 + real(1, 12));
  }
}

TEST(CellArithmetic, AnAccumulatorThatWrapsIsCounted) {
  ArithmeticCounters counters;
  EXPECT_EQ(cell_sum(int64_t{1} << 31, 15, counters), -32768);  // it comes out at the other end
  EXPECT_EQ(counters.accumulator_overflows, 1);
  EXPECT_EQ(cell_sum(3 << 14, 15, counters), 2);  // 1.5 to the even
  EXPECT_EQ(cell_sum((int64_t{1} << 31) - 1, 12, counters), 32767);
  EXPECT_EQ(counters.accumulator_overflows, 1);
  EXPECT_EQ(counters.saturated, 2);
}

TEST(CellArithmetic, FormatsThatHardwareCannotHave) {
  EXPECT_NO_THROW(check(CellFormats{}, CellKind::kLstm));
  EXPECT_THROW(check({.hidden = 16}, CellKind::kLstm), Error);
  EXPECT_THROW(check({.input = 4, .weight = 6}, CellKind::kLstm), Error);  // h's weights below 0
  EXPECT_THROW(check({.input = 30, .weight = 30}, CellKind::kLstm), Error);
  EXPECT_THROW(check({.weight = -1}, CellKind::kGru), Error);
}

}  // namespace millrace
