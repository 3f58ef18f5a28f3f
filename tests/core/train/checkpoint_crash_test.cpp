// A process that writes checkpoints in a loop is killed at random moments, again and again: whatever moment it was, the
// newest checkpoint is whole, and none that was ever reported complete is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/train/checkpoint.h"
#include "tests/core/train/checkpoint_samples.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace {
namespace {

using testing_support::content_at;
using testing_support::TemporaryFolder;

constexpr int64_t kElements = 20000;  // files of some 80 KB: writes take long enough to be hit
constexpr int64_t kKeep = 2;
constexpr int kKills = 20;

// The child: reports each step once its checkpoint is complete. Every second one is written twice, so that the
// replacement of a checkpoint is hit too.
[[noreturn]] void write_until_killed(const std::filesystem::path& root, int64_t first_step, int report) {
  log::set_level(log::Level::kOff);
  try {
    for (int64_t step = first_step;; ++step) {
      const CheckpointContent content = content_at(step, kElements);
      write_checkpoint(root, content, kKeep);
      if (::write(report, &step, sizeof(step)) != sizeof(step)) ::_exit(2);
      if (step % 2 == 0) write_checkpoint(root, content, kKeep);
    }
  } catch (const std::exception&) {
    ::_exit(3);
  }
}

int64_t last_reported(int report, int64_t before) {
  int64_t step = before;
  while (::read(report, &step, sizeof(step)) == sizeof(step)) {
  }
  return step;
}

bool has_leftover(const std::filesystem::path& root) {
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (entry.path().extension() == ".partial") return true;
  return false;
}

TEST(CheckpointCrash, TheNewestCheckpointIsAlwaysWhole) {
  const TemporaryFolder run;
  const Philox draw(2024, stream_id("crash test"));
  int64_t completed = 0;
  int leftovers = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    int report[2];
    ASSERT_EQ(::pipe(report), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(run.path(), completed + 1, report[1]);
    ::close(report[1]);
    // After the child's first report, so that every round gets somewhere; then at any moment of the next few writes.
    int64_t first = 0;
    ASSERT_EQ(::read(report[0], &first, sizeof(first)), static_cast<ssize_t>(sizeof(first)));
    ::usleep(static_cast<useconds_t>(draw.below(static_cast<uint64_t>(kill), 20000)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself with status " << WEXITSTATUS(status);
    completed = last_reported(report[0], first);
    ::close(report[0]);

    leftovers += has_leftover(run.path()) ? 1 : 0;
    ::testing::internal::CaptureStderr();
    const auto newest = newest_complete_checkpoint(run.path());
    // Nothing that carries a checkpoint's name was passed over.
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    ASSERT_TRUE(newest.has_value());
    const CheckpointContent content = read_checkpoint(*newest);
    EXPECT_EQ(content, content_at(content.facts.step, kElements));
    // The one after the last report may have been completed without its report.
    EXPECT_GE(content.facts.step, completed);
    EXPECT_LE(content.facts.step, completed + 1);
    completed = content.facts.step;
  }
  // Else the kills never hit a write and the test showed nothing.
  EXPECT_GT(leftovers, 0);
  write_checkpoint(run.path(), content_at(completed + 1, kElements), kKeep);
  EXPECT_FALSE(has_leftover(run.path()));
}

}  // namespace
}  // namespace millrace
