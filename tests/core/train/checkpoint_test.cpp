#include "core/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/core/train/checkpoint_samples.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::content_at;
using testing_support::TemporaryFolder;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const std::string& name : names_in(folder)) files[name] = read_text(folder / name);
  return files;
}

void flip_bit(const fs::path& path, size_t byte) {
  std::string text = read_text(path);
  ASSERT_LT(byte, text.size());
  text[byte] = static_cast<char>(text[byte] ^ 1);
  std::ofstream(path, std::ios::binary) << text;
}

template <typename Action>
std::string error_of(Action action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Checkpoint, ComesBackAsItWasWritten) {
  const TemporaryFolder run;
  const fs::path folder = write_checkpoint(run.path() / "checkpoints", content_at(1234), 3);
  EXPECT_EQ(folder, run.path() / "checkpoints" / "step-00001234");
  EXPECT_THAT(names_in(folder), ElementsAre("manifest.json", "model.textproto", "optimizer.safetensors", "previous_weights.safetensors",
                                            "weights.safetensors"));
  EXPECT_EQ(read_checkpoint(folder), content_at(1234));
  EXPECT_EQ(verify_checkpoint(folder).facts, content_at(1234).facts);
}

TEST(Checkpoint, WithoutSlotsOrPreviousWeightsComesBackToo) {
  const TemporaryFolder run;
  CheckpointContent content = content_at(7);
  content.previous_weights.clear();
  content.optimizer.clear();
  const fs::path folder = write_checkpoint(run.path(), content, 3);
  EXPECT_FALSE(fs::exists(folder / kPreviousWeightsName));
  EXPECT_EQ(read_checkpoint(folder), content);
}

TEST(Checkpoint, EqualTrainingsLeaveEqualBytes) {
  const TemporaryFolder a, b;
  EXPECT_EQ(files_of(write_checkpoint(a.path(), content_at(5), 1)), files_of(write_checkpoint(b.path() / "deeper", content_at(5), 3)));
}

TEST(Checkpoint, NamesGrowBeyondEightDigits) {
  EXPECT_EQ(checkpoint_name(0), "step-00000000");
  EXPECT_EQ(checkpoint_name(123456789012), "step-123456789012");
  const TemporaryFolder run;
  write_checkpoint(run.path(), content_at(99999999), 3);
  write_checkpoint(run.path(), content_at(100000000), 3);
  EXPECT_EQ(newest_complete_checkpoint(run.path()), run.path() / "step-100000000");
}

TEST(Checkpoint, EveryFlippedBitIsFoundAndItsFileNamed) {
  const TemporaryFolder run;
  const fs::path folder = write_checkpoint(run.path(), content_at(3, 4), 3);
  const auto files = files_of(folder);
  for (const auto& [name, content] : files) {
    for (size_t byte = 0; byte < content.size(); byte += 7) {
      flip_bit(folder / name, byte);
      try {
        read_checkpoint(folder);
        ADD_FAILURE() << name << " byte " << byte << " was read";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(name));
      }
      EXPECT_THROW(verify_checkpoint(folder), Error) << name << " byte " << byte;
      flip_bit(folder / name, byte);
    }
    EXPECT_EQ(read_checkpoint(folder), content_at(3, 4));
  }
}

TEST(Checkpoint, DamageNamesTheTensor) {
  const TemporaryFolder run;
  const fs::path folder = write_checkpoint(run.path(), content_at(3), 3);
  // conv1.weight comes last by name: the file's last byte is its.
  flip_bit(folder / kWeightsName, fs::file_size(folder / kWeightsName) - 1);
  EXPECT_THAT(error_of([&] { read_checkpoint(folder); }, ErrorCode::kMismatch),
              AllOf(HasSubstr("weights.safetensors: damaged in tensor conv1.weight:"), HasSubstr("use another checkpoint")));
  flip_bit(folder / kWeightsName, fs::file_size(folder / kWeightsName) - 1);
  flip_bit(folder / kOptimizerName, 20);
  EXPECT_THAT(error_of([&] { read_checkpoint(folder); }, ErrorCode::kMismatch), HasSubstr("optimizer.safetensors: damaged in its header"));
}

TEST(Checkpoint, MissingAndTruncatedFilesAreNamed) {
  const TemporaryFolder run;
  const fs::path folder = write_checkpoint(run.path(), content_at(3), 3);
  fs::resize_file(folder / kPreviousWeightsName, 10);
  EXPECT_THAT(error_of([&] { read_checkpoint(folder); }, ErrorCode::kMismatch),
              HasSubstr("previous_weights.safetensors: 10 bytes, the manifest states"));
  fs::remove(folder / kPreviousWeightsName);
  EXPECT_THAT(error_of([&] { verify_checkpoint(folder); }, ErrorCode::kNotFound), HasSubstr("previous_weights.safetensors"));
  fs::remove(folder / kManifestName);
  EXPECT_THAT(error_of([&] { read_checkpoint(folder); }, ErrorCode::kNotFound), HasSubstr("manifest.json"));
}

TEST(Checkpoint, OnlyTheLastOnesAreKept) {
  const TemporaryFolder run;
  for (const int64_t step : {1, 2, 3, 4}) write_checkpoint(run.path(), content_at(step), 2);
  EXPECT_THAT(names_in(run.path()), ElementsAre("step-00000003", "step-00000004"));
  for (const int64_t step : {5, 6, 7}) write_checkpoint(run.path(), content_at(step), 0);
  EXPECT_EQ(names_in(run.path()).size(), 5U);
  write_checkpoint(run.path(), content_at(8), 1);
  EXPECT_THAT(names_in(run.path()), ElementsAre("step-00000008"));
}

