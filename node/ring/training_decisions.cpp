#include "node/ring/training_decisions.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/base/log.h"
#include "core/train/best_checkpoint.h"

namespace millrace {
namespace {

constexpr int64_t kMostSavesUnderWay = 4;
constexpr const char* kEarlyStop = "early_stop";

}  // namespace

TrainingDecisions::TrainingDecisions(const TrainingTask& task, const Course& course, int64_t stop_after)
    : task_(task), course_(course), stop_after_(stop_after), judge_(task.job), reason_(task.job.steps > 0 ? "steps" : "epochs") {}

std::map<std::string, std::string> TrainingDecisions::attributes() const {
  const std::string text = judge_.text();
  if (text.empty()) return {};
  return {{kEarlyStop, text}};
}

void TrainingDecisions::forget(int64_t mini_batch) {
  decisions_.erase(mini_batch);
  only_if_best_.erase(mini_batch);
}

void TrainingDecisions::restore(const CheckpointContent& content) {
  if (const auto found = content.facts.attributes.find(kEarlyStop); found != content.facts.attributes.end()) judge_.restore(found->second);
  if (judge_.gives_up()) {
    stop_from_ = judge_.gave_up_at() - 1 + updates_until_judged();
    if (content.facts.step > stop_from_) {
      log::info("the run had ended by early stop; its patience begins anew");
      judge_.begin_anew();
      stop_from_ = -1;
    }
  }
  if (task_.job.keep_best == EvaluationMetric::kNone) return;
  if (const auto value = best_kept(std::filesystem::path(task_.job.out) / "best", task_.job.keep_best)) judge_.set_kept(*value);
}

void TrainingDecisions::evaluate_last(int64_t mini_batch) {
  last_ = mini_batch;
  decisions_[mini_batch] = {.last = true, .evaluate = true, .checkpoint = false};
}

// 0: at the end alone, which also stands for more updates than the training has.
int64_t TrainingDecisions::updates_between_evaluations() const {
  const double updates = task_.job.evaluate_every_epochs * static_cast<double>(course_.updates_per_epoch());
  if (updates <= 0 || updates > static_cast<double>(course_.total_updates())) return 0;
  return std::max<int64_t>(1, std::llround(updates));
}

// From an evaluation's update to the first mini-batch whose decision can wait for what it says, without anything standing still:
// device 0 begins that one after the update. In alignments that do not drain others are under way by then. A fact of the plan, so
// that training ends at the same update however fast anything is.
int64_t TrainingDecisions::updates_until_judged() const {
  const int64_t n = task_.plan.micro_batches();
  return drains(task_.plan.alignment) ? 1 : 1 + (n + task_.plan.windows.front() - 2) / n;
}

bool TrainingDecisions::awaits_judgement(int64_t mini_batch) const {
  return !unjudged_.empty() && *unjudged_.begin() + updates_until_judged() <= mini_batch;
}

int64_t TrainingDecisions::saves_under_way() const {
  return std::ranges::count_if(decisions_, [](const auto& entry) { return entry.second.checkpoint; });
}

bool TrainingDecisions::is_last(int64_t mini_batch, double seconds_running) {
  const Job& job = task_.job;
  if (mini_batch + 1 >= (stop_after_ > 0 ? stop_after_ : course_.total_updates())) return true;
  if (stop_) {
    reason_ = "signal";
    interrupted_ = true;
  } else if (job.time_limit_seconds > 0 && seconds_running >= job.time_limit_seconds) {
    reason_ = "time limit";
    interrupted_ = true;
  } else if (stop_from_ >= 0 && mini_batch >= stop_from_) {
    reason_ = "early stop";
  } else {
    return false;
  }
  return true;
}

std::optional<Decision> TrainingDecisions::decide(int64_t mini_batch, double seconds_running) {
  if (awaits_judgement(mini_batch)) return std::nullopt;
  const Job& job = task_.job;
  const int64_t step = mini_batch + 1;
  const int64_t evaluate_every = updates_between_evaluations();
  Decision decision;
  decision.last = is_last(mini_batch, seconds_running);
  decision.evaluate = decision.last || (evaluate_every > 0 && (step + course_.ahead()) % evaluate_every == 0);
  const bool due = job.checkpoint_every > 0 && step % job.checkpoint_every == 0;
  // The disk is slower than the training: no more shares are collected than memory should hold.
  const bool perhaps_best = decision.evaluate && job.keep_best != EvaluationMetric::kNone;
  if ((due || perhaps_best) && saves_under_way() >= kMostSavesUnderWay) return std::nullopt;
  const bool wanted = decision.last || (!job.out.empty() && (due || checkpoint_now_));
  decision.checkpoint = wanted || perhaps_best;
  checkpoint_now_ = checkpoint_now_ && !wanted;
  if (perhaps_best && !wanted) only_if_best_.insert(mini_batch);
  if (decision.evaluate && job.early_stop.patience > 0) unjudged_.insert(mini_batch);
  if (decision.last) last_ = mini_batch;
  decisions_[mini_batch] = decision;
  return decision;
}

void TrainingDecisions::take_evaluation(int64_t mini_batch, const Evaluation& evaluation) {
  judge_.add_evaluation(mini_batch + 1, evaluation);
  unjudged_.erase(mini_batch);
  if (judge_.kept_is_best()) best_ = mini_batch;
  if (!judge_.gives_up() || stop_from_ >= 0) return;
  stop_from_ = mini_batch + updates_until_judged();
  if (last_ < 0) log::info("{}: training ends with step {}", judge_.reason(), stop_from_ + 1);
}

}  // namespace millrace
