// Every argument there is against the real functions in double precision, written here once more.
#include "fpga/recurrence/arithmetic/gate_function.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/error.h"

namespace millrace {
namespace {

double exact_sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

// Over all 65,536 arguments.
double largest_error(const std::function<int32_t(int16_t)>& built, const std::function<double(double)>& exact) {
  double largest = 0;
  for (int z = -32768; z <= 32767; ++z)
    largest = std::max(largest, std::fabs(built(static_cast<int16_t>(z)) / 32768.0 - exact(z / 4096.0)));
  return largest;
}

int32_t plan(int16_t z) { return sigmoid_of(SigmoidForm::kPlan, z); }

}  // namespace

TEST(GateFunction, PlanIsAsFarFromTheSigmoidAsItsAuthorsSay) {
  EXPECT_NEAR(largest_error(plan, exact_sigmoid), 0.0189, 5e-5);
  EXPECT_NEAR(largest_error([](int16_t z) { return tanh_of(TanhForm::kPlan, z); }, [](double z) { return std::tanh(z); }), 0.0379, 1e-4);
}

TEST(GateFunction, PlanAtTheEndsOfItsLines) {
  EXPECT_EQ(plan(0), 16384);
  EXPECT_EQ(plan(4095), 24574);
  EXPECT_EQ(plan(4096), 24576);
  EXPECT_EQ(plan(9727), 30207);
  EXPECT_EQ(plan(9728), 30080);
  EXPECT_EQ(plan(20479), 32767);
  EXPECT_EQ(plan(32767), 32767);
  EXPECT_EQ(plan(-4096), 8192);
  EXPECT_EQ(plan(-32768), 0);
}

// It falls once, at 2.375, by 1/256; and the four lines are those of the paper, in real numbers.
TEST(GateFunction, PlanIsItsFourLines) {
  for (int z = 0; z < 32767; ++z) {
    const double x = z / 4096.0;
    const double line = x >= 5 ? 1 : x >= 2.375 ? 0.03125 * x + 0.84375 : x >= 1 ? 0.125 * x + 0.625 : 0.25 * x + 0.5;
    const int32_t built = plan(static_cast<int16_t>(z));
    ASSERT_LE(line * 32768 - built, 1) << z;
    ASSERT_GE(line * 32768 - built, 0) << z;
    if (z + 1 == 9728) {
      EXPECT_EQ(plan(9728) - built, -127);
    } else {
      ASSERT_GE(plan(static_cast<int16_t>(z + 1)), built) << z;
    }
  }
}

TEST(GateFunction, TheTableIsCloseEverywhere) {
  EXPECT_LT(largest_error([](int16_t z) { return sigmoid_of(SigmoidForm::kTable, z); }, exact_sigmoid), 2.6e-4);
  EXPECT_LT(largest_error([](int16_t z) { return tanh_of(TanhForm::kTable, z); }, [](double z) { return std::tanh(z); }), 5.2e-4);
  for (size_t i = 1; i < sigmoid_table().size(); ++i) ASSERT_GE(sigmoid_table()[i], sigmoid_table()[i - 1]);
}

// Each entry is the sigmoid in the middle of its step, rounded to nearest: none may be off by one bit.
TEST(GateFunction, TheTablesEntriesAreRoundedToNearest) {
  for (size_t i = 0; i < sigmoid_table().size(); ++i)
    ASSERT_LE(std::fabs(sigmoid_table()[i] - 32768 * exact_sigmoid((static_cast<double>(i) + 0.5) / 512)), 0.5 + 1e-9) << i;
}

// A step of the result, and a fifth of one where 52,429 is not 52,428.8.
TEST(GateFunction, HardSigmoidsOfBothSlopes) {
  for (const auto& [form, slope] : {std::pair{SigmoidForm::kHardFifth, 0.2}, std::pair{SigmoidForm::kHardSixth, 1.0 / 6}}) {
    const double error = largest_error([form = form](int16_t z) { return sigmoid_of(form, z); },
                                       [slope = slope](double z) { return std::clamp(slope * z + 0.5, 0.0, 1.0); });
    EXPECT_LE(error, 1.001 / 32768) << slope;
  }
  EXPECT_EQ(sigmoid_of(SigmoidForm::kHardFifth, 4096), 16384 + 6554);
  EXPECT_EQ(sigmoid_of(SigmoidForm::kHardSixth, 4096), 16384 + 5461);
}

TEST(GateFunction, TangentsAreOddAndGatesAreGates) {
  for (int z = 1; z <= 32767; ++z)  // 0 lies in the middle of no step of the table
    for (const TanhForm form : {TanhForm::kPlan, TanhForm::kTable}) {
      const auto argument = static_cast<int16_t>(z);
      ASSERT_EQ(tanh_of(form, argument), -tanh_of(form, static_cast<int16_t>(-z)));
      ASSERT_LE(std::abs(tanh_of(form, argument)), 32767);
    }
  for (int z = -32768; z <= 32767; ++z)
    for (const SigmoidForm form : {SigmoidForm::kPlan, SigmoidForm::kTable, SigmoidForm::kHardFifth, SigmoidForm::kHardSixth}) {
      ASSERT_GE(sigmoid_of(form, static_cast<int16_t>(z)), 0);
      ASSERT_LE(sigmoid_of(form, static_cast<int16_t>(z)), 32767);
    }
}

TEST(GateFunction, OfALayer) {
  Recurrent cell;
  EXPECT_EQ(gate_forms_of(cell, TanhForm::kPlan), (GateForms{SigmoidForm::kPlan, TanhForm::kPlan}));
  EXPECT_EQ(gate_forms_of(cell, TanhForm::kTable), (GateForms{SigmoidForm::kTable, TanhForm::kTable}));
  cell.gate_activation = GateActivation::kHardSigmoid;
  EXPECT_EQ(gate_forms_of(cell, TanhForm::kPlan), (GateForms{SigmoidForm::kHardFifth, TanhForm::kPlan}));
  cell.gate_slope = 1.0 / 6;
  EXPECT_EQ(gate_forms_of(cell, TanhForm::kTable), (GateForms{SigmoidForm::kHardSixth, TanhForm::kTable}));
  cell.gate_slope = 0.25;
  EXPECT_THROW(gate_forms_of(cell, TanhForm::kPlan), Error);
}

}  // namespace millrace
