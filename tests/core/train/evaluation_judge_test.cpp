// When an evaluation is the best, and when training gives up.
#include "core/train/evaluation_judge.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/train/best_checkpoint.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/train/checkpoint_samples.h"

namespace millrace {
namespace {

Job stopping(int64_t patience, EvaluationMetric metric = EvaluationMetric::kLoss, double min_delta = 0) {
  Job job;
  job.early_stop = {.patience = patience, .metric = metric, .min_delta = min_delta};
  return job;
}

// Steps 10, 20, ... until it gives up; the step, or 0.
int64_t gives_up_at(EvaluationJudge& judge, const std::vector<double>& losses, int64_t step = 0) {
  for (const double loss : losses) {
    judge.add_evaluation(step += 10, {.loss = loss, .accuracy = 1 - loss, .samples = 1});
    if (judge.gives_up()) return judge.gave_up_at();
  }
  return 0;
}

TEST(EvaluationJudge, GivesUpAfterSoManyWithoutABetterOne) {
  EvaluationJudge judge(stopping(2));
  EXPECT_EQ(gives_up_at(judge, {0.5, 0.4, 0.6, 0.39, 0.39, 0.45, 0.1}), 60);  // equal is not better
  EXPECT_EQ(judge.reason(), "no better test loss than 0.3900 (step 40) in 2 evaluations");
  EvaluationJudge by_accuracy(stopping(1, EvaluationMetric::kAccuracy));
  EXPECT_EQ(gives_up_at(by_accuracy, {0.5, 0.4, 0.41}), 30);
  EvaluationJudge by_much(stopping(2, EvaluationMetric::kLoss, 0.1));
  EXPECT_EQ(gives_up_at(by_much, {0.5, 0.45, 0.41}), 30);
  EvaluationJudge never(stopping(0));
  EXPECT_EQ(gives_up_at(never, {0.5, 0.6, 0.7}), 0);
}

TEST(EvaluationJudge, GoesOnFromItsText) {
  const std::vector<double> losses = {0.5, 0.1 + 0.2, 0.31, 0.32, 0.33};
  EvaluationJudge whole(stopping(3)), first(stopping(3)), second(stopping(3));
  EXPECT_EQ(gives_up_at(whole, losses), 50);
  gives_up_at(first, {losses[0], losses[1], losses[2]});
  second.restore(first.text());
  EXPECT_EQ(gives_up_at(second, {losses[3], losses[4]}, 30), 50);
  EXPECT_EQ(second.text(), whole.text());
  second.begin_anew();
  EXPECT_FALSE(second.gives_up());
  EvaluationJudge other(stopping(3, EvaluationMetric::kAccuracy));
  other.restore(whole.text());  // of another metric
  EXPECT_FALSE(other.gives_up());
  expect_error(ErrorCode::kMalformed, "attribute of early stopping", [&] { other.restore("loss much"); });
}

TEST(EvaluationJudge, KnowsTheBest) {
  Job job;
  job.keep_best = EvaluationMetric::kLoss;
  EvaluationJudge judge(job);
  std::string best;
  for (const double loss : {0.5, 0.6, 0.4, 0.4, 0.39}) {
    judge.add_evaluation(1, {.loss = loss});
    best += judge.kept_is_best() ? 'b' : '.';
  }
  EXPECT_EQ(best, "b.b.b");
  EvaluationJudge resumed(job);
  resumed.set_kept(0.39);
  resumed.add_evaluation(1, {.loss = 0.39});
  EXPECT_FALSE(resumed.kept_is_best());
  expect_error(ErrorCode::kUsage, "--keep-best \"los\" is unknown; did you mean \"loss\"?",
               [] { evaluation_metric_from("los", "--keep-best"); });
}

}  // namespace
}  // namespace millrace
