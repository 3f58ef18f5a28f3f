// What batch norms of Statistics::kRunning do at an update, in one place for every device.
//
//   const RunningStatistics after = updated(before, sums, momentum, epsilon);
//
// Statistics and sums are of one channel. All in double, whatever the device stores.
#pragma once

#include "core/base/host_device.h"

namespace millrace {

// In the order of the state's tensors and of the rows of what is gathered.
struct RunningStatistics {
  double mean = 0, variance = 1;
  // Of the errors behind the norm: their mean, and what they project on x-hat, per square of x-hat.
  double error = 0, projection = 0;
};
struct GatheredSums {
  double distances = 0, squares = 0;  // of the inputs, around `mean`
  double count = 0;
  double errors = 0, products = 0;  // of the errors, and of errors with x-hat
};
inline constexpr int kGatheredSums = 5;

// The share that an update has in the two averages of errors. With shares much larger what one mini-batch happened to say comes back as
// noise.
inline constexpr double kErrorShare = 0.1;

// Nothing moves where nothing but empty samples came. A variance that lags behind must not turn an error round: x-hat counts at least as
// much as it would with the variance it claims.
MILLRACE_HOST_DEVICE inline RunningStatistics updated(const RunningStatistics& before, const GatheredSums& sums, double momentum,
                                                      double epsilon) {
  if (sums.count < 2) return before;
  const double away = sums.distances / sums.count;
  const double square = sums.squares / sums.count - away * away;
  const double spread = (square > 0 ? square : 0) * (sums.count / (sums.count - 1));
  const double normalised = sums.squares / (before.variance + epsilon);
  RunningStatistics after;
  after.mean = before.mean + momentum * away;
  after.variance = (1 - momentum) * before.variance + momentum * spread;
  after.error = before.error + kErrorShare * (sums.errors / sums.count - before.error);
  after.projection =
      before.projection + kErrorShare * (sums.products / (normalised > sums.count ? normalised : sums.count) - before.projection);
  return after;
}

}  // namespace millrace
