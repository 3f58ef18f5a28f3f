// Two ranks in one thread, on a clock that passes only in waits: what is sent, what is refused, and what is said.
#include "transport/streams/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/transport/faulty_wire.h"
#include "tests/transport/rings.h"
#include "tests/transport/virtual_clock.h"
#include "transport/local/local_wire.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::both_ways;
using testing_support::error_of;
using testing_support::Fault;
using testing_support::FaultyWire;
using testing_support::fill;
using testing_support::holds;
using testing_support::VirtualClock;

constexpr size_t kSmall = 100;      // shares the link's lane
constexpr size_t kLarge = 1 << 16;  // has slots of its own

// Rank 0 with device 0, rank 1 with device 1; flow 0 forward, flow 1 backward.
struct Pair {
  explicit Pair(size_t bytes, int64_t credits = 2, TransportSettings settings = {}) {
    auto faulty = std::make_unique<FaultyWire>(hub.wire(0));
    wire = faulty.get();
    first = std::make_unique<Transport>(std::move(faulty), settings, clock);
    second = std::make_unique<Transport>(hub.wire(1), settings, clock);
    first->open(both_ways(2, bytes, credits));
    second->open(both_ways(2, bytes, credits));
  }
  void progress() {
    for (int i = 0; i < 3; ++i) {
      first->progress();
      second->progress();
    }
  }
  // Message n of flow 0.
  void send(int64_t n, size_t bytes) {
    const std::span<std::byte> slot = first->begin_send(0);
    fill(slot.first(bytes), static_cast<uint64_t>(n));
    first->commit_send(0, {.index = n}, bytes);
  }

  VirtualClock clock;
  LocalHub hub{2};
  FaultyWire* wire = nullptr;
  std::unique_ptr<Transport> first, second;
};

class BothSizes : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Transport, BothSizes, testing::Values(kSmall, kLarge));

TEST_P(BothSizes, MessagesArriveWholeAndInOrder) {
  Pair pair(GetParam());
  EXPECT_FALSE(pair.second->has_message(0));
  pair.send(0, GetParam());
  pair.send(1, 1);
  pair.progress();
  const Message message = pair.second->begin_receive(0);
  EXPECT_EQ(message.id, (MessageId{0, -1}));
  EXPECT_EQ(message.payload.size(), GetParam());
  EXPECT_TRUE(holds(message.payload, 0));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(message.payload.data()) % 64, 0u);
  pair.second->release(0);
  EXPECT_TRUE(holds(pair.second->begin_receive(0, {.index = 1}, 1), 1));
  pair.second->release(0);
  EXPECT_FALSE(pair.second->has_message(0));
  EXPECT_EQ(pair.first->counters(0).sent, (Count{2, static_cast<int64_t>(GetParam()) + 1}));
  EXPECT_EQ(pair.second->counters(0).received, pair.first->counters(0).sent);
  EXPECT_EQ(pair.first->counters(Stream::kActivation).sent, pair.first->counters(0).sent);
  EXPECT_EQ(pair.first->counters(Stream::kError), FlowCounters{});
}

TEST_P(BothSizes, CreditsBoundWhatIsOnTheWay) {
  Pair pair(GetParam(), 3);
  for (int64_t n = 0; n < 3; ++n) {
    ASSERT_TRUE(pair.first->can_send(0));
    pair.send(n, 8);
    pair.progress();
  }
  EXPECT_FALSE(pair.first->can_send(0));
  pair.second->begin_receive(0);
  pair.progress();
  EXPECT_FALSE(pair.first->can_send(0)) << "read, but not released";
  pair.second->release(0);
  EXPECT_FALSE(pair.first->can_send(0)) << "released, but not told";
  pair.progress();
  EXPECT_TRUE(pair.first->can_send(0));
  pair.send(3, 8);
  pair.progress();
  EXPECT_FALSE(pair.first->can_send(0));
}

