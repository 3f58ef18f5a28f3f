#include "core/train/course.h"

#include <gtest/gtest.h>

#include "tests/core/train/tiny_runs.h"

namespace millrace {
namespace {

using testing_support::TemporaryFolder;
using testing_support::tiny_job;
using testing_support::tiny_model;

// 40 samples to train on: five updates of 8 make an epoch, two of 20, ten of 4.
class CourseTest : public testing::Test {
 protected:
  CourseTest() : job(tiny_job((folder_.path() / "model.textproto").string())) { save(tiny_model(), job.model); }

  Course from_the_beginning() const { return Course(prepare_task(job)); }
  // Goes on where `earlier` stands after `step` updates.
  Course resumed(const Course& earlier, int64_t step) const {
    CheckpointFacts facts;
    facts.step = step;
    facts.epoch = earlier.epochs_over(step);
    facts.samples_into_epoch = earlier.samples_into_epoch(step);
    return Course(prepare_task(job), facts);
  }
  void take_mini_batches(int64_t samples) { job.mini_batch = samples, job.micro_batch = 0; }

 private:
  TemporaryFolder folder_;

 protected:
  Job job;
};

TEST_F(CourseTest, CountsUpdatesAndEpochs) {
  const Course course = from_the_beginning();
  EXPECT_EQ(course.updates_per_epoch(), 5);
  EXPECT_EQ(course.total_updates(), 10);
  EXPECT_EQ(course.epoch_at(7), 1.4);
  EXPECT_EQ(course.epochs_over(7), 1);
  EXPECT_EQ(course.samples_into_epoch(7), 16);
  EXPECT_EQ(course.ahead(), 0);
  job.epochs = 0.5;
  EXPECT_EQ(from_the_beginning().total_updates(), 3);
}

// The mean of base and end is reached in the middle of what is trained, however that is said.
TEST_F(CourseTest, SchedulesSpanTheEpochsOrTheSteps) {
  job.learning_rate = {.kind = LearningRateKind::kCosine, .base = 0.1, .step_epochs = {}, .final_rate = 0.02};
  EXPECT_NEAR(from_the_beginning().learning_rate(5), 0.06, 1e-16);
  for (const int64_t steps : {4, 10, 600}) {
    job.steps = steps;
    const Course course = from_the_beginning();
    EXPECT_EQ(course.total_updates(), steps);
    EXPECT_EQ(course.learning_rate(0), 0.1);
    EXPECT_NEAR(course.learning_rate(steps / 2), 0.06, 1e-15) << steps;
    EXPECT_GT(course.learning_rate(steps - 1), 0.02) << steps;
    EXPECT_EQ(course.learning_rate(steps), 0.02);
  }
  job.time_limit_seconds = 1;  // interrupts, and changes nothing
  EXPECT_NEAR(from_the_beginning().learning_rate(300), 0.06, 1e-15);
}

TEST_F(CourseTest, ResumedWithoutAChangeGoesOn) {
  const Course before = from_the_beginning();
  for (const int64_t step : {0, 1, 4, 5, 9, 10}) {
    const Course after = resumed(before, step);
    EXPECT_EQ(after.ahead(), 0) << step;
    EXPECT_EQ(after.total_updates(), 10);
    EXPECT_EQ(after.epoch_at(step), before.epoch_at(step));
  }
}

TEST_F(CourseTest, KeepsEpochsAsSamplesSeenAcrossMiniBatches) {
  const Course of_8 = from_the_beginning();
  take_mini_batches(20);
  const Course of_20 = resumed(of_8, 5);  // one epoch is over
  EXPECT_EQ(of_20.epoch_at(5), 1);
  EXPECT_EQ(of_20.total_updates(), 7);  // 5 of 8 samples, 2 of 20
  EXPECT_EQ(of_20.epoch_at(7), 2);
  EXPECT_EQ(of_20.ahead(), -3);

  take_mini_batches(4);
  const Course of_4 = resumed(of_20, 6);  // in the middle of the second
  EXPECT_EQ(of_4.epoch_at(6), 1.5);
  EXPECT_EQ(of_4.updates_into_epoch(6), 5);
  EXPECT_EQ(of_4.total_updates(), 11);
  const Course again = resumed(of_4, 8);
  EXPECT_EQ(again.epoch_at(8), of_4.epoch_at(8));
  EXPECT_EQ(again.total_updates(), 11);
}

TEST_F(CourseTest, RoundsDownToWholeMiniBatchesSoThatNoSampleIsLeftOut) {
  const Course of_8 = from_the_beginning();
  take_mini_batches(20);
  const Course of_20 = resumed(of_8, 9);  // 32 samples into the second epoch
  EXPECT_EQ(of_20.samples_into_epoch(9), 20);
  EXPECT_EQ(of_20.total_updates(), 10);
  take_mini_batches(16);                  // 8 samples of an epoch are dropped
  const Course of_16 = resumed(of_8, 4);  // 32 samples: all that there are for 16
  EXPECT_EQ(of_16.epoch_at(4), 1);
  EXPECT_EQ(of_16.total_updates(), 6);
}

TEST_F(CourseTest, StepsCountAllUpdatesWhateverTheirSize) {
  const Course of_8 = from_the_beginning();
  take_mini_batches(20);
  job.steps = 9;
  job.learning_rate = {.kind = LearningRateKind::kPolynomial, .base = 1, .step_epochs = {}};
  const Course of_20 = resumed(of_8, 5);
  EXPECT_EQ(of_20.total_updates(), 9);
  EXPECT_NEAR(of_20.learning_rate(5), 1 - 1.0 / 3, 1e-15);  // epoch 1 of 3
  EXPECT_EQ(of_20.learning_rate(9), 0);
}

TEST_F(CourseTest, ReplicasShareTheMiniBatch) {
  const Course alone = from_the_beginning();
  job.replicas = 2;
  const Course shared = resumed(alone, 5);
  EXPECT_EQ(shared.updates_per_epoch(), alone.updates_per_epoch());
  EXPECT_EQ(shared.total_updates(), alone.total_updates());
  take_mini_batches(16);
  const Course together = resumed(alone, 5);
  EXPECT_EQ(together.updates_per_epoch(), 2);
  EXPECT_EQ(together.epoch_at(5), 1);
  EXPECT_EQ(together.total_updates(), 7);
}

}  // namespace
}  // namespace millrace
