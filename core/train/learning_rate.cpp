#include "core/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/check.h"

namespace millrace {
namespace {

// t: 0 until the warm-up is over, 1 at the end of training and after it.
double way_done(const LearningRate& schedule, double epoch, double total_epochs) {
  if (epoch <= schedule.warmup_epochs) return 0;
  if (epoch >= total_epochs) return 1;
  return (epoch - schedule.warmup_epochs) / (total_epochs - schedule.warmup_epochs);
}

double decayed(const LearningRate& schedule, double epoch, double total_epochs) {
  const double span = schedule.base - schedule.final_rate;
  switch (schedule.kind) {
    case LearningRateKind::kConstant: return schedule.base;
    case LearningRateKind::kStep: {
      const auto passed = std::ranges::count_if(schedule.step_epochs, [epoch](double step) { return step <= epoch; });
      return schedule.base * std::pow(schedule.factor, static_cast<double>(passed));
    }
    case LearningRateKind::kCosine:
      return schedule.final_rate + span * (1.0 + std::cos(std::numbers::pi * way_done(schedule, epoch, total_epochs))) / 2.0;
    case LearningRateKind::kPolynomial:
      return schedule.final_rate + span * std::pow(1.0 - way_done(schedule, epoch, total_epochs), schedule.power);
  }
  MILLRACE_CHECK(false, "learning rate kind {} is unknown", static_cast<int>(schedule.kind));
  return 0;
}

}  // namespace

double learning_rate_at(const LearningRate& schedule, double epoch, double total_epochs) {
  MILLRACE_CHECK(epoch >= 0, "epoch {}", epoch);
  const double rate = decayed(schedule, epoch, total_epochs);
  return epoch < schedule.warmup_epochs ? rate * (epoch / schedule.warmup_epochs) : rate;
}

}  // namespace millrace
