// What a training's evaluations say: which was the best, and whether so many came without a better one that training ends.
//
//   EvaluationJudge judge(job);
//   judge.add_evaluation(step, evaluation);                         // in the order of the updates
//   if (judge.kept_is_best()) ...                         // of this evaluation: job.keep_best's metric was never better
//   if (judge.gives_up()) ...                             // job.early_stop's patience is over
//   attributes["evaluations"] = judge.text();             // in a checkpoint; restore() takes it back
//
// Better is strictly better: of equal ones the first stays. For early stopping it has to be better by more than min_delta, and
// patience counts the evaluations since the last that was. Nothing here depends on a timing. Plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/documents/job.h"
#include "core/train/evaluate.h"

namespace millrace {

// "loss" or "accuracy"; fails with kUsage, naming `flag`, on anything else.
EvaluationMetric evaluation_metric_from(const std::string& name, const char* flag);
const char* name_of(EvaluationMetric metric);

class EvaluationJudge {
 public:
  explicit EvaluationJudge(const Job& job) : keep_best_(job.keep_best), early_stop_(job.early_stop) {}

  void add_evaluation(int64_t step, const Evaluation& evaluation);
  bool kept_is_best() const { return kept_is_best_; }
  bool gives_up() const { return early_stop_.patience > 0 && without_better_ >= early_stop_.patience; }
  // The step of the evaluation at which it did. Later ones change nothing any more.
  int64_t gave_up_at() const { return heard_step_; }
  // For whoever goes on all the same: the best stays, patience is whole again.
  void begin_anew() { without_better_ = 0; }
  // "no better test loss than 0.0857 (step 220) in 3 evaluations"
  std::string reason() const;

  // The best that is kept, as its checkpoint says: nothing before the first.
  std::optional<double> kept() const { return kept_; }
  void set_kept(double value) { kept_ = value; }

  // Of early stopping. text() reads back to the same bits.
  std::string text() const;
  // Fails with kMalformed. Of another metric: starts anew.
  void restore(const std::string& text);

 private:
  EvaluationMetric keep_best_;
  EarlyStop early_stop_;
  std::optional<double> kept_;
  bool kept_is_best_ = false;
  std::optional<double> best_;
  int64_t best_step_ = 0, heard_step_ = 0;
  int64_t without_better_ = 0;
};

}  // namespace millrace
