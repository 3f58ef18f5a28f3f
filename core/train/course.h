// How far a training has come and what is ahead of it: updates in epochs, learning rates, places in the data.
//
//   const Course course(task);                                  // from the beginning
//   const Course course(task, checkpoint.facts);                // from where a checkpoint stands
//   for (int64_t step = 0; step < course.total_updates(); ++step) fmt::print("{}\n", course.learning_rate(step));
//
// A step is an update since the training began, of whatever size. Epochs are samples seen: a training that goes on with other
// mini-batches, or another number of replicas, stands at the same sample of the same epoch as before. A place that the new
// mini-batches do not divide is rounded down: less than a mini-batch of that epoch's samples comes twice, and none is left out.
// Schedules of the learning rate span what will be trained: the epochs of the job, or those that its steps amount to. What only
// interrupts (a time limit, a signal) does not shorten them: whoever resumes goes on along the same curve.
//
// A value: holds numbers and the schedule, nothing of the task.
#pragma once

#include <cstdint>

#include "core/documents/job.h"
#include "core/train/checkpoint_manifest.h"
#include "core/train/task.h"

namespace millrace {

class Course {
 public:
  explicit Course(const TrainingTask& task);
  Course(const TrainingTask& task, const CheckpointFacts& resumed);

  int64_t updates_per_epoch() const { return updates_per_epoch_; }
  // Of the whole training, with those before it was resumed.
  int64_t total_updates() const;
  // After so many updates.
  double epoch_at(int64_t step) const { return static_cast<double>(step + ahead_) / static_cast<double>(updates_per_epoch_); }
  int64_t epochs_over(int64_t step) const { return (step + ahead_) / updates_per_epoch_; }
  int64_t updates_into_epoch(int64_t step) const { return (step + ahead_) % updates_per_epoch_; }
  int64_t samples_into_epoch(int64_t step) const { return updates_into_epoch(step) * samples_per_update_; }
  // Of the update that follows `step` others.
  double learning_rate(int64_t step) const;
  // How many more updates (or fewer, below 0) of today's size the samples seen amount to than there were.
  int64_t ahead() const { return ahead_; }

 private:
  LearningRate schedule_;
  double epochs_ = 0;
  int64_t steps_ = 0;  // 0: by epochs
  int64_t updates_per_epoch_ = 1;
  int64_t samples_per_update_ = 1;
  int64_t ahead_ = 0;
};

}  // namespace millrace
