// Leads a training as people expect it: when to evaluate, save and stop; records in the order of the updates; the run's folder.
//
//   TrainingLead lead(task, course, {.sinks = {&lines}, .fingerprint = facts});
//   lead.start(/*resumed=*/nullptr);                       // makes the run's folder
//   rank.run(&lead);
//   const TrainingOutcome outcome = lead.outcome();
//
// The run's folder (job.out) holds job.textproto, plan.textproto, fingerprint.json, metrics.jsonl and checkpoints/, and samples.jsonl
// where it is asked for; the last
// checkpoint is always written there, each by a thread of its own, so that training goes on meanwhile. Records come in the order
// of the updates whatever the order in which news arrive; all but what is measured is the same in every repetition.
// Borrows task, sinks and the stop flag's owner. On rank 0 of replica 0 alone.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/train/checkpoint.h"
#include "core/train/course.h"
#include "core/train/evaluate.h"
#include "core/train/evaluation_judge.h"
#include "core/train/metrics.h"
#include "core/train/task.h"
#include "node/ring/conductor.h"
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
  std::vector<std::string> reports;  // TrainerOptions::report, by rank
};

struct LeadOptions {
  std::vector<MetricsSink*> sinks = {};                                 // besides the run's metrics.jsonl
  std::map<std::string, std::string> fingerprint = {};                  // what the numbers depend on: versions, ISA, kernel table
  int64_t log_every = 0;                                                // updates between "step" records; 0: ten per epoch
  int64_t stop_after = 0;                                               // TrainerOptions::stop_after
  std::function<void(const std::filesystem::path& folder)> saved = {};  // TrainerOptions::saved
  bool log_samples = false;                                             // TrainerOptions::log_samples
  // Told every decision, for replicas that follow.
  std::function<void(int64_t mini_batch, const Decision&)> announce = {};
};

class TrainingLead final : public Conductor {
 public:
  TrainingLead(const TrainingTask& task, const Course& course, LeadOptions options);
  ~TrainingLead() override;

  // `resumed`: the checkpoint that the training goes on from.
  void start(const CheckpointContent* resumed);
  // After an error: finishes what is being written, and adds which checkpoint is intact.
  Error explained(const Error& error);
  TrainingOutcome outcome();
  int64_t steps() const { return step_; }
  // Of this run.
  int64_t evaluations() const { return evaluations_made_; }

  std::optional<Decision> decide(int64_t mini_batch) override;
  void updated(int64_t mini_batch) override;
  void scored(int64_t mini_batch, const Score& score) override { scores_[mini_batch] = score; }
  void evaluated(int64_t mini_batch, const Score& score) override;
  void gradient_norm(int64_t mini_batch, double norm) override { norms_[mini_batch] = norm; }
  void loaded(int64_t s, std::span<const int64_t> samples) override;
  void saved(int64_t mini_batch, SaveAssembler& content) override;
  bool step() override;
  bool finished() override;
  void stop_requested() override { stop_ = true; }
  void checkpoint_requested() override { checkpoint_now_ = true; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kScore, kEvaluation, kCheckpoint, kWriting };

  bool report();
  int64_t saves_under_way() const;
  bool report_score();
  void report_step();
  void report_epoch();
  bool report_evaluation();
  void recall_evaluations(const CheckpointContent& resumed);
  void judge(int64_t mini_batch);
  bool awaits_judgement(int64_t mini_batch) const;
  int64_t updates_until_judged() const;
  bool begin_checkpoint();
  bool end_checkpoint();
  void complete(CheckpointContent& content) const;
  void require_finite(const TensorMap& weights) const;
  void write(const MetricsRecord& record);
  void write_documents() const;
  int64_t updates_between_evaluations() const;
  double rate_of_last() const { return course_.learning_rate(std::max<int64_t>(0, step_ - 1)); }
  [[noreturn]] void not_finite(std::string_view what) const;

  const TrainingTask& task_;
  Course course_;
  LeadOptions options_;
  std::unique_ptr<MetricsFile> metrics_file_;
  std::unique_ptr<SampleLog> sample_log_;
  std::map<int64_t, std::vector<int64_t>> samples_;  // by mini-batch that is not reported yet
  std::unique_ptr<Progress> progress_;
  std::map<int64_t, Decision> decisions_;  // not reported yet
  std::map<int64_t, Score> scores_, evaluations_;
  std::map<int64_t, double> norms_;
  std::map<int64_t, double> evaluation_seconds_;
  std::map<int64_t, CheckpointContent> contents_;
  std::map<int64_t, Clock::time_point> updated_at_;
  std::future<std::filesystem::path> writing_;
  Stage stage_ = Stage::kScore;
  int64_t first_ = 0;  // mini-batches that were over before this run
  int64_t updated_ = 0;
  int64_t step_ = 0;   // reported
  int64_t last_ = -1;  // the last mini-batch, once decided
  int64_t saved_step_ = -1;
  bool stop_ = false;
  bool checkpoint_now_ = false;
  bool cannot_record_ = false;
  bool interrupted_ = false;
  std::string reason_;
  Score since_record_, in_epoch_;
  int64_t trained_samples_ = 0;
  double gradient_norm_ = -1;
  double train_loss_ = 0;
  double seconds_evaluating_ = 0;
  double recorded_seconds_ = 0;
  Evaluation last_evaluation_;
  int64_t evaluations_made_ = 0;
  EvaluationJudge judge_;
  std::set<int64_t> unjudged_;      // mini-batches that will be evaluated; early stopping alone
  std::set<int64_t> only_if_best_;  // those whose share of a checkpoint is gathered in case they are the best
  int64_t best_ = -1;               // the mini-batch of the newest best evaluation
  int64_t stop_from_ = -1;          // the mini-batch that is the last by early stopping
  std::string weights_digest_;
  Clock::time_point started_ = Clock::now();
};

// A run's folder as a training leaves it that was killed early: everything but a checkpoint, whole or damaged.
bool stopped_before_its_first_checkpoint(const std::filesystem::path& run);

}  // namespace millrace
