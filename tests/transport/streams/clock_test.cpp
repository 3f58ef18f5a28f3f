// How a wait spends its time, alone and where somebody rings: counted on a clock that passes only in waits.
#include "transport/streams/clock.h"

#include <gtest/gtest.h>

#include "tests/transport/virtual_clock.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing_support::VirtualClock;

// Rings at one moment.
class RingsAt final : public Waker {
 public:
  RingsAt(VirtualClock& clock, Instant moment) : clock_(clock), moment_(moment) {}

  bool sleep(Nanoseconds at_most) override {
    ++sleeps;
    longest = std::max(longest, at_most);
    const bool rings = moment_ > clock_.now() && moment_ <= clock_.now() + at_most;
    clock_.advance(rings ? moment_ - clock_.now() : at_most);
    return rings;
  }

  bool crowded() const override { return in_crowd; }

  bool in_crowd = false;
  int sleeps = 0;
  Nanoseconds longest{};

 private:
  VirtualClock& clock_;
  Instant moment_;
};

// Pauses until then; how many.
int pauses_until(Patience& patience, VirtualClock& clock, Instant moment, bool idle = true) {
  int pauses = 0;
  for (; clock.now() < moment; ++pauses) patience.pause(kNoInstant, Nanoseconds::max(), idle);
  return pauses;
}

TEST(Patience, LooksMoreAndMoreRarelyWhereNobodyRings) {
  VirtualClock clock;
  const Instant begin = clock.now();
  Patience patience(clock);
  EXPECT_GT(pauses_until(patience, clock, begin + 8ms), 80);
  EXPECT_LE(clock.now() - begin, 9ms);
}

TEST(Patience, SleepsUntilItRings) {
  VirtualClock clock;
  const Instant moment = clock.now() + 4321us;
  RingsAt waker(clock, moment);
  Patience patience(clock, &waker);
  EXPECT_LE(pauses_until(patience, clock, moment), 60);  // most of them in the 50 us before the first sleep
  EXPECT_EQ(clock.now(), moment);
  EXPECT_LE(waker.sleeps, 8);
  // What came may be a part: it looks eagerly for the rest, and sleeps only when that keeps it waiting.
  const int sleeps = waker.sleeps;
  pauses_until(patience, clock, moment + 40us);
  EXPECT_EQ(waker.sleeps, sleeps);
  pauses_until(patience, clock, moment + 1s);
  EXPECT_GT(waker.sleeps, sleeps);
  EXPECT_EQ(waker.longest, 5ms);
}

TEST(Patience, SleepsAtOnceInACrowd) {
  VirtualClock clock;
  const Instant moment = clock.now() + 30us;
  RingsAt waker(clock, moment);
  waker.in_crowd = true;
  Patience patience(clock, &waker);
  EXPECT_EQ(pauses_until(patience, clock, moment), 1);
  EXPECT_EQ(clock.now(), moment);
  pauses_until(patience, clock, moment + 30us);
  EXPECT_EQ(waker.sleeps, 2);
}

TEST(Patience, WakesForWhatIsKnownToHappen) {
  VirtualClock clock;
  const Instant event = clock.now() + 700us;
  RingsAt waker(clock, Instant{});
  Patience patience(clock, &waker);
  while (clock.now() < event) patience.pause(event);
  EXPECT_EQ(clock.now(), event);
}

TEST(Patience, DoesNotSleepWhileSomethingOfItsOwnIsLeaving) {
  VirtualClock clock;
  RingsAt waker(clock, Instant{});
  Patience patience(clock, &waker);
  pauses_until(patience, clock, clock.now() + 3ms, /*idle=*/false);
  EXPECT_EQ(waker.sleeps, 0);
}

}  // namespace
}  // namespace millrace