TEST_P(BothSizes, ACreditRidesOnAMessageThatGoesTheSameWay) {
  Pair pair(GetParam(), 1);
  pair.send(0, 8);
  pair.second->progress();
  pair.second->begin_receive(0);
  pair.second->release(0);
  int frames = 0;
  pair.wire->at_send = [&](Slot, size_t) {
    ++frames;
    return Fault::kNone;
  };
  pair.second->begin_send(1);
  pair.second->commit_send(1, {.index = 0}, 8);
  pair.first->progress();
  EXPECT_TRUE(pair.first->has_message(1));
  EXPECT_TRUE(pair.first->can_send(0)) << "before rank 1 made progress";
}

TEST_P(BothSizes, ChecksumsCoverMessages) {
  for (const bool checksums : {false, true}) {
    Pair pair(GetParam(), 2, {.checksums = checksums});
    pair.wire->at_send = [](Slot slot, size_t bytes) {
      if (bytes == 8) slot.payload[5] ^= std::byte{16};
      return Fault::kNone;
    };
    pair.send(0, 4);
    pair.progress();
    pair.send(1, 8);
    const std::string said = error_of([&] { pair.second->progress(); }, ErrorCode::kMismatch);
    if (checksums)
      EXPECT_THAT(
          said,
          AllOf(
              HasSubstr(
                  "flow 0 (activation \"layer0\" from device 0 to 1), message 1 was damaged on the way: the checksum of what arrived is "),
              HasSubstr("the one sent along ")));
    else
      EXPECT_EQ(said, "");
  }
}

TEST_P(BothSizes, FramesOutOfOrderAreNoticed) {
  Pair pair(GetParam(), 4);
  pair.wire->at_send = [](Slot slot, size_t) {
    slot.header[16] ^= std::byte{1};  // the sequence number
    return Fault::kNone;
  };
  pair.send(0, 8);
  EXPECT_THAT(error_of([&] { pair.second->progress(); }, ErrorCode::kMismatch),
              HasSubstr("flow 0 (activation \"layer0\" from device 0 to 1): message 1 arrived where message 0 was due"));
}

TEST_P(BothSizes, ALostFrameEndsTheWaitForIt) {
  Pair pair(GetParam(), 4, {.deadline = 1s});
  pair.wire->at_send = [](Slot, size_t) { return Fault::kLose; };
  pair.send(0, 8);
  const std::array wanted = {Interest{Want::kMessage, 0, {.index = 0}}};
  EXPECT_THAT(error_of([&] { pair.second->wait(wanted); }, ErrorCode::kTimeout), HasSubstr("micro-batch 0 (flow 0, message 0"));
}

TEST_P(BothSizes, FramesCutShortAreNoticed) {
  Pair pair(GetParam());
  pair.wire->at_send = [](Slot, size_t) { return Fault::kCutShort; };
  pair.send(0, 80);
  EXPECT_THAT(error_of([&] { pair.second->progress(); }, ErrorCode::kMalformed),
              HasSubstr("a frame from rank 0 for flow 0 announces 80 bytes and brings 40"));
}

