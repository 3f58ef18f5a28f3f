// Time that passes only when somebody naps, yields or says so: waits and links can be tested to the nanosecond.
//
//   VirtualClock clock;
//   clock.at_nap = [&] { other.progress(); };          // what happens meanwhile
//   transport.wait(...);
//   EXPECT_EQ(clock.now(), 30s);
//
// For one thread.
#pragma once

#include <functional>

#include "transport/streams/clock.h"

namespace millrace::testing_support {

class VirtualClock final : public Clock {
 public:
  Instant now() override { return now_; }
  void yield() override { nap(std::chrono::microseconds(1)); }
  void nap(Nanoseconds duration) override {
    now_ += duration;
    if (at_nap) at_nap();
  }
  void advance(Nanoseconds duration) { now_ += duration; }

  std::function<void()> at_nap;

 private:
  Instant now_ = std::chrono::seconds(1000);
};

}  // namespace millrace::testing_support
