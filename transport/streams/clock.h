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
inline constexpr Instant kNoInstant = Instant::max();

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() = 0;
  // Lets others run and comes back soon.
  virtual void yield() = 0;
  virtual void nap(Nanoseconds duration) = 0;
};

Clock& machine_clock();

// Ends a sleep when something comes.
class Waker {
 public:
  virtual ~Waker() = default;
  // Until something came that the last look did not see, a signal, or so long. True when something came.
  virtual bool sleep(Nanoseconds at_most) = 0;
  // There are fewer cores than may want them: who asks again and again keeps somebody from working.
  virtual bool crowded() const = 0;
};

// How a wait spends its time: it yields for at most 50 us, then naps for an eighth of the time it has waited, at most 1 ms, and
// never past something that is known to happen. Ranks that share cores stay out of each other's way, and a wait is late by
// an eighth of its length at most, and by what a nap costs (some 15 us on a virtual machine). While a large message of its own
// is still leaving, a rank is not idle, for 250 us at most: the answer may come as soon as that has arrived.
// With a waker it sleeps instead, for as long again as it has waited, at most 5 ms, and begins anew when it is woken, for what has
// come may have come in part: a wait is late by no more than waking takes, and looks a handful of times however long it is. Where
// it is crowded it sleeps at once.
//
//   Patience patience(clock);
//   while (!ready()) patience.pause(next_event);
class Patience {
 public:
  // The wait begins now.
  explicit Patience(Clock& clock, Waker* waker = nullptr) : clock_(clock), waker_(waker), started_(clock.now()), now_(started_) {}

  // `next_event`: when something already known will happen, kNoInstant when nothing is. `at_most`: no longer than this.
  void pause(Instant next_event, Nanoseconds at_most = Nanoseconds::max(), bool idle = true);
  // At the last pause.
  Instant now() const { return now_; }
  Nanoseconds waited() const { return now_ - started_; }
  // True once in a while, for what costs more than a poll.
  bool napping() const { return napping_; }

 private:
  void rest(Nanoseconds nap, bool may_sleep);

  Clock& clock_;
  Waker* waker_;
  Instant started_;
  Instant now_;
  Instant idle_since_ = started_;
  bool napping_ = false;
};

}  // namespace millrace
