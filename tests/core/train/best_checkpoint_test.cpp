// The best checkpoint of a run, also of one that is killed while it writes.
#include "core/train/best_checkpoint.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <stdexcept>

#include "tests/core/train/checkpoint_samples.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace {
namespace {

using testing_support::content_at;
using testing_support::TemporaryFolder;

// Falls as training goes on.
double loss_at(int64_t step) { return 1.0 / static_cast<double>(step); }

void keep(const std::filesystem::path& root, int64_t step) {
  CheckpointContent content = content_at(step, 5000);
  mark_best(content, EvaluationMetric::kLoss, loss_at(step));
  keep_best_checkpoint(root, content);
}

TEST(BestCheckpoint, IsAloneAndKnowsWhatItIsBestIn) {
  const TemporaryFolder folder;
  EXPECT_FALSE(best_kept(folder.path() / "best", EvaluationMetric::kLoss));
  for (int64_t step = 1; step <= 3; ++step) keep(folder.path(), step);
  EXPECT_EQ(locate_checkpoint(folder.path()).filename(), checkpoint_name(3));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(best_kept(folder.path(), EvaluationMetric::kLoss), loss_at(3));
  EXPECT_FALSE(best_kept(folder.path(), EvaluationMetric::kAccuracy));
}

// Whatever was reported as kept is there afterwards, or something better, whole.
TEST(BestCheckpoint, SurvivesAKillAtAnyMoment) {
  std::mt19937_64 random(3);
  const TemporaryFolder folder;
  int64_t step = 1, kept = 0, both = 0;
  for (int round = 0; round < 25; ++round) {
    int reports[2];
    ASSERT_EQ(::pipe(reports), 0);
    const pid_t writer = ::fork();
    if (writer == 0) {
      ::close(reports[0]);
      try {
        for (int64_t next = step;; ++next) {
          keep(folder.path(), next);
          if (::write(reports[1], &next, sizeof next) != sizeof next) break;
        }
      } catch (...) {
      }
      ::_exit(0);
    }
    ::close(reports[1]);
    ASSERT_EQ(::read(reports[0], &kept, sizeof kept), static_cast<ssize_t>(sizeof kept));
    ::usleep(static_cast<useconds_t>(random() % 20000));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    for (int64_t more = 0; ::read(reports[0], &more, sizeof more) == static_cast<ssize_t>(sizeof more);) kept = more;
    ::close(reports[0]);

    const std::optional<double> best = best_kept(folder.path(), EvaluationMetric::kLoss);
    ASSERT_TRUE(best) << "after step " << kept;
    EXPECT_LE(*best, loss_at(kept));
    const CheckpointContent content = read_checkpoint(locate_checkpoint(folder.path()));
    EXPECT_EQ(loss_at(content.facts.step), *best) << "the newest whole one is the best";
    EXPECT_EQ(content.weights, content_at(content.facts.step, 5000).weights);
    both += std::distance(std::filesystem::directory_iterator(folder.path()), {}) > 1 ? 1 : 0;
    step = content.facts.step + 1;
  }
  EXPECT_GT(both, 0) << "no kill fell into a write: the test has lost its point";
}

}  // namespace
}  // namespace millrace
