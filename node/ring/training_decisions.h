// What a training decides before each mini-batch: whether it is the last, and whether an evaluation or a checkpoint follows it.
//
//   TrainingDecisions decisions(task, course, /*stop_after=*/0);
//   if (const auto decision = decisions.decide(mini_batch, seconds_running)) ...      // nothing: not yet
//   decisions.take_evaluation(mini_batch, evaluation);      // early stopping, and which was the best
//   decisions.forget(mini_batch);                           // reported
//
// In order of the mini-batches. What is decided depends on the job, the plan and what was evaluated; on time only where the job has a
// limit of it, on the disk only when more checkpoints are under way than memory should hold. Borrows the task.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/train/checkpoint.h"
#include "core/train/course.h"
#include "core/train/evaluation_judge.h"
#include "core/train/task.h"
#include "node/ring/ring_context.h"

namespace millrace {

class TrainingDecisions {
 public:
  TrainingDecisions(const TrainingTask& task, const Course& course, int64_t stop_after);

  // What a checkpoint holds of it, and from one: what evaluations had said.
  std::map<std::string, std::string> attributes() const;
  void restore(const CheckpointContent& content);
  // Nothing is left to train: the last update is evaluated once more.
  void evaluate_last(int64_t mini_batch);

  std::optional<Decision> decide(int64_t mini_batch, double seconds_running);
  void request_stop() { stop_ = true; }
  void request_checkpoint() { checkpoint_now_ = true; }

  // Of a mini-batch that is not reported yet.
  const Decision& on(int64_t mini_batch) const { return decisions_.at(mini_batch); }
  void forget(int64_t mini_batch);

  void take_evaluation(int64_t mini_batch, const Evaluation& evaluation);
  bool is_best(int64_t mini_batch) const { return best_ == mini_batch && task_.job.keep_best != EvaluationMetric::kNone; }
  // A checkpoint of it was asked for, not only its share gathered in case it should be the best.
  bool is_wanted(int64_t mini_batch) const { return !only_if_best_.contains(mini_batch); }
  std::optional<double> best_value() const { return judge_.kept(); }

  // The last mini-batch, once it is known; -1 before.
  int64_t last() const { return last_; }
  const std::string& reason() const { return reason_; }
  bool interrupted() const { return interrupted_; }

 private:
  int64_t updates_between_evaluations() const;
  int64_t updates_until_judged() const;
  bool awaits_judgement(int64_t mini_batch) const;
  int64_t saves_under_way() const;
  bool is_last(int64_t mini_batch, double seconds_running);

  const TrainingTask& task_;
  Course course_;
  int64_t stop_after_;
  EvaluationJudge judge_;
  std::map<int64_t, Decision> decisions_;  // not reported yet
  std::set<int64_t> unjudged_;             // mini-batches that will be evaluated; early stopping alone
  std::set<int64_t> only_if_best_;
  int64_t last_ = -1;
  int64_t best_ = -1;       // the mini-batch of the newest best evaluation
  int64_t stop_from_ = -1;  // the mini-batch that is the last by early stopping
  bool stop_ = false;
  bool checkpoint_now_ = false;
  bool interrupted_ = false;
  std::string reason_;
};

}  // namespace millrace
