// The learning rate of an update, a pure function of how far training has come. Internal to core/train.
//
//   const double rate = learning_rate_at(job.learning_rate, epoch, total_epochs);       // course.h knows both
//
// `epoch` counts fractionally: updates done before this one, divided by updates per epoch. With t the part of the way
// from the end of the warm-up to the end of training, 0 to 1:
//   constant    base
//   step        base x factor^(how many of step_epochs lie at or before `epoch`)
//   cosine      final + (base - final) x (1 + cos(pi t)) / 2
//   polynomial  final + (base - final) x (1 - t)^power
// During the first `warmup_epochs` the rate rises linearly from 0 (at epoch 0) to that; afterwards nothing of the
// warm-up remains. Beyond the end of training t stays 1.
#pragma once

#include "core/documents/job.h"

namespace millrace {

// `epoch` is not negative.
double learning_rate_at(const LearningRate& schedule, double epoch, double total_epochs);

}  // namespace millrace
