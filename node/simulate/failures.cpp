#include "node/simulate/failures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/random.h"

namespace millrace {
namespace {

constexpr double kNanoseconds = 1e9;
constexpr double kMostSeconds = 1e9;
constexpr int64_t kMostTime = int64_t{1} << 62;
// Intervals that a ring gets through once in so many times (e^20) never end.
constexpr double kHopeless = 20;

void check(const FailureModel& model, double interval) {
  const auto time = [](const char* what, double seconds, bool zero) {
    if (!(seconds >= (zero ? 0 : 1e-6) && seconds <= kMostSeconds))
      fail(ErrorCode::kUsage, "{} of {:g} s: it lies between {} and 1e9 s", what, seconds, zero ? "0" : "1e-06");
  };
  if (model.devices < 1) fail(ErrorCode::kUsage, "{} devices fail: one at least", model.devices);
  time("a device's time between failures", model.device_mtbf_seconds, false);
  time("a checkpoint", model.checkpoint_seconds, false);
  time("a restart", model.restart_seconds, true);
  time("an interval between checkpoints", interval, false);
  const double attempt = std::max(interval + model.checkpoint_seconds, model.restart_seconds);
  if (attempt > kHopeless * model.ring_mtbf_seconds())
    fail(ErrorCode::kUsage,
         "{} devices fail every {:.3g} s on average: {:.3g} s without a failure, for an interval and its checkpoint or a restart, never "
         "come; "
         "take less",
         model.devices, model.ring_mtbf_seconds(), attempt);
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * kNanoseconds); }

// Who fails next, and when: a clock for each device.
class Failures {
 public:
  explicit Failures(const FailureModel& model)
      : mean_(model.device_mtbf_seconds), draw_(model.seed, stream_id("simulate", "failures")), drawn_(to_size(model.devices)) {
    for (int64_t device = 0; device < model.devices; ++device) push(device, 0);
  }

  int64_t next() const { return clocks_.top().first; }
  void strike() {
    const auto [time, device] = clocks_.top();
    clocks_.pop();
    push(device, time);
  }

 private:
  void push(int64_t device, int64_t after) {
    const uint64_t element = (static_cast<uint64_t>(device) << 40U) + item(drawn_, device)++;
    const auto words = draw_.block(element);
    const uint64_t bits = ((static_cast<uint64_t>(words[0]) << 32U) | words[1]) >> 11U;
    const double uniform = (static_cast<double>(bits) + 0.5) * 0x1p-53;
    const int64_t time = std::max<int64_t>(1, nanoseconds(std::min(-std::log(uniform) * mean_, 4 * kMostSeconds)));
    clocks_.emplace(std::min(after, kMostTime - time) + time, device);
  }

  double mean_;
  Philox draw_;
  std::vector<uint64_t> drawn_;
  using Clock = std::pair<int64_t, int64_t>;
  std::priority_queue<Clock, std::vector<Clock>, std::greater<>> clocks_;
};

}  // namespace

double young_interval(const FailureModel& model) { return std::sqrt(2 * model.checkpoint_seconds * model.ring_mtbf_seconds()); }

double daly_interval(const FailureModel& model) {
  const double mean = model.ring_mtbf_seconds();
  const double cost = model.checkpoint_seconds;
  if (cost >= 2 * mean) return mean;
  return std::sqrt(2 * cost * mean) * (1 + std::sqrt(cost / (2 * mean)) / 3 + cost / (18 * mean)) - cost;
}

double expected_lost(const FailureModel& model, double interval_seconds) {
  check(model, interval_seconds);
  const double mean = model.ring_mtbf_seconds();
  const double expected = mean * std::exp(model.restart_seconds / mean) * std::expm1((interval_seconds + model.checkpoint_seconds) / mean);
  return 1 - interval_seconds / expected;
}

FailureRun simulate_failures(const FailureModel& model, double interval_seconds, int64_t failures) {
  check(model, interval_seconds);
  Failures clocks(model);
  const int64_t attempt = nanoseconds(interval_seconds) + nanoseconds(model.checkpoint_seconds);
  const int64_t restart = nanoseconds(model.restart_seconds);
  FailureRun run;
  int64_t now = 0;
  while (run.failures < failures && now < kMostTime - attempt) {
    int64_t done = now + attempt;
    while (clocks.next() < done) {
      // Struck: again from the restart on, as often as it takes.
      now = clocks.next();
      clocks.strike();
      ++run.failures;
      done = now + restart + attempt;
    }
    now = done;
    ++run.checkpoints;
  }
  run.seconds = static_cast<double>(now) / kNanoseconds;
  run.lost = 1 - static_cast<double>(run.checkpoints) * interval_seconds / run.seconds;
  return run;
}

}  // namespace millrace
