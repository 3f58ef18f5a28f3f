// Rules between the fields of a job. Those that a flag may still mend hold only in validate(), once all is known.
#include <algorithm>

#include "core/base/index.h"
#include "core/documents/job_fields.h"

namespace millrace {
namespace text {

void Fields<LearningRate>::check(const LearningRate& rate, const Path& where) {
  const auto falls = std::adjacent_find(rate.step_epochs.begin(), rate.step_epochs.end(), [](double a, double b) { return b <= a; });
  if (falls == rate.step_epochs.end()) return;
  const auto at = to_size(falls - rate.step_epochs.begin()) + 1;
  Path(where, "step_epochs", at).fail("{} must be above the {} before it", rate.step_epochs[at], *falls);
}

void Codec<Job>::check(const Job& job, const Path& where) {
  FieldChecker<Job> checker(job, where);
  Fields<Job>::visit(checker);
  size_t place = 0;
  for (const auto& [layer, device] : job.pins) {
    Codec<Pin>::check({layer, device}, Path(where, "pins", place));
    ++place;
  }
  place = 0;
  for (const auto& [link, cut] : job.cuts) {
    Codec<Cut>::check({link, cut.layer, cut.channel, cut.outputs}, Path(where, "cuts", place));
    ++place;
  }
}

}  // namespace text

namespace {

using text::Path;

void validate_learning_rate(const Job& job, const Path& where) {
  const LearningRate& rate = job.learning_rate;
  const bool steps = rate.kind == LearningRateKind::kStep;
  if (steps && rate.step_epochs.empty()) Path(where, "step_epochs").fail("none given; a step schedule needs at least one");
  if (!steps && !rate.step_epochs.empty())
    Path(where, "step_epochs").fail("{} given, but only a step schedule uses them; set kind: STEP", rate.step_epochs.size());
  const bool ends = rate.kind == LearningRateKind::kCosine || rate.kind == LearningRateKind::kPolynomial;
  if (ends && rate.final_rate > rate.base)
    Path(where, "final_rate").fail("{} must not be above base, which is {}", rate.final_rate, rate.base);
  if (job.steps == 0 && rate.warmup_epochs > job.epochs)
    Path(where, "warmup_epochs").fail("{} must not be more than the {} epochs of the job", rate.warmup_epochs, job.epochs);
}

void validate_evaluation(const Job& job, const Path& where) {
  if (job.keep_best != EvaluationMetric::kNone && job.out.empty())
    Path(where, "keep_best").fail("asks for a checkpoint of the best, but there is no folder for it; set out");
  if (job.early_stop.patience > 0 && job.early_stop.metric == EvaluationMetric::kNone)
    Path(where, "early_stop").fail("has a patience of {}, but no metric; set LOSS or ACCURACY", job.early_stop.patience);
  if (job.early_stop.patience > 0 && job.evaluate_every_epochs == 0)
    Path(where, "early_stop")
        .fail("has a patience of {}, but nothing is evaluated before the end; set evaluate_every_epochs", job.early_stop.patience);
}

}  // namespace

void validate(const Job& job) {
  const Path where({}, ErrorCode::kUsage);
  text::Codec<Job>::check(job, where);
  if (job.micro_batch > 0 && job.mini_batch % job.micro_batch != 0)
    Path(where, "mini_batch").fail("{} must be a multiple of micro_batch, which is {}", job.mini_batch, job.micro_batch);
  if (job.clip == ClipKind::kGlobalNorm && !drains(job.alignment))
    Path(where, "clip")
        .fail(
            "GLOBAL_NORM needs all gradients of a mini-batch at once, which alignment {} never has; use VALUE, or an alignment that drains "
            "(flush, 1f1b, zero-bubble)",
            name_of(job.alignment));
  if (!job.plan.empty() && !job.pins.empty())
    Path(where, "pins")
        .fail("{} given, but plan \"{}\" already says where layers are; leave one of the two out", job.pins.size(), job.plan);
  if (!job.plan.empty() && !job.cuts.empty())
    Path(where, "cuts").fail("{} given, but plan \"{}\" already says where links cut; leave one of the two out", job.cuts.size(), job.plan);
  if (job.checkpoint_every > 0 && job.out.empty())
    Path(where, "checkpoint_every").fail("{} asks for checkpoints, but there is no folder for them; set out", job.checkpoint_every);
  validate_evaluation(job, where);
  validate_learning_rate(job, Path(where, "learning_rate"));
}

}  // namespace millrace