// Resumed from an older one because the newest was damaged: what was just written must never be the one to go.
TEST(Checkpoint, LaterStepsOfAnotherCourseNeitherCountNorGo) {
  const TemporaryFolder run;
  for (const int64_t step : {10, 20, 90}) write_checkpoint(run.path(), content_at(step), 3);
  ::testing::internal::CaptureStderr();
  write_checkpoint(run.path(), content_at(30), 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("step-00000090: is of a later step"));
  EXPECT_THAT(names_in(run.path()), ElementsAre("step-00000020", "step-00000030", "step-00000090"));
}

TEST(Checkpoint, OneOfTheSameStepIsReplaced) {
  const TemporaryFolder run;
  const fs::path folder = write_checkpoint(run.path(), content_at(5), 3);
  flip_bit(folder / kWeightsName, 0);
  CheckpointContent other = content_at(5);
  other.facts.seed = 9;
  EXPECT_EQ(write_checkpoint(run.path(), other, 3), folder);
  EXPECT_EQ(read_checkpoint(folder), other);
  EXPECT_THAT(names_in(run.path()), ElementsAre("step-00000005"));
}

TEST(Checkpoint, LeftoversAreNeverTakenAndGoAtTheNextWrite) {
  const TemporaryFolder run;
  fs::copy(write_checkpoint(run.path(), content_at(1), 3), run.path() / "step-00000009.partial");
  fs::create_directories(run.path() / "step-00000002.replaced");
  fs::create_directories(run.path() / "my-step-00000001.partial");
  fs::create_directories(run.path() / "step-7");
  EXPECT_EQ(newest_complete_checkpoint(run.path()), run.path() / "step-00000001");
  write_checkpoint(run.path(), content_at(2), 1);
  EXPECT_THAT(names_in(run.path()), ElementsAre("my-step-00000001.partial", "step-00000002", "step-7"));
}

TEST(NewestCheckpoint, PassesOverTheDamagedAloud) {
  const TemporaryFolder run;
  EXPECT_EQ(newest_complete_checkpoint(run.path() / "absent"), std::nullopt);
  EXPECT_EQ(newest_complete_checkpoint(run.path()), std::nullopt);
  for (const int64_t step : {1, 2, 3, 4}) write_checkpoint(run.path(), content_at(step), 0);
  flip_bit(run.path() / "step-00000004" / kWeightsName, 400);
  fs::remove(run.path() / "step-00000003" / kManifestName);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(newest_complete_checkpoint(run.path()), run.path() / "step-00000002");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("step-00000004 is passed over"), HasSubstr("weights.safetensors: damaged"),
                    HasSubstr("step-00000003 is passed over")));
}

TEST(NewestCheckpoint, ARenamedFolderIsNotWhatItSays) {
  const TemporaryFolder run;
  write_checkpoint(run.path(), content_at(1), 0);
  fs::rename(run.path() / "step-00000001", run.path() / "step-00000008");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(newest_complete_checkpoint(run.path()), std::nullopt);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the manifest states step 1; was the folder renamed?"));
}

TEST(LocateCheckpoint, TakesACheckpointARootOrARun) {
  const TemporaryFolder run;
  const fs::path newest = write_checkpoint(run.path() / "checkpoints", content_at(2), 0);
  const fs::path older = write_checkpoint(run.path() / "checkpoints", content_at(1), 0);
  EXPECT_EQ(locate_checkpoint(older), older);
  EXPECT_EQ(locate_checkpoint(run.path() / "checkpoints"), newest);
  EXPECT_EQ(locate_checkpoint(run.path()), newest);
  EXPECT_THAT(error_of([&] { locate_checkpoint(run.path() / "nowhere"); }, ErrorCode::kNotFound), HasSubstr("no complete checkpoint"));
}

// A training keeps one checkpoint, and makes the next while the last is read.
TEST(LoadCheckpoint, ReadsTheFolderOfATrainingThatGoesOn) {
  const TemporaryFolder run;
  write_checkpoint(run.path() / "checkpoints", content_at(1), 1);
  std::atomic<int64_t> written = 1;
  std::atomic<std::chrono::steady_clock::duration> pause{std::chrono::milliseconds(1)};  // whoever reads has to be faster now and then
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      write_checkpoint(run.path() / "checkpoints", content_at(written + 1), 1);
      ++written;
      std::this_thread::sleep_for(pause.load());
    }
  });
  int64_t newest = 0;
  for (int reads = 0; reads < 200 || written < 20; ++reads) {
    const auto begin = std::chrono::steady_clock::now();
    const CheckpointContent content = load_checkpoint(run.path());
    pause = std::min<std::chrono::steady_clock::duration>(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
    EXPECT_EQ(content, content_at(content.facts.step));
    EXPECT_GE(content.facts.step, newest);
    newest = content.facts.step;
  }
}

TEST(LoadWeights, ReadsCheckpointsRunsAndFiles) {
  const TemporaryFolder run;
  const CheckpointContent content = content_at(2);
  const fs::path folder = write_checkpoint(run.path() / "checkpoints", content, 0);
  save_safetensors(run.path() / "w.safetensors", {content.weights, {}});
  EXPECT_EQ(load_weights(folder), content.weights);
  EXPECT_EQ(load_weights(run.path()), content.weights);
  EXPECT_EQ(load_weights(run.path() / "w.safetensors"), content.weights);
  EXPECT_THAT(error_of([&] { load_weights(run.path() / "w.pt"); }, ErrorCode::kNotFound), HasSubstr("w.pt: no such file"));
  // Only the weights have to be whole.
  flip_bit(folder / kOptimizerName, 300);
  EXPECT_EQ(load_weights(folder), content.weights);
  flip_bit(folder / kWeightsName, 300);
  error_of([&] { load_weights(folder); }, ErrorCode::kMismatch);
}

}  // namespace
}  // namespace millrace
