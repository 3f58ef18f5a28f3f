// Formats of a training: the same however its ring is cut, finer errors for more replicas, nothing asked of floating point.
#include "deploy/session/calibration.h"

#include <gtest/gtest.h>

#include "deploy/session/ring_devices.h"

namespace millrace {
namespace {

constexpr int64_t kUpdates = 2;

TrainingTask task_on(const std::string& cluster) {
  Job job;
  job.model = "digits-cnn";
  job.data = "digits";
  job.cluster = cluster;
  job.micro_batch = 8;
  return prepare_task(job, plan_for_job);
}

}  // namespace

TEST(Calibration, DoesNotDependOnTheRing) {
  const LayerFormats alone = calibrated_formats(task_on("emulated-fpga"), kUpdates);
  for (const char* layer : {"conv1", "conv2", "fc1", "fc2"}) EXPECT_TRUE(alone.contains(layer)) << layer;
  EXPECT_EQ(calibrated_formats(task_on("emulated-fpga"), kUpdates), alone);
  EXPECT_EQ(calibrated_formats(task_on("emulated-fpgax3"), kUpdates), alone);
}

TEST(Calibration, ReplicasMakeSmallerErrors) {
  TrainingTask task = task_on("emulated-fpga");
  const LayerFormats alone = calibrated_formats(task, kUpdates);
  task.job.replicas = 4;
  const LayerFormats shared = calibrated_formats(task, kUpdates);
  EXPECT_EQ(shared.at("conv1").sum, alone.at("conv1").sum);
  EXPECT_EQ(shared.at("fc1").error.fraction_bits, alone.at("fc1").error.fraction_bits + 2);
}

TEST(Calibration, SaysNothingOfFloatingPoint) {
  const TrainingTask task = task_on("cpu");
  FixedPointRun run(task, {});
  auto device = run.prepared(open_ring_device(task.plan, 0, {}));
  EXPECT_EQ(run.report(), "");
  EXPECT_EQ(run.finish({run.report()}), "");
}

}  // namespace millrace
