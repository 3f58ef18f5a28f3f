#include "node/simulate/rank_watch.h"

#include <time.h>

namespace millrace::simulation {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

RankWatch::RankWatch(int64_t first_device) : wall_(seconds_of(CLOCK_MONOTONIC)), processor_(seconds_of(CLOCK_THREAD_CPUTIME_ID)) {
  work_.first_device = first_device;
}

void RankWatch::pause() { paused_ = seconds_of(CLOCK_MONOTONIC); }

void RankWatch::resume() { work_.waiting_seconds += seconds_of(CLOCK_MONOTONIC) - paused_; }

SimulatedRank RankWatch::stop(const Engine& engine) {
  work_.seconds = seconds_of(CLOCK_MONOTONIC) - wall_;
  work_.processor_seconds = seconds_of(CLOCK_THREAD_CPUTIME_ID) - processor_;
  work_.events = engine.events();
  return work_;
}

}  // namespace millrace::simulation
