// Disks that are full: one message, an end of the training, and what was saved stays and goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <functional>
#include <utility>

#include "core/base/files.h"
#include "core/train/weights_digest.h"
#include "tests/node/ring/tiny_run.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::TinyRun;

// Files must not grow beyond `bytes` until it is destroyed: what writing beyond meets is an error, as on a full disk.
class FileLimit {
 public:
  FileLimit() {
    previous_handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, previous_handler_);
  }
  void set(uintmax_t bytes) {
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }

 private:
  rlimit before_{};
  void (*previous_handler_)(int) = nullptr;
};

// Calls `act` when the first record of an event at this step, or beyond, was written.
class ActAt : public MetricsSink {
 public:
  ActAt(std::string event, int64_t step, std::function<void()> act) : event_(std::move(event)), step_(step), act_(std::move(act)) {}
  void write(const MetricsRecord& record) override {
    if (record.event != event_ || !act_) return;
    for (const auto& [name, value] : record.values)
      if (name == "step" && std::get<int64_t>(value.content) >= step_) std::exchange(act_, nullptr)();
  }

 private:
  std::string event_;
  int64_t step_;
  std::function<void()> act_;
};

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    return error.what();
  }
  return "nothing failed";
}

TEST(TrainerFullDisk, ACheckpointThatDoesNotFitLeavesTheOnesBefore) {
  TinyRun whole, run;
  for (TinyRun* each : {&whole, &run}) {
    each->job.checkpoint_every = 2;
    each->job.evaluate_every_epochs = 0;
  }
  const std::string expected = whole.train({.log_every = 100}).weights_digest;
  {
    FileLimit limit;
    ActAt full("checkpoint", 2, [&limit] { limit.set(700); });  // room for lines of metrics, not for weights
    EXPECT_THAT(message_of([&] { run.train({.sinks = {&full}, .log_every = 100}); }),
                AllOf(HasSubstr("/checkpoints/step-0000000"), HasSubstr("cannot write: File too large"),
                      HasSubstr("The checkpoint of step 2 is intact")));
  }
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(run.job.out) / "checkpoints"))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, ElementsAre("step-00000002"));
  EXPECT_EQ(run.train({.resume = run.job.out, .log_every = 100}).weights_digest, expected);
}

TEST(TrainerFullDisk, ALineOfMetricsThatDoesNotFitLeavesWholeLines) {
  TinyRun whole, run;
  for (TinyRun* each : {&whole, &run}) each->job.checkpoint_every = 2;
  whole.train();
  const std::filesystem::path metrics = std::filesystem::path(run.job.out) / "metrics.jsonl";
  {
    FileLimit limit;
    ActAt full("step", 4, [&] { limit.set(std::filesystem::file_size(metrics) + 10); });
    EXPECT_THAT(message_of([&] { run.train({.sinks = {&full}}); }),
                AllOf(HasSubstr("metrics.jsonl: cannot append: File too large"), HasSubstr("The checkpoint of step 2 is intact")));
  }
  EXPECT_TRUE(read_text(metrics).ends_with("}\n"));
  run.resume();
  EXPECT_EQ(run.lines("step"), whole.lines("step"));
  EXPECT_EQ(run.lines("checkpoint"), whole.lines("checkpoint"));
  EXPECT_EQ(first_difference(whole.weights(), run.weights()), "");
}

TEST(TrainerFullDisk, JobAndPlanThatDoNotFitEndItBeforeTheFirstUpdate) {
  TinyRun run;
  {
    FileLimit limit;
    limit.set(20);
    EXPECT_THAT(message_of([&] { run.train(); }), HasSubstr("job.textproto: cannot write: File too large"));
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(run.job.out) / "job.textproto"));
  run.train();
}

}  // namespace
}  // namespace millrace
