// What a training reports about itself, in the order of its updates: to whoever listens, to the run's metrics.jsonl and samples.jsonl,
// and as progress on a terminal.
//
//   RunRecords records(task, course, {.sinks = {&lines}, .log_every = 20});
//   records.open(step, /*resumed=*/false, /*evaluates_again=*/false);
//   records.add_update(step, score, samples);  records.add_evaluation(step, evaluation);  records.add_checkpoint(step,
//   "checkpoints/step-40"); records.finish(outcome);                               // the last line, and what the outcome says of times and
//   losses
//
// Everything but what is measured is the same in every repetition. Borrows task and sinks. Limits: a record that cannot be written fails
// with kIo, and incomplete() says from then on that lines are missing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/train/course.h"
#include "core/train/evaluate.h"
#include "core/train/metrics.h"
#include "core/train/task.h"
#include "node/ring/sample_log.h"

namespace millrace {

struct TrainingOutcome {
  int64_t steps = 0;
  double epochs = 0;
  double train_loss = 0;  // of the last epoch or part of one
  Evaluation test;
  double seconds = 0;            // measured, evaluation included
  double images_per_second = 0;  // measured, training alone
  std::string reason;            // "epochs", "steps", "time limit", "signal", "early stop"
  bool interrupted = false;      // by the time limit or a signal: there was more to train
  std::string weights_digest;
  std::vector<std::string> reports;    // TrainerOptions::report, by rank
  std::vector<std::string> unwritten;  // why files that tell how it went could not be: trace, times, flows
};

// The mean over a score's samples.
Evaluation evaluation_of(const Score& score, double seconds);

struct RecordOptions {
  std::vector<MetricsSink*> sinks = {};  // besides the run's metrics.jsonl
  int64_t log_every = 0;                 // updates between "step" records; 0: ten per epoch
  bool log_samples = false;
  std::string bar = "training";  // what the progress is of
  int64_t updates = 0;           // of that; 0: as the course says
};

class RunRecords {
 public:
  RunRecords(const TrainingTask& task, const Course& course, const RecordOptions& options);

  // The scores so far of a record to come, as a checkpoint holds them: a resumed training reports what an unbroken one does.
  std::map<std::string, std::string> attributes() const;
  // Fails with kMalformed.
  void restore(const std::map<std::string, std::string>& attributes);

  // The run's files, where it has a folder, behind update `step`; time begins.
  void open(int64_t step, bool resumed, bool evaluates_again);
  double seconds_running() const;

  // `samples`: of this update, where they are logged. The norm, of those that come, is of the gradients before clipping.
  void add_update(int64_t step, const Score& score, std::optional<double> gradient_norm, std::span<const int64_t> samples);
  void add_evaluation(int64_t step, const Evaluation& evaluation);
  // `path`: relative to the run's folder.
  void add_checkpoint(int64_t step, const std::string& path);
  // Completes an outcome whose steps, reason and digest are there.
  void finish(TrainingOutcome& outcome);
  bool incomplete() const { return incomplete_; }

  // Of the last update.
  double learning_rate(int64_t step) const { return course_.learning_rate(std::max<int64_t>(0, step - 1)); }

 private:
  using Clock = std::chrono::steady_clock;

  void write_step(int64_t step);
  void write_epoch(int64_t step);
  void write(const MetricsRecord& record);
  template <typename Write>
  void noting_failure(const Write& write);

  const TrainingTask& task_;
  Course course_;
  RecordOptions options_;
  std::unique_ptr<MetricsFile> metrics_file_;
  std::unique_ptr<SampleLog> sample_log_;
  std::unique_ptr<Progress> progress_;
  Score since_record_, in_epoch_;
  int64_t trained_samples_ = 0;
  double gradient_norm_ = -1;
  double train_loss_ = 0;
  double seconds_evaluating_ = 0;
  double recorded_seconds_ = 0;
  Evaluation last_evaluation_;
  bool incomplete_ = false;
  Clock::time_point started_ = Clock::now();
};

}  // namespace millrace
