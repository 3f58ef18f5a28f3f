#include "core/train/course.h"

#include <algorithm>
#include <cmath>

#include "core/train/learning_rate.h"

namespace millrace {

Course::Course(const TrainingTask& task)
    : schedule_(task.job.learning_rate),
      epochs_(task.job.epochs),
      steps_(task.job.steps),
      updates_per_epoch_(task.updates_per_epoch()),
      samples_per_update_(task.plan.mini_batch * task.job.replicas) {}

Course::Course(const TrainingTask& task, const CheckpointFacts& resumed) : Course(task) {
  const int64_t into_epoch = std::min(resumed.samples_into_epoch / samples_per_update_, updates_per_epoch_);
  ahead_ = resumed.epoch * updates_per_epoch_ + into_epoch - resumed.step;
}

int64_t Course::total_updates() const {
  if (steps_ > 0) return steps_;
  return static_cast<int64_t>(std::ceil(epochs_ * static_cast<double>(updates_per_epoch_))) - ahead_;
}

double Course::learning_rate(int64_t step) const {
  return learning_rate_at(schedule_, epoch_at(step), steps_ > 0 ? epoch_at(steps_) : epochs_);
}

}  // namespace millrace
