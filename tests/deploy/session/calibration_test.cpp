// Formats of a training: the same however its ring is cut, finer errors for more replicas, nothing asked of floating point.
#include "deploy/session/calibration.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "deploy/session/ring_devices.h"
#include "transport/local/local_wire.h"
#include "transport/streams/agreement.h"

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

// Wherever they stand in the ring.
TEST(Calibration, FormatsAreThoseOfSixteenBits) {
  for (const char* cluster : {"emulated-fpga", "cpu+emulated-fpga", "emulated-fpga-fp32+emulated-fpga-tables"})
    EXPECT_TRUE(some_have_formats(task_on(cluster).plan, {})) << cluster;
  for (const char* cluster : {"cpux2", "cpu+emulated-fpga-fp32"}) EXPECT_FALSE(some_have_formats(task_on(cluster).plan, {})) << cluster;
}

// What has none opens a ring whose boards get theirs; where nobody has any, they cannot be asked for.
TEST(Calibration, OfARingThatBeginsInFloatingPoint) {
  const auto chosen = [](const std::string& cluster) {
    const TrainingTask task = task_on(cluster);
    Transport transport(make_loopback_wire(0, 1));
    Agreement agreement(transport);
    FixedPointRun run(task, {.calibrate = kUpdates});
    run.choose_formats(agreement, some_have_formats(task.plan, {}), false);
    auto board = run.prepared(open_ring_device(task.plan, 1, {}));
    return run.formats();
  };
  EXPECT_EQ(chosen("cpu+emulated-fpga"), calibrated_formats(task_on("emulated-fpga"), kUpdates));
  try {
    chosen("cpu+emulated-fpga-fp32");
    FAIL() << "nobody has formats";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
  }
}

TEST(Calibration, SaysNothingOfFloatingPoint) {
  const TrainingTask task = task_on("cpu");
  FixedPointRun run(task, {});
  auto device = run.prepared(open_ring_device(task.plan, 0, {}));
  EXPECT_EQ(run.report(), "");
  EXPECT_EQ(run.finish({run.report()}), "");
}

}  // namespace millrace
