// A ring that fails and goes on from its last checkpoint: how much of the time is lost, by how often checkpoints are written.
//
//   const FailureModel model{.devices = 100, .device_mtbf_seconds = 30 * 86400, .checkpoint_seconds = 20, .restart_seconds = 120};
//   expected_lost(model, daly_interval(model));            // closed form
//   simulate_failures(model, 3600, /*failures=*/2000).lost; // drawn
//
// Devices fail independently, each after times drawn from an exponential distribution, (seed, device, failure) by counter; one that
// fails stops the ring. What was done since the last checkpoint is done again after the restart, which may itself be struck. Works
// in whole nanoseconds; the same call gives the same result.
//   expected time of an interval T between checkpoints (Daly 2006):  M e^(R/M) (e^((T + C)/M) - 1),  M the ring's time between
//   failures, C a checkpoint, R a restart; lost is 1 - T over that
//   best interval: Young 1974 sqrt(2 C M); Daly sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + C / 18M) - C for C < 2M, else M
// Fails with kUsage on times that are not above zero (a restart may take none) or lead nowhere.
#pragma once

#include <cstdint>

namespace millrace {

struct FailureModel {
  int64_t devices = 1;
  double device_mtbf_seconds = 0;
  double checkpoint_seconds = 0;
  double restart_seconds = 0;
  uint64_t seed = 0;

  double ring_mtbf_seconds() const { return device_mtbf_seconds / static_cast<double>(devices); }
};

struct FailureRun {
  double lost = 0;  // share of the time
  int64_t failures = 0;
  int64_t checkpoints = 0;
  double seconds = 0;
};

double young_interval(const FailureModel& model);
double daly_interval(const FailureModel& model);
double expected_lost(const FailureModel& model, double interval_seconds);
// Until so many failures have struck, at least, and the interval then under way has ended.
FailureRun simulate_failures(const FailureModel& model, double interval_seconds, int64_t failures);

}  // namespace millrace
