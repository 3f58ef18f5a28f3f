// Time as waits and shaped links see it, so that tests can bring their own.
//
//   Clock& clock = machine_clock();
//   const Instant until = clock.now() + std::chrono::seconds(30);
//   while (!done() && clock.now() < until) clock.nap(std::chrono::microseconds(50));
//
// The machine's clock is CLOCK_MONOTONIC: the same for all processes of one machine, and thread safe.
#pragma once

#include <chrono>

namespace millrace {

using Nanoseconds = std::chrono::nanoseconds;
// Since the clock's own beginning.
using Instant = std::chrono::nanoseconds;
inline constexpr Instant kNever = Instant::max();

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() = 0;
  // Lets others run and comes back soon.
  virtual void yield() = 0;
  virtual void nap(Nanoseconds duration) = 0;
};

Clock& machine_clock();

// How a wait spends its time: it yields for at most 50 us, then naps of an eighth of the time already
// waited, from 50 us to 1 ms, but never past something that is known to happen. Ranks that share cores stay out of each other's way, and a
// wait is late by an eighth of its length at most.
//
//   Patience patience(clock);
//   while (!ready()) patience.pause(next_event);
class Patience {
 public:
  // The wait begins now.
  explicit Patience(Clock& clock) : clock_(clock), started_(clock.now()), now_(started_) {}

  // `next_event`: when something already known will happen, kNever when nothing is. `at_most`: no longer than this.
  void pause(Instant next_event, Nanoseconds at_most = Nanoseconds::max());
  // At the last pause.
  Instant now() const { return now_; }
  Nanoseconds waited() const { return now_ - started_; }
  // True once in a while, for what costs more than a poll.
  bool napping() const { return napping_; }

 private:
  Clock& clock_;
  Instant started_;
  Instant now_;
  bool napping_ = false;
};

}  // namespace millrace