// Every bit of every header, flipped: an Error, or (stamp and spare room in ids aside) a message that says so itself. Never a
// crash, and with checksums always an Error unless the stamp was hit.
TEST_P(BothSizes, NoFlippedBitOfAHeaderGoesUnnoticed) {
  for (const bool checksums : {false, true})
    for (size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
      Pair pair(GetParam(), 2, {.checksums = checksums});
      pair.wire->at_send = [&](Slot slot, size_t) {
        slot.header[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        return Fault::kNone;
      };
      pair.send(0, 8);
      bool noticed = false;
      try {
        pair.second->progress();
        pair.second->begin_receive(0, {.index = 0}, 8);
      } catch (const Error& error) {
        noticed = error.code() == ErrorCode::kMismatch || error.code() == ErrorCode::kMalformed;
      }
      const size_t byte = bit / 8;
      const bool silent = byte >= 56 || (!checksums && byte >= 48);  // stamp; a count without a flow, an unused checksum
      EXPECT_EQ(noticed, !silent) << "bit " << bit << (checksums ? " with" : " without") << " checksums";
    }
}

TEST(Transport, OtherPlansAreNoticed) {
  Pair pair(kSmall);
  auto table = both_ways(2, kSmall, 2);
  table.plan_digest = "another";
  LocalHub hub(2);
  Transport first(hub.wire(0), {}, pair.clock);
  Transport second(hub.wire(1), {}, pair.clock);
  first.open(table);
  second.open(both_ways(2, kSmall, 2));
  first.begin_send(0);
  first.commit_send(0, {}, 8);
  EXPECT_THAT(
      error_of([&] { second.progress(); }, ErrorCode::kMismatch),
      AllOf(HasSubstr("flow 0 (activation \"layer0\" from device 0 to 1): the sender's plan has digest"), HasSubstr("this rank's")));
}

TEST(Transport, OtherSizesAreNoticedWhenChannelsMeet) {
  LocalHub hub(2);
  Transport first(hub.wire(0));
  Transport second(hub.wire(1));
  first.open(both_ways(2, kLarge, 2));
  EXPECT_THAT(error_of([&] { second.open(both_ways(2, kLarge, 3)); }, ErrorCode::kMismatch),
              HasSubstr("2 slots of 65536 bytes at one end, 3 of 65536"));
}

TEST(Transport, OtherSettingsAreNoticed) {
  LocalHub hub(2);
  Transport first(hub.wire(0), {.checksums = true});
  Transport second(hub.wire(1));
  first.open(both_ways(2, kLarge, 2));
  second.open(both_ways(2, kLarge, 2));
  first.begin_send(0);
  first.commit_send(0, {}, 8);
  EXPECT_THAT(error_of([&] { second.progress(); }, ErrorCode::kMismatch), HasSubstr("comes with a checksum, and this rank expects none"));
}

TEST(Transport, TheWrongMicroBatchIsNamed) {
  Pair pair(kSmall);
  pair.send(4, 8);
  pair.progress();
  EXPECT_THAT(error_of([&] { pair.second->begin_receive(0, {.index = 5}, 8); }, ErrorCode::kMismatch),
              HasSubstr("flow 0 (activation \"layer0\" from device 0 to 1): micro-batch 4 (chunk -1) arrived where 5 (chunk -1) was due"));
  Pair other(kSmall);
  other.send(4, 8);
  other.progress();
  EXPECT_THAT(error_of([&] { other.second->begin_receive(0, {.index = 4}, 12); }, ErrorCode::kMismatch),
              HasSubstr("8 bytes arrived for micro-batch 4 where 12 were due"));
}

TEST(TransportDeathTest, MisuseOfTheInterfaceIsAMistakeOfTheProgram) {
  Pair pair(kSmall, 1);
  EXPECT_DEATH(pair.first->begin_receive(1), "no message; ask has_message first");
  EXPECT_DEATH(pair.first->can_send(1), "does not begin on rank 0");
  EXPECT_DEATH(pair.first->commit_send(0, {}, 1), "no message was begun");
  EXPECT_DEATH(
      {
        pair.first->begin_send(0);
        pair.first->commit_send(0, {}, kSmall + 1);
      },
      "at most 100");
  EXPECT_DEATH(
      {
        pair.send(0, 1);
        pair.first->begin_send(0);
      },
      "no credit; ask can_send first");
  EXPECT_DEATH(pair.first->can_send(2), "flow 2 of 2");
}

TEST(Transport, AWaitEndsWithTheLowestOfWhatIsReady) {
  Pair pair(kSmall);
  const std::array wanted = {Interest{Want::kMessage, 0, {.index = 0}}, Interest{Want::kCredit, 1, {.index = 0}}};
  EXPECT_EQ(pair.second->wait(wanted), 1u);
  pair.send(0, 8);
  EXPECT_EQ(pair.second->wait(wanted), 0u);
}

TEST(Transport, AWaitMayBeLimitedOrInterrupted) {
  Pair pair(kSmall);
  const std::array wanted = {Interest{Want::kMessage, 0, {.index = 0}}};
  const Instant before = pair.clock.now();
  EXPECT_EQ(pair.second->wait(wanted, {.at_most = 5ms}), std::nullopt);
  EXPECT_GE(pair.clock.now() - before, 5ms);
  EXPECT_LE(pair.clock.now() - before, 6ms);
  EXPECT_EQ(pair.second->wait(wanted, {.at_most = 0ms}), std::nullopt);

  std::atomic<bool> interrupt = false;
  pair.clock.at_nap = [&] { interrupt = pair.clock.now() - before > 1s; };
  EXPECT_EQ(pair.second->wait(wanted, {.interrupt = &interrupt}), std::nullopt);
  EXPECT_LE(pair.clock.now() - before, 1100ms);
  EXPECT_THAT(pair.second->last_wait(), HasSubstr("activation \"layer0\" of micro-batch 0 (flow 0, message 0, from device 0 to 1)"));
}

TEST(Transport, ASilentNeighbourIsNamedAtTheDeadline) {
  Pair pair(kSmall, 2, {.deadline = 3s});
  pair.send(0, 8);
  pair.progress();
  pair.second->begin_receive(0);
  pair.second->release(0);
  const Instant before = pair.clock.now();
  const std::array wanted = {Interest{Want::kMessage, 0, {.index = 17}}};
  const std::string said = error_of([&] { pair.second->wait(wanted); }, ErrorCode::kTimeout);
  EXPECT_THAT(
      said,
      AllOf(HasSubstr(
                "rank 1 waited 3.0 s (deadline 3 s) for activation \"layer0\" of micro-batch 17 (flow 0, message 1, from device 0 to 1)"),
            HasSubstr("from rank 0, which was silent for 3.0 s")));
  EXPECT_GE(pair.clock.now() - before, 3s);
  EXPECT_LE(pair.clock.now() - before, 3002ms);
}

TEST(Transport, AMissingCreditIsNamedAtTheDeadline) {
  Pair pair(kSmall, 1, {.deadline = 3s});
  pair.send(0, 8);
  const std::array wanted = {Interest{Want::kCredit, 0, {.index = 1, .chunk = 4}}};
  EXPECT_THAT(error_of([&] { pair.first->wait(wanted); }, ErrorCode::kTimeout),
              HasSubstr("a credit to send activation \"layer0\" of micro-batch 1 (chunk 4) (flow 0, message 1, from device 0 to 1; 1 of 1 "
                        "credits are out) from rank 1"));
}

// Rank 1 is alive and waits for rank 0 in turn: both are patient a little longer, and say what the other waits for.
TEST(Transport, ALivingNeighbourGetsAQuarterMore) {
  Pair pair(kSmall, 1, {.deadline = 4s});
  pair.send(0, 8);
  const std::array credit = {Interest{Want::kCredit, 0, {.index = 1}}};
  bool inside = false;
  const Instant before = pair.clock.now();
  pair.clock.at_nap = [&] {
    if (inside) return;
    inside = true;
    // The other's loop: waits for a message of another kind, for a while.
    const std::array message = {Interest{Want::kControl, -1, {}, 99}};
    pair.second->wait(message, {.at_most = 100ms});
    inside = false;
  };
  const std::string said = error_of([&] { pair.first->wait(credit); }, ErrorCode::kTimeout);
  EXPECT_THAT(said, AllOf(HasSubstr("rank 0 waited 5."), HasSubstr("from rank 1, which is alive, last heard "),
                          HasSubstr("waiting for a control message (")));
  EXPECT_GE(pair.clock.now() - before, 5s);
  EXPECT_LE(pair.clock.now() - before, 5500ms);
}

TEST(Transport, DevicesOfOneRankThatWaitForEachOtherAreNamed) {
  VirtualClock clock;
  LocalHub hub(1);
  Transport alone(hub.wire(0), {.deadline = 1s}, clock);
  alone.open(both_ways(3, kSmall, 1));
  const std::array wanted = {Interest{Want::kMessage, 2, {.index = 0}}};
  EXPECT_THAT(error_of([&] { alone.wait(wanted); }, ErrorCode::kTimeout), HasSubstr("its devices wait for each other"));
}

TEST(Transport, NobodyIsBlamedWhileMessagesCome) {
  Pair pair(kSmall, 2, {.deadline = 1s});
  for (int64_t n = 0; n < 50; ++n) {
    int naps = 0;
    pair.clock.at_nap = [&] {
      if (++naps == 300) pair.send(n, 8);  // some 0.25 s later
    };
    const std::array wanted = {Interest{Want::kMessage, 0, {.index = n}}};
    ASSERT_EQ(pair.second->wait(wanted), 0u);
    pair.second->begin_receive(0, {.index = n}, 8);
    pair.second->release(0);
    pair.second->progress();
    pair.first->progress();
  }
}

TEST(Transport, MemoryIsStatedBeforehand) {
  for (const size_t bytes : {size_t{5}, kSmall, size_t{3968}, size_t{3969}, kLarge}) {
    const FlowTable table = both_ways(5, bytes, 3);
    LocalHub hub(2);
    Transport first(hub.wire(0));
    Transport second(hub.wire(1));
    first.open(table);
    second.open(table);
    size_t stated = 0;
    for (int64_t rank = 0; rank < 2; ++rank) stated += memory_of(table, ring_layout(5, 2), rank, {}).total();
    EXPECT_LE(hub.allocated_bytes(), stated);
    EXPECT_THAT(text_of(memory_of(table, ring_layout(5, 2), 0, {})), HasSubstr("bytes at most"));
  }
}

TEST(Transport, ControlGoesRoundTheRing) {
  LocalHub hub(4);
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int64_t r = 0; r < 4; ++r) ranks.push_back(std::make_unique<Transport>(hub.wire(r)));
  const auto progress = [&] {
    for (int i = 0; i < 8; ++i)
      for (auto& rank : ranks) rank->progress();
  };
  const std::string text = "stop at update 12";
  ranks[2]->send_control(1, 5, std::as_bytes(std::span(text)));
  ranks[2]->send_control(1, 5, {});
  ranks[3]->send_control(kEveryRank, 6, {});
  ranks[1]->send_control(1, 7, {});
  progress();
  const auto message = ranks[1]->take_control(5);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->source, 2);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(message->payload.data()), message->payload.size()), text);
  EXPECT_TRUE(ranks[1]->take_control(5)->payload.empty());
  EXPECT_FALSE(ranks[1]->has_control(5));
  for (int64_t r = 0; r < 4; ++r) EXPECT_EQ(ranks[static_cast<size_t>(r)]->has_control(6), r != 3) << r;
  EXPECT_EQ(ranks[1]->take_control(7)->source, 1);
  for (auto& rank : ranks) EXPECT_FALSE(rank->has_control(5));
  EXPECT_NE(error_of([&] { ranks[0]->send_control(4, 1, {}); }, ErrorCode::kUsage), "");
  EXPECT_NE(error_of([&] { ranks[0]->send_control(1, 1, std::vector<std::byte>(4000)); }, ErrorCode::kUsage), "");
}

