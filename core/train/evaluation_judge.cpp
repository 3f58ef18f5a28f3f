#include "core/train/evaluation_judge.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "core/base/error.h"

namespace millrace {
namespace {

double value_of(EvaluationMetric metric, const Evaluation& evaluation) {
  return metric == EvaluationMetric::kLoss ? evaluation.loss : evaluation.accuracy;
}

bool is_better(EvaluationMetric metric, double value, const std::optional<double>& than, double by) {
  if (!than) return true;
  return metric == EvaluationMetric::kLoss ? value < *than - by : value > *than + by;
}

}  // namespace

EvaluationMetric evaluation_metric_from(const std::string& name, const char* flag) {
  for (const EvaluationMetric metric : {EvaluationMetric::kLoss, EvaluationMetric::kAccuracy})
    if (name == name_of(metric)) return metric;
  fail(ErrorCode::kUsage, "{} \"{}\" is unknown{}", flag, name, suggestion(name, {"loss", "accuracy"}));
}

const char* name_of(EvaluationMetric metric) {
  switch (metric) {
    case EvaluationMetric::kNone: return "none";
    case EvaluationMetric::kLoss: return "loss";
    case EvaluationMetric::kAccuracy: return "accuracy";
  }
  return "unknown";
}

void EvaluationJudge::add_evaluation(int64_t step, const Evaluation& evaluation) {
  if (keep_best_ != EvaluationMetric::kNone) {
    const double value = value_of(keep_best_, evaluation);
    kept_is_best_ = is_better(keep_best_, value, kept_, 0);
    if (kept_is_best_) kept_ = value;
  }
  if (early_stop_.patience == 0 || gives_up()) return;
  heard_step_ = step;
  const double value = value_of(early_stop_.metric, evaluation);
  if (is_better(early_stop_.metric, value, best_, early_stop_.min_delta)) {
    best_ = value;
    best_step_ = step;
    without_better_ = 0;
  } else {
    ++without_better_;
  }
}

std::string EvaluationJudge::reason() const {
  return fmt::format("no better test {} than {:.4f} (step {}) in {} evaluations", name_of(early_stop_.metric), best_.value_or(NAN),
                     best_step_, without_better_);
}

std::string EvaluationJudge::text() const {
  return best_ ? fmt::format("{} {} {} {} {}", name_of(early_stop_.metric), *best_, best_step_, heard_step_, without_better_) : "";
}

void EvaluationJudge::restore(const std::string& text) {
  if (text.empty()) return;
  std::istringstream words(text);
  std::string metric, value;
  int64_t step = 0, heard = 0, without_better = 0;
  if (!(words >> metric >> value >> step >> heard >> without_better))
    fail(ErrorCode::kMalformed, "the checkpoint's attribute of early stopping is \"{}\", expected metric, best, two steps and a count",
         text);
  if (metric != name_of(early_stop_.metric)) return;  // asked for another metric: it starts anew
  try {
    best_ = std::stod(value);
  } catch (const std::exception&) {
    fail(ErrorCode::kMalformed, "the checkpoint's attribute of early stopping is \"{}\"; \"{}\" is no number", text, value);
  }
  best_step_ = step;
  heard_step_ = heard;
  without_better_ = without_better;
}

}  // namespace millrace
