#include "node/ring/update_queue.h"

#include <cmath>

namespace millrace {

bool UpdateQueue::run() {
  bool acted = false;
  for (size_t position = 0; position < entries_.size(); ++position) acted = run(position) || acted;
  return acted;
}

bool UpdateQueue::run(size_t position) {
  Entry& entry = entries_[position];
  const int64_t mini_batch = entry.updatable->due();
  if (mini_batch < 0) return false;
  bool acted = false;
  if (replicas_ != nullptr && entry.summed < mini_batch) {
    if (position != summing_) return false;
    if (!add_up(entry, mini_batch * static_cast<int64_t>(entries_.size()) + static_cast<int64_t>(position))) return false;
    entry.summed = mini_batch;
    summing_ = (summing_ + 1) % entries_.size();
    acted = true;
  }
  if (context_.task->job.clip == ClipKind::kGlobalNorm) {
    if (entry.normed < mini_batch) {
      entry.normed = mini_batch;
      notes_.send(0,
                  {.kind = NoteKind::kNorm, .index = mini_batch, .first = entry.number, .value = entry.updatable->squared_gradient_norm()});
      acted = true;
    }
    if (!scales_.contains(mini_batch)) return acted;
  }
  entry.updatable->update(arguments_for(mini_batch));
  scales_.erase(scales_.begin(), scales_.lower_bound(mini_batch));
  return true;
}

bool UpdateQueue::add_up(Entry& entry, int64_t index) {
  if (!sum_) {
    sum_ = buffer_.of(type_, entry.updatable->gradient_elements());
    entry.updatable->read_gradients(*sum_);
    replicas_->begin(*sum_, index);
  }
  if (!replicas_->advance()) return false;
  entry.updatable->write_gradients(*sum_);
  sum_.reset();
  return true;
}

UpdateArguments UpdateQueue::arguments_for(int64_t mini_batch) const {
  const TrainingTask& task = *context_.task;
  UpdateArguments arguments;
  arguments.optimizer = task.plan.optimizer;
  arguments.learning_rate = rehearsing_ ? 0 : context_.course->learning_rate(mini_batch);
  arguments.step = mini_batch + 1;
  if (task.job.clip == ClipKind::kValue) arguments.value_limit = task.job.clip_limit;
  if (task.job.clip == ClipKind::kGlobalNorm) arguments.gradient_scale = scales_.at(mini_batch);
  return arguments;
}

// All parts' norms are added up in one order, whatever the number of ranks.
std::optional<double> UpdateQueue::take_norm(int64_t mini_batch, int64_t number, double squared) {
  std::map<int64_t, double>& norms = norms_[mini_batch];
  norms[number] = squared;
  if (static_cast<int64_t>(norms.size()) < parts_) return std::nullopt;
  double sum = 0;
  for (const auto& [who, part] : norms) sum += part;
  norms_.erase(mini_batch);
  const double norm = std::sqrt(sum), limit = context_.task->job.clip_limit;
  const double scale = norm > limit ? limit / norm : 1;
  notes_.send(kEveryRank, {.kind = NoteKind::kScale, .index = mini_batch, .value = scale});
  take_scale(mini_batch, scale);
  return norm;
}

}  // namespace millrace
