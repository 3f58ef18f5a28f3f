// Leads a training as people expect it: when to evaluate, save and stop; records in the order of the updates; the run's folder.
//
//   TrainingLead lead(task, course, {.sinks = {&lines}, .fingerprint = facts});
//   lead.start(/*resumed=*/nullptr);                       // makes the run's folder
//   rank.run(&lead);
//   const TrainingOutcome outcome = lead.outcome();
//
// The run's folder (job.out) holds job.textproto, plan.textproto, rates.textproto where they were measured, fingerprint.json, metrics.jsonl
// and checkpoints/, and samples.jsonl where it is asked for; the last checkpoint is always written there, each by a thread of its own, so
// that training goes on meanwhile. Records come in the order of the updates whatever the order in which news arrive; all but what is
// measured is the same in every repetition. Borrows task, sinks and the stop flag's owner. On rank 0 of replica 0 alone.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/train/checkpoint.h"
#include "core/train/course.h"
#include "core/train/task.h"
#include "node/ring/conductor.h"
#include "node/ring/run_records.h"
#include "node/ring/training_decisions.h"

namespace millrace {

// In the run's folder: what its devices reach, where that was measured, as a catalogue. A resumed run plans with it again.
inline constexpr const char* kRatesOfRun = "rates.textproto";

// In the fingerprint of a run whose devices compute in formats of its own, and from there in its checkpoints: which those are.
inline constexpr const char* kFormatsOfRun = "formats";

struct LeadOptions {
  std::vector<MetricsSink*> sinks = {};                                 // besides the run's metrics.jsonl
  std::map<std::string, std::string> fingerprint = {};                  // what the numbers depend on: versions, ISA, kernel table
  std::string rates = {};                                               // a catalogue that the plan was made with; empty: as shipped
  int64_t log_every = 0;                                                // updates between "step" records; 0: ten per epoch
  int64_t stop_after = 0;                                               // TrainerOptions::stop_after
  std::function<void(const std::filesystem::path& folder)> saved = {};  // TrainerOptions::saved
  bool log_samples = false;                                             // TrainerOptions::log_samples
  std::string bar = "training";                                         // TrainerOptions::bar
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();  // TrainerOptions::begun
  // Told every decision, for replicas that follow.
  std::function<void(int64_t mini_batch, const Decision&)> announce = {};
};

class TrainingLead final : public Conductor {
 public:
  TrainingLead(const TrainingTask& task, const Course& course, LeadOptions options);

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
  void stop_requested() override { choices_.request_stop(); }
  void checkpoint_requested() override { choices_.request_checkpoint(); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kScore, kEvaluation, kCheckpoint, kWriting };

  void resume(const CheckpointContent& content);
  bool report();
  bool report_score();
  bool report_evaluation();
  bool begin_checkpoint();
  bool end_checkpoint();
  bool next_update();
  void complete(CheckpointContent& content) const;
  void require_finite(const TensorMap& weights) const;
  void write_documents() const;
  [[noreturn]] void not_finite(std::string_view what) const;

  const TrainingTask& task_;
  Course course_;
  LeadOptions options_;
  RunRecords records_;
  TrainingDecisions choices_;
  // News that are not reported yet, by mini-batch.
  std::map<int64_t, std::vector<int64_t>> samples_;
  std::map<int64_t, Score> scores_, evaluations_;
  std::map<int64_t, double> norms_;
  std::map<int64_t, double> evaluation_seconds_;
  std::map<int64_t, CheckpointContent> contents_;
  std::map<int64_t, Clock::time_point> updated_at_;
  std::future<std::filesystem::path> writing_;
  Stage stage_ = Stage::kScore;
  int64_t updated_ = 0;
  int64_t step_ = 0;  // reported
  int64_t saved_step_ = -1;
  int64_t evaluations_made_ = 0;
  std::string weights_digest_;
};

// A run's folder as a training leaves it that was killed early: everything but a checkpoint, whole or damaged.
bool stopped_before_its_first_checkpoint(const std::filesystem::path& run);

}  // namespace millrace
