// Every operation of the CPU device against the reference device in fp64, over random shapes and options.
#include <gtest/gtest.h>

#include "core/cpu/cpu_device.h"
#include "core/reference/reference_device.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace::testing {

namespace {

constexpr double kTolerance = 1e-5;

void expect_equal(const CaseResult& mine, const CaseResult& oracle) {
  EXPECT_LT(normwise_difference(mine.output, oracle.output), kTolerance) << "output";
  EXPECT_LT(normwise_difference(mine.output_error, oracle.output_error), kTolerance) << "output error";
  ASSERT_EQ(mine.input_errors.size(), oracle.input_errors.size());
  for (size_t i = 0; i < mine.input_errors.size(); ++i)
    EXPECT_LT(normwise_difference(mine.input_errors[i], oracle.input_errors[i]), kTolerance) << "error of input " << i;
  ASSERT_EQ(mine.gradients.size(), oracle.gradients.size());
  for (size_t i = 0; i < mine.gradients.size(); ++i)
    EXPECT_LT(normwise_difference(mine.gradients[i], oracle.gradients[i]), kTolerance) << "gradient " << i;
  ASSERT_EQ(mine.state.size(), oracle.state.size());
  for (size_t i = 0; i < mine.state.size(); ++i)
    EXPECT_LT(normwise_difference(mine.state[i], oracle.state[i]), kTolerance) << "state " << i;
  EXPECT_NEAR(mine.score.loss, oracle.score.loss, 1e-5 * (1 + std::abs(oracle.score.loss)));
  EXPECT_EQ(mine.score.correct, oracle.score.correct);
  EXPECT_EQ(mine.score.samples, oracle.score.samples);
}

void compare_all(const CaseLimits& limits, int threads) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  const auto device = make_cpu_device({.threads = threads});
  for (OperationCase c : operation_cases(limits)) {
    for (const bool training : {true, false}) {
      if (!training && std::holds_alternative<BatchNorm>(c.spec.operation)) continue;  // E and G belong to training
      // The error of a normalisation over a handful of values is what is left of a difference of equals.
      if (std::holds_alternative<BatchNorm>(c.spec.operation) && c.spec.micro_batch * c.spec.output.plane() < (c.short_samples ? 60 : 8))
        continue;
      c.training = training;
      SCOPED_TRACE(c.name + (training ? "" : ", evaluation"));
      const CaseData data = data_of(c);
      expect_equal(run_case(*device, c, data), run_case(*oracle, c, data));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace

TEST(CpuOperations, SmallShapesMatchTheReference) { compare_all({.per_kind = 60, .seed = 11}, 1); }

TEST(CpuOperations, ShapesAcrossBlocksOfChannelsMatchTheReference) {
  compare_all({.per_kind = 25, .most_channels = 40, .most_extent = 9, .most_batch = 4, .seed = 12}, 1);
}

TEST(CpuOperations, TwoThreadsMatchTheReference) {
  compare_all({.per_kind = 6, .most_channels = 35, .most_extent = 12, .most_batch = 5, .seed = 13}, 2);
}

}  // namespace millrace::testing
