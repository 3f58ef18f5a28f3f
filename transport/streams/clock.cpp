#include "transport/streams/clock.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

namespace millrace {

namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kYieldWhenIdle = 50us;
constexpr Nanoseconds kBusyAtMost = 250us;
constexpr Nanoseconds kShortestNap = 5us;
constexpr Nanoseconds kLongestNap = 1ms;

class MachineClock final : public Clock {
 public:
  Instant now() override {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
  }
  void yield() override { sched_yield(); }
  void nap(Nanoseconds duration) override {
    // By default the kernel rounds naps up by 50 us; it is a property of the thread.
    static thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1UL);
    static_cast<void>(precise);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
    const timespec time{.tv_sec = seconds.count(), .tv_nsec = (duration - seconds).count()};
    nanosleep(&time, nullptr);  // a signal may end it early: the caller looks again anyway
  }
};

}  // namespace

Clock& machine_clock() {
  static MachineClock clock;
  return clock;
}

void Patience::pause(Instant next_event, Nanoseconds at_most, bool idle) {
  now_ = clock_.now();
  if (!idle && waited() < kBusyAtMost) idle_since_ = now_;
  if (now_ - idle_since_ < kYieldWhenIdle) {
    clock_.yield();
    return;
  }
  napping_ = true;
  Nanoseconds nap = std::min(at_most, std::clamp(waited() / 8, kShortestNap, kLongestNap));
  if (next_event != kNever) nap = std::min(nap, next_event - now_);
  if (nap > 0ns)
    clock_.nap(nap);
  else
    clock_.yield();
}

}  // namespace millrace
