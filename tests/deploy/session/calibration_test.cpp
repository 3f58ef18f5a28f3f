// Formats of a training: the same however its ring is cut, finer errors for more replicas, nothing asked of floating point.
#include "deploy/session/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/train/checkpoint_manifest.h"
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
  const LayerFormats alone = calibrated_formats(task_on("emulated-fpga"), kUpdates).value();
  for (const char* layer : {"conv1", "conv2", "fc1", "fc2"}) EXPECT_TRUE(alone.contains(layer)) << layer;
  EXPECT_EQ(calibrated_formats(task_on("emulated-fpga"), kUpdates), alone);
  EXPECT_EQ(calibrated_formats(task_on("emulated-fpgax3"), kUpdates), alone);
}

TEST(Calibration, ReplicasMakeSmallerErrors) {
  TrainingTask task = task_on("emulated-fpga");
  const LayerFormats alone = calibrated_formats(task, kUpdates).value();
  task.job.replicas = 4;
  const LayerFormats shared = calibrated_formats(task, kUpdates).value();
  EXPECT_EQ(shared.at("conv1").sum, alone.at("conv1").sum);
  EXPECT_EQ(shared.at("fc1").error.fraction_bits, alone.at("fc1").error.fraction_bits + 2);
}

// Its updates are smaller, so an epoch of warm-up has more of them than the job's steps.
TEST(Calibration, TakesWarmUpOfReplicas) {
  TrainingTask task = task_on("emulated-fpga");
  task.job.replicas = 4;
  task.job.steps = task.updates_per_epoch();
  task.job.learning_rate.warmup_epochs = 1;
  EXPECT_TRUE(calibrated_formats(task, kUpdates));
}

TEST(Calibration, EndsWhereTrainingWould) {
  TrainingTask task = task_on("emulated-fpga");
  const std::atomic<bool> stop = true;
  EXPECT_FALSE(calibrated_formats(task, 1'000'000, {.stop = &stop}));
  task.job.time_limit_seconds = 3600;
  EXPECT_TRUE(calibrated_formats(task, kUpdates));
  EXPECT_FALSE(calibrated_formats(task, 1'000'000, {.begun = std::chrono::steady_clock::now() - std::chrono::hours(2)}));
}

// A resumed run computes in the formats it began with, or not at all.
TEST(Calibration, OfARunThatGoesOnIsKeptOrMissed) {
  namespace fs = std::filesystem;
  TrainingTask task = task_on("emulated-fpga");
  const fs::path out = fs::path(testing::TempDir()) / "millrace_formats_of_run";
  fs::remove_all(out);
  task.job.out = out.string();
  const auto chosen = [&](FixedPointRequest request, bool wanted = true) {
    Transport transport(make_loopback_wire(0, 1));
    Agreement agreement(transport);
    FixedPointRun run(task, std::move(request));
    EXPECT_TRUE(run.choose_formats(agreement, wanted, /*speaks=*/true));
    return run.described_formats();
  };
  const auto message = [&] {
    try {
      chosen({.resumed = true});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMismatch);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string formats = chosen({.calibrate = kUpdates});
  EXPECT_THAT(formats, testing::StartsWith("9 layers, "));
  write_atomically(out / "job.textproto", text_of(task.job));
  write_atomically(out / "fingerprint.json", "{\"formats\": \"" + formats + "\"}");
  EXPECT_EQ(chosen({.resumed = true}), formats);
  const std::string text = read_text(out / "formats.txt");
  write_atomically(out / "formats.txt", text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  EXPECT_THAT(message(),
              testing::AllOf(testing::HasSubstr("formats.txt: holds others (8 layers"), testing::HasSubstr("put that file back")));
  write_atomically(out / "formats.txt", std::string_view());
  EXPECT_THAT(message(), testing::HasSubstr("formats.txt: holds no formats"));
  fs::remove(out / "formats.txt");
  EXPECT_THAT(message(), testing::HasSubstr("formats.txt: holds no formats"));
  EXPECT_EQ(chosen({.resumed = true}, /*wanted=*/false), "");  // of floating point none are missed
  // With a checkpoint that says it, the fingerprint may be gone.
  fs::remove(out / "fingerprint.json");
  EXPECT_EQ(message(), "");
  make_folders(out / "checkpoints" / "step-00000001");
  write_atomically(out / "checkpoints" / "step-00000001" / kManifestName, "{\"attributes\": {\"formats\": \"" + formats + "\"}}");
  EXPECT_THAT(message(), testing::HasSubstr("formats.txt: holds no formats"));
  write_atomically(out / "formats.txt", std::string(text).replace(text.find("conv1"), 5, "conv9"));
  EXPECT_THAT(message(), testing::HasSubstr("formats.txt: model \"digits-cnn\" has no layer \"conv9\""));
  fs::remove_all(out);
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
    EXPECT_TRUE(run.choose_formats(agreement, some_have_formats(task.plan, {}), false));
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
