#include "core/train/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace {
namespace {

TEST(LearningRate, ConstantStaysAtItsBase) {
  const LearningRate schedule{.base = 0.05, .step_epochs = {}};
  for (const double epoch : {0.0, 0.3, 9.9, 10.0, 100.0}) EXPECT_EQ(learning_rate_at(schedule, epoch, 10), 0.05);
}

TEST(LearningRate, StepMultipliesAtEachStepAndNotBefore) {
  const LearningRate schedule{.kind = LearningRateKind::kStep, .base = 0.8, .step_epochs = {30, 60}, .factor = 0.5};
  EXPECT_EQ(learning_rate_at(schedule, 0, 90), 0.8);
  EXPECT_EQ(learning_rate_at(schedule, 29.999, 90), 0.8);
  EXPECT_EQ(learning_rate_at(schedule, 30, 90), 0.4);
  EXPECT_EQ(learning_rate_at(schedule, 59.999, 90), 0.4);
  EXPECT_EQ(learning_rate_at(schedule, 60, 90), 0.2);
  EXPECT_EQ(learning_rate_at(schedule, 200, 90), 0.2);
}

TEST(LearningRate, StepsMayComeInAnyOrderAndNoneMeansConstant) {
  const LearningRate unordered{.kind = LearningRateKind::kStep, .base = 1, .step_epochs = {6, 3}, .factor = 0.1};
  EXPECT_EQ(learning_rate_at(unordered, 2, 9), 1);
  EXPECT_NEAR(learning_rate_at(unordered, 4, 9), 0.1, 1e-16);
  EXPECT_NEAR(learning_rate_at(unordered, 7, 9), 0.01, 1e-17);
  const LearningRate none{.kind = LearningRateKind::kStep, .base = 0.25, .step_epochs = {}};
  EXPECT_EQ(learning_rate_at(none, 5, 9), 0.25);
}

// cos(pi/3) = 1/2: a third of the way gives final + (base - final) * 3/4; half the way the mean.
TEST(LearningRate, CosineFallsFromBaseToFinal) {
  const LearningRate schedule{.kind = LearningRateKind::kCosine, .base = 0.1, .step_epochs = {}, .final_rate = 0.02};
  EXPECT_EQ(learning_rate_at(schedule, 0, 12), 0.1);
  EXPECT_NEAR(learning_rate_at(schedule, 4, 12), 0.02 + 0.08 * 0.75, 1e-16);
  EXPECT_NEAR(learning_rate_at(schedule, 6, 12), 0.06, 1e-16);
  EXPECT_NEAR(learning_rate_at(schedule, 8, 12), 0.02 + 0.08 * 0.25, 1e-16);
  EXPECT_EQ(learning_rate_at(schedule, 12, 12), 0.02);
  EXPECT_EQ(learning_rate_at(schedule, 13, 12), 0.02);
}

TEST(LearningRate, PolynomialFollowsItsPower) {
  LearningRate schedule{.kind = LearningRateKind::kPolynomial, .base = 1.0, .step_epochs = {}, .final_rate = 0.5, .power = 1};
  EXPECT_EQ(learning_rate_at(schedule, 2, 8), 0.875);
  schedule.power = 2;
  EXPECT_EQ(learning_rate_at(schedule, 0, 8), 1.0);
  EXPECT_EQ(learning_rate_at(schedule, 4, 8), 0.625);
  EXPECT_EQ(learning_rate_at(schedule, 8, 8), 0.5);
  schedule.power = 0.5;
  EXPECT_NEAR(learning_rate_at(schedule, 6, 8), 0.75, 1e-15);
}

TEST(LearningRate, WarmUpRisesFromZeroAndJoinsTheSchedule) {
  const LearningRate cosine{.kind = LearningRateKind::kCosine, .base = 0.4, .warmup_epochs = 2, .step_epochs = {}, .final_rate = 0};
  EXPECT_EQ(learning_rate_at(cosine, 0, 10), 0);
  EXPECT_EQ(learning_rate_at(cosine, 0.5, 10), 0.1);
  EXPECT_EQ(learning_rate_at(cosine, 1, 10), 0.2);
  EXPECT_EQ(learning_rate_at(cosine, 2, 10), 0.4);
  // The fall takes the eight epochs that are left: half of it is done at epoch 6.
  EXPECT_NEAR(learning_rate_at(cosine, 6, 10), 0.2, 1e-16);
  EXPECT_EQ(learning_rate_at(cosine, 10, 10), 0);

  const LearningRate step{.kind = LearningRateKind::kStep, .base = 1, .warmup_epochs = 4, .step_epochs = {2}, .factor = 0.5};
  EXPECT_EQ(learning_rate_at(step, 1, 10), 0.25);
  EXPECT_EQ(learning_rate_at(step, 2, 10), 0.25);
  EXPECT_EQ(learning_rate_at(step, 4, 10), 0.5);
}

TEST(LearningRate, WarmUpAsLongAsTheTrainingAndTrainingsOfNoLengthHaveARate) {
  const LearningRate schedule{.kind = LearningRateKind::kPolynomial, .base = 1, .warmup_epochs = 5, .step_epochs = {}, .final_rate = 0.25};
  EXPECT_EQ(learning_rate_at(schedule, 2.5, 5), 0.5);
  EXPECT_EQ(learning_rate_at(schedule, 5, 5), 1);
  EXPECT_EQ(learning_rate_at(schedule, 5.5, 5), 0.25);
  EXPECT_EQ(learning_rate_at(schedule, 2.5, 3), 0.5);
  const LearningRate cosine{.kind = LearningRateKind::kCosine, .base = 1, .step_epochs = {}, .final_rate = 0.25};
  EXPECT_EQ(learning_rate_at(cosine, 0, 0), 1);
  EXPECT_EQ(learning_rate_at(cosine, 1, 0), 0.25);
}

TEST(LearningRate, DecayingSchedulesNeverRise) {
  for (const auto kind : {LearningRateKind::kConstant, LearningRateKind::kStep, LearningRateKind::kCosine, LearningRateKind::kPolynomial}) {
    const LearningRate schedule{.kind = kind, .base = 0.3, .warmup_epochs = 1, .step_epochs = {3, 7}, .final_rate = 0.01, .power = 2};
    double before = learning_rate_at(schedule, 1, 10);
    for (int i = 1; i <= 1000; ++i) {
      const double rate = learning_rate_at(schedule, 1 + i * 0.01, 10);
      ASSERT_LE(rate, before) << i;
      ASSERT_GT(rate, 0);
      before = rate;
    }
  }
}

}  // namespace
}  // namespace millrace