TEST(Transport, ControlMayWaitForTheOtherRankAndOverflowItsQueue) {
  LocalHub hub(2);
  Transport first(hub.wire(0));
  for (uint32_t n = 0; n < 100; ++n) first.send_control(1, n, {});
  Transport second(hub.wire(1));
  for (int i = 0; i < 100; ++i) {
    second.progress();
    first.progress();
  }
  for (uint32_t n = 0; n < 100; ++n) EXPECT_TRUE(second.take_control(n)) << n;
}

TEST(Transport, AnAbortReachesEverybodyInTheSameWords) {
  LocalHub hub(5);
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int64_t r = 0; r < 5; ++r) ranks.push_back(std::make_unique<Transport>(hub.wire(r)));
  VirtualClock clock;
  ranks[3]->abort(Error(ErrorCode::kNumeric, "the loss is not finite"));
  std::vector<std::string> said(5);
  for (int round = 0; round < 5; ++round)
    for (size_t r = 0; r < 5; ++r)
      if (r != 3 && said[r].empty()) said[r] = error_of([&] { ranks[r]->progress(); }, ErrorCode::kNumeric);
  for (size_t r = 0; r < 5; ++r) EXPECT_EQ(said[r], r == 3 ? "" : "rank 3 ended the job: the loss is not finite") << r;
}

TEST(Transport, ControlFramesOutOfOrderAreNoticed) {
  Pair pair(kSmall);
  pair.wire->at_send = [](Slot slot, size_t) {
    slot.header[16] ^= std::byte{1};
    return Fault::kNone;
  };
  pair.first->send_control(1, 1, {});
  EXPECT_THAT(error_of([&] { pair.second->progress(); }, ErrorCode::kMismatch),
              HasSubstr("control frame 1 arrived from rank 0 where frame 0 was due"));
}

}  // namespace
}  // namespace millrace
