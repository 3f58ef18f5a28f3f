#include "core/base/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::TemporaryFolder;

constexpr FolderLock::Means kMeans[] = {FolderLock::Means::kSystem, FolderLock::Means::kFileAlone};

// Another process that holds the lock from the constructor on, until it is killed or let go.
class OtherProcess {
 public:
  OtherProcess(const std::filesystem::path& folder, FolderLock::Means means) {
    int ready[2], go[2];
    if (::pipe(ready) != 0 || ::pipe(go) != 0) throw std::runtime_error("no pipes");
    process_ = ::fork();
    if (process_ == 0) {
      ::close(go[1]);
      char byte = 'y';
      try {
        const FolderLock lock(folder, "a training", means);
        (void)!::write(ready[1], &byte, 1);
        (void)!::read(go[0], &byte, 1);
      } catch (...) {
      }
      ::_exit(0);
    }
    ::close(go[0]);
    ::close(ready[1]);
    go_ = go[1];
    char byte = 'n';
    holds = ::read(ready[0], &byte, 1) == 1 && byte == 'y';
    ::close(ready[0]);
  }
  ~OtherProcess() { end(); }
  void kill() {
    ::kill(process_, SIGKILL);
    end();
  }
  // It destroys its lock.
  void end() {
    if (process_ <= 0) return;
    ::close(go_);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  pid_t process() const { return process_; }
  bool holds = false;

 private:
  pid_t process_ = 0;
  int go_ = -1;
};

std::string refusal(const std::filesystem::path& folder, FolderLock::Means means) {
  try {
    const FolderLock lock(folder, "a training", means);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    return error.what();
  }
  return "";
}

TEST(FolderLock, KeepsOthersAwayAndNamesTheHolder) {
  for (const FolderLock::Means means : kMeans) {
    const TemporaryFolder folder;
    OtherProcess other(folder.path(), means);
    ASSERT_TRUE(other.holds);
    EXPECT_THAT(refusal(folder.path(), means),
                AllOf(HasSubstr("a training is under way there, by process " + std::to_string(other.process()) + " on host "),
                      HasSubstr(" UTC; wait for its end")));
    EXPECT_NE(refusal(folder.path(), means), "") << "asking must not take it away";
    other.end();
    EXPECT_EQ(refusal(folder.path(), means), "");
    EXPECT_FALSE(std::filesystem::exists(folder.path() / kLockName));
  }
}

// As through two mounts of one folder whose locks do not know of each other: the second one's is free, and the first one is alive.
TEST(FolderLock, IsNotTakenFromTheLivingWhereLocksDoNotReach) {
  const TemporaryFolder folder;
  OtherProcess other(folder.path(), FolderLock::Means::kFileAlone);
  ASSERT_TRUE(other.holds);
  EXPECT_THAT(refusal(folder.path(), FolderLock::Means::kSystem),
              HasSubstr("a training is under way there, by process " + std::to_string(other.process())));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / kLockName)) << "it is still the other one's";
  other.end();
  EXPECT_EQ(refusal(folder.path(), FolderLock::Means::kSystem), "");
}

TEST(FolderLock, TakesOverFromAProcessThatWasKilled) {
  for (const FolderLock::Means means : kMeans) {
    const TemporaryFolder folder;
    OtherProcess other(folder.path(), means);
    ASSERT_TRUE(other.holds);
    other.kill();
    ASSERT_TRUE(std::filesystem::exists(folder.path() / kLockName));
    testing::internal::CaptureStderr();
    EXPECT_EQ(refusal(folder.path(), means), "");
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("which has ended; taken over"));
  }
}

// The number of a dead holder belongs to another process by now.
TEST(FolderLock, IsNotFooledByANumberGivenAnew) {
  const TemporaryFolder folder;
  std::string text;
  {
    const FolderLock lock(folder.path(), "a training");
    text = read_text(folder.path() / kLockName);
  }
  const size_t born = text.find("born ");
  ASSERT_NE(born, std::string::npos);
  write_atomically(folder.path() / kLockName, text);
  EXPECT_NE(refusal(folder.path(), FolderLock::Means::kFileAlone), "") << "this very process seems to hold it";
  write_atomically(folder.path() / kLockName, text.substr(0, born) + "born 1\n");
  EXPECT_EQ(refusal(folder.path(), FolderLock::Means::kFileAlone), "");
}

TEST(FolderLock, OfAnotherHostIsTakenOverWithAWarningOrBelieved) {
  const TemporaryFolder folder;
  const std::string text = "doing a training\nprocess 12\nhost n3\nsince 2026-03-01 12:00:05 UTC\nmachine of another boot\nborn 5\n";
  write_atomically(folder.path() / kLockName, text);
  EXPECT_THAT(
      refusal(folder.path(), FolderLock::Means::kFileAlone),
      AllOf(HasSubstr("by process 12 on host n3 since 2026-03-01 12:00:05 UTC"), HasSubstr("if you know that it does not, remove ")));
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal(folder.path(), FolderLock::Means::kSystem), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("left locked by process 12 on host n3"), HasSubstr("local_lock")));
}

// As a launcher that is killed leaves it to the ranks it started.
TEST(FolderLock, StaysWithWhatItsHolderStarted) {
  const TemporaryFolder folder;
  int ready[2], go[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::close(go[1]);
    new FolderLock(folder.path(), "a launch", FolderLock::Means::kSystem, "launch.lock");  // never destroyed
    char byte = 'y';
    if (::fork() == 0) {
      (void)!::read(go[0], &byte, 1);
      ::_exit(0);
    }
    (void)!::write(ready[1], &byte, 1);
    ::pause();
  }
  ::close(go[0]);
  ::close(ready[1]);
  char byte = 'n';
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto refused = [&] {
    try {
      const FolderLock lock(folder.path(), "a launch", FolderLock::Means::kSystem, "launch.lock");
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::kUnavailable;
    }
  };
  EXPECT_TRUE(refused());
  EXPECT_FALSE(holder_has_ended(folder.path(), "launch.lock"));
  ::kill(holder, SIGKILL);
  siginfo_t end{};
  ::waitid(P_PID, static_cast<id_t>(holder), &end, WEXITED | WNOWAIT);
  EXPECT_TRUE(holder_has_ended(folder.path(), "launch.lock")) << "though nobody has waited for it yet";
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(refused());
  EXPECT_TRUE(holder_has_ended(folder.path(), "launch.lock"));
  ::close(go[1]);
  ::close(ready[0]);
  for (int tries = 0; tries < 3000 && refused(); ++tries) ::usleep(10'000);
  EXPECT_FALSE(refused());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "launch.lock"));
}

TEST(FolderLock, RemovesWhatItMadeAndNobodyUsed) {
  const TemporaryFolder folder;
  {
    const FolderLock lock(folder.path() / "runs" / "a", "a training");
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "runs" / "a" / kLockName));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "runs"));
  EXPECT_TRUE(std::filesystem::exists(folder.path()));
  {
    const FolderLock lock(folder.path() / "runs" / "a", "a training");
    write_atomically(folder.path() / "runs" / "a" / "job.textproto", std::string_view("x"));
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "runs" / "a" / "job.textproto"));
}

}  // namespace
}  // namespace millrace
