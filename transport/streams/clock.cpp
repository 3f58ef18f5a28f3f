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
constexpr Nanoseconds kFirstSleepInCrowd = 200us;
constexpr Nanoseconds kLongestSleep = 5ms;  // a bell that is not rung costs no more

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
  const bool crowded = waker_ != nullptr && waker_->crowded();
  if (!crowded && now_ - idle_since_ < kYieldWhenIdle) {
    clock_.yield();
    return;
  }
  napping_ = true;
  // What still leaves may go on only while it is asked after. In a crowd its receiver needs the core first.
  const bool may_sleep = waker_ != nullptr && (idle || crowded);
  const Nanoseconds longest = may_sleep ? std::clamp(now_ - idle_since_, crowded ? kFirstSleepInCrowd : kYieldWhenIdle, kLongestSleep)
                                        : std::clamp(waited() / 8, kShortestNap, kLongestNap);
  Nanoseconds nap = std::min(at_most, longest);
  if (next_event != kNoInstant) nap = std::min(nap, next_event - now_);
  rest(nap, may_sleep);
}

void Patience::rest(Nanoseconds nap, bool may_sleep) {
  if (nap <= 0ns)
    clock_.yield();
  else if (!may_sleep)
    clock_.nap(nap);
  else if (waker_->sleep(nap))
    idle_since_ = clock_.now();
}

}  // namespace millrace
