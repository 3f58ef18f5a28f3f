// A training that measures its actions, and one that keeps to given durations.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/train/weights_digest.h"
#include "tests/node/ring/tiny_run.h"

namespace millrace {
namespace {

using namespace testing_support;

TEST(Pace, MeasuredTimesCoverEveryActionAfterTheFirstMiniBatch) {
  const TemporaryFolder folder;
  TinyRun run;
  run.job.epochs = 1;
  run.train({.times = folder.path() / "times.json"});
  const TrainingTask task = prepare_task(run.job);
  const ActionTimes times = load_action_times(folder.path() / "times.json", task.plan);
  ASSERT_EQ(times.devices.size(), 1U);
  EXPECT_EQ(times.devices[0].update.count, 4);  // of five updates of two micro-batches
  for (const ActionTime* time : {&times.devices[0].forward, &times.devices[0].error_back, &times.devices[0].parameter_gradient}) {
    EXPECT_EQ(time->count, 8);
    EXPECT_GT(time->seconds, 0);
  }
}

TEST(Pace, IsKeptToAndChangesNoWeight) {
  const TemporaryFolder folder;
  TinyRun free;
  free.job.epochs = 1;
  free.train({.times = folder.path() / "times.json"});
  const TrainingTask task = prepare_task(free.job);
  ActionTimes pace = load_action_times(folder.path() / "times.json", task.plan);
  pace.devices[0].forward.seconds = 0.004;
  pace.devices[0].error_back.seconds = 0.006;
  pace.devices[0].parameter_gradient.seconds = 0.002;
  pace.devices[0].update.seconds = 0.010;
  save(pace, folder.path() / "pace.json");
  TinyRun paced;
  paced.job.epochs = 1;
  const TrainingOutcome outcome = paced.train({.times = folder.path() / "again.json", .pace = folder.path() / "pace.json"});
  EXPECT_EQ(weights_digest(paced.weights()), weights_digest(free.weights()));
  EXPECT_GE(outcome.seconds, 10 * (0.004 + 0.006 + 0.002) + 5 * 0.010);
  const ActionTimes measured = load_action_times(folder.path() / "again.json", prepare_task(paced.job).plan);
  EXPECT_GE(measured.devices[0].forward.seconds, 0.004);
  EXPECT_GE(measured.devices[0].error_back.seconds, 0.006);
  EXPECT_GE(measured.devices[0].parameter_gradient.seconds, 0.002);
  EXPECT_GE(measured.devices[0].update.seconds, 0.010);
}

TEST(Pace, OfAnotherPlanIsRefused) {
  const TemporaryFolder folder;
  TinyRun run;
  run.job.epochs = 1;
  run.train({.times = folder.path() / "times.json"});
  TinyRun other;
  other.job.mini_batch = 4;
  EXPECT_THROW(other.train({.pace = folder.path() / "times.json"}), Error);
}

}  // namespace
}  // namespace millrace
