// Links as slow as one says, on a clock that passes only when told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/transport/rings.h"
#include "tests/transport/virtual_clock.h"
#include "transport/local/local_wire.h"
#include "transport/shaping/shaped_wire.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing_support::both_ways;
using testing_support::error_of;
using testing_support::VirtualClock;

constexpr int64_t kHeaderBits = 512;

TEST(LinkLedger, ABitTakesItsTimeAndLatencyIsAddedOnce) {
  LinkLedger ledger({.forward_bits_per_second = 1e9, .backward_bits_per_second = 2e9, .latency = 500ns});
  EXPECT_EQ(ledger.book(Direction::kForward, 1000, 10'000ns), 10'000ns + 1000ns + 500ns);
  EXPECT_EQ(ledger.book(Direction::kForward, 1000, 10'000ns), 10'000ns + 2000ns + 500ns);  // behind the first
  EXPECT_EQ(ledger.book(Direction::kBackward, 1000, 10'000ns), 10'000ns + 500ns + 500ns);  // the other way is free
  EXPECT_EQ(ledger.book(Direction::kForward, 1000, 50'000ns), 50'000ns + 1000ns + 500ns);  // idle meanwhile
}

TEST(LinkLedger, ASharedBudgetBoundsBothDirectionsTogether) {
  LinkLedger ledger({.forward_bits_per_second = 10e9, .backward_bits_per_second = 10e9, .shared_bits_per_second = 15e9});
  constexpr int64_t kFrames = 3000;
  constexpr int64_t kBits = 100'000;
  Instant last = 0ns;
  for (int64_t n = 0; n < kFrames; ++n)
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) last = std::max(last, ledger.book(direction, kBits, 0ns));
  const double seconds = std::chrono::duration<double>(last).count();
  EXPECT_NEAR(2.0 * kFrames * kBits / seconds, 15e9, 0.01e9);

  // One direction alone has all that it can take.
  LinkLedger one({.forward_bits_per_second = 10e9, .backward_bits_per_second = 10e9, .shared_bits_per_second = 15e9});
  for (int64_t n = 0; n < kFrames; ++n) last = one.book(Direction::kForward, kBits, 0ns);
  EXPECT_NEAR(kFrames * kBits / std::chrono::duration<double>(last).count(), 10e9, 0.01e9);
}

TEST(LinkLedger, FractionsOfANanosecondAddUp) {
  LinkLedger ledger({.forward_bits_per_second = 3e12});  // a frame of 1000 bits takes a third of a nanosecond
  Instant last{};
  for (int n = 0; n < 30'000; ++n) last = ledger.book(Direction::kForward, 1000, 0ns);
  EXPECT_EQ(last, 10'000ns);
}

TEST(LinkLedger, RefusesNumbersThatAreNoSpeed) {
  for (const double rate : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_NE(error_of([&] { LinkLedger({.forward_bits_per_second = rate}); }, ErrorCode::kUsage), "");
    EXPECT_NE(error_of([&] { LinkLedger({.shared_bits_per_second = rate}); }, ErrorCode::kUsage), "");
  }
  EXPECT_NE(error_of([&] { LinkLedger({.latency = -1ns}); }, ErrorCode::kUsage), "");
}

TEST(LinkLedger, ThePlansLinksAreTakenOver) {
  Plan plan;
  plan.links.push_back({.from = 0,
                        .to = 1,
                        .forward_bits_per_second = 100,
                        .backward_bits_per_second = 50,
                        .shared_bits_per_second = 120,
                        .latency_picoseconds = 500'499});
  const auto shapes = link_shapes(plan);
  ASSERT_EQ(shapes.size(), 1u);
  EXPECT_EQ(shapes[0].forward_bits_per_second, 100);
  EXPECT_EQ(shapes[0].backward_bits_per_second, 50);
  EXPECT_EQ(shapes[0].shared_bits_per_second, 120);
  EXPECT_EQ(shapes[0].latency, 500ns);
}

// Devices 0 and 1 on one rank or on two; link 0 takes a bit per nanosecond.
struct Shaped {
  Shaped(int64_t ranks, const LinkShape& shape, size_t bytes = 10'000, int64_t credits = 8) : hub(ranks) {
    for (int64_t r = 0; r < ranks; ++r) {
      transports.push_back(std::make_unique<Transport>(std::make_unique<ShapedWire>(hub.wire(r), std::vector<LinkShape>{shape}, clock),
                                                       TransportSettings{}, clock));
      transports.back()->open(both_ways(2, bytes, credits));
    }
  }
  Transport& lower() { return *transports.front(); }
  Transport& upper() { return *transports.back(); }
  void progress() {
    for (auto& transport : transports) transport->progress();
  }
  static void send(Transport& transport, int64_t flow, int64_t n, size_t bytes) {
    transport.begin_send(flow);
    transport.commit_send(flow, {.index = n}, bytes);
  }
  // When the next message of the flow can be read, by looking every nanosecond in between.
  Instant arrival(Transport& transport, int64_t flow) {
    for (int i = 0; i < 1'000'000; ++i) {
      progress();
      if (transport.has_message(flow)) return clock.now();
      clock.advance(1ns);
    }
    return kNoInstant;
  }

  VirtualClock clock;
  LocalHub hub;
  std::vector<std::unique_ptr<Transport>> transports;
};

class OneRankOrTwo : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(ShapedWire, OneRankOrTwo, testing::Values(1, 2));

TEST_P(OneRankOrTwo, MessagesTakeTheirTimeToTheNanosecond) {
  Shaped ring(GetParam(), {.forward_bits_per_second = 1e9, .backward_bits_per_second = 1e9, .latency = 300ns});
  const Instant start = ring.clock.now();
  ring.send(ring.lower(), 0, 0, 1000);
  ring.send(ring.lower(), 0, 1, 500);
  EXPECT_EQ(ring.arrival(ring.upper(), 0) - start, Nanoseconds(8000 + kHeaderBits + 300));
  ring.upper().begin_receive(0, {.index = 0}, 1000);
  ring.upper().release(0);
  EXPECT_EQ(ring.arrival(ring.upper(), 0) - start, Nanoseconds(8000 + 4000 + 2 * kHeaderBits + 300));
}

TEST_P(OneRankOrTwo, BackwardToo) {
  Shaped ring(GetParam(), {.forward_bits_per_second = 1e9, .backward_bits_per_second = 0.5e9, .latency = 300ns});
  const Instant start = ring.clock.now();
  ring.send(ring.upper(), 1, 0, 1000);
  EXPECT_EQ(ring.arrival(ring.lower(), 1) - start, Nanoseconds(2 * (8000 + kHeaderBits) + 300));
}

TEST_P(OneRankOrTwo, AFrameThatNobodyLookedForIsNotDelayedTwice) {
  Shaped ring(GetParam(), {.forward_bits_per_second = 1e9, .backward_bits_per_second = 1e9, .latency = 300ns});
  ring.send(ring.upper(), 1, 0, 1000);
  ring.send(ring.lower(), 0, 0, 1000);
  ring.clock.advance(1ms);
  ring.progress();
  EXPECT_TRUE(ring.lower().has_message(1));
  EXPECT_TRUE(ring.upper().has_message(0));
}

TEST_P(OneRankOrTwo, CreditsTakeTheLinksTimeAsWell) {
  Shaped ring(GetParam(), {.forward_bits_per_second = 1e9, .backward_bits_per_second = 1e9, .latency = 1000ns}, 10'000, 1);
  ring.send(ring.lower(), 0, 0, 100);
  ring.arrival(ring.upper(), 0);
  ring.upper().begin_receive(0);
  ring.upper().release(0);
  const Instant released = ring.clock.now();
  while (!ring.lower().can_send(0) && ring.clock.now() < released + 10us) {
    ring.progress();
    ring.clock.advance(1ns);
  }
  // A frame of one credit: 8 bytes. The last look was a nanosecond ago.
  EXPECT_EQ(ring.clock.now() - released, Nanoseconds(kHeaderBits + 64 + 1000 + 1));
}

TEST_P(OneRankOrTwo, AWaitEndsWhenTheFrameFallsDue) {
  Shaped ring(GetParam(), {.latency = 7'654'321ns});
  const Instant start = ring.clock.now();
  ring.send(ring.lower(), 0, 0, 100);
  const std::array wanted = {Interest{Want::kMessage, 0, {.index = 0}}};
  EXPECT_EQ(ring.upper().wait(wanted), 0u);
  EXPECT_EQ(ring.clock.now() - start, 7'654'321ns);
}

TEST_P(OneRankOrTwo, TheSharedBudgetHoldsAcrossRanks) {
  Shaped ring(GetParam(), {.forward_bits_per_second = 1e9, .backward_bits_per_second = 1e9, .shared_bits_per_second = 1e9}, 10'000, 8);
  const Instant start = ring.clock.now();
  ring.send(ring.lower(), 0, 0, 10'000);
  ring.send(ring.upper(), 1, 0, 10'000);
  const Instant forward = ring.arrival(ring.upper(), 0) - start;
  const Instant backward = ring.arrival(ring.lower(), 1) - start;
  EXPECT_EQ(forward, Nanoseconds(80'000 + kHeaderBits));
  EXPECT_EQ(backward, Nanoseconds(2 * (80'000 + kHeaderBits)));
}

TEST(ShapedWire, OrderIsThatOfTheWireBelow) {
  Shaped ring(2, {.forward_bits_per_second = 1e8, .latency = 10us}, 3000, 4);
  for (int64_t n = 0; n < 4; ++n) ring.send(ring.lower(), 0, n, n == 0 ? 3000 : 10);
  for (int64_t n = 0; n < 4; ++n) {
    ring.arrival(ring.upper(), 0);
    EXPECT_EQ(ring.upper().begin_receive(0).id.index, n);
    ring.upper().release(0);
  }
}

TEST(ShapedWire, LinksWithoutAShapeAndControlAreFree) {
  Shaped ring(2, {});
  ring.send(ring.lower(), 0, 0, 10'000);
  ring.lower().send_control(1, 1, {});
  ring.progress();
  EXPECT_TRUE(ring.upper().has_message(0));
  EXPECT_TRUE(ring.upper().has_control(1));
}

TEST(ShapedWire, ClocksThatDifferAreNoticed) {
  LocalHub hub(2);
  VirtualClock here, there;
  there.advance(1h);
  const std::vector<LinkShape> links = {{.latency = 1us}};
  Transport lower(std::make_unique<ShapedWire>(hub.wire(0), links, here), {}, here);
  Transport upper(std::make_unique<ShapedWire>(hub.wire(1), links, there), {}, there);
  lower.open(both_ways(2, 10, 1));
  upper.open(both_ways(2, 10, 1));
  Shaped::send(upper, 1, 0, 10);
  EXPECT_THAT(error_of([&] { lower.progress(); }, ErrorCode::kUsage), HasSubstr("was sent 3600.000 s in the future"));
}

}  // namespace
}  // namespace millrace
