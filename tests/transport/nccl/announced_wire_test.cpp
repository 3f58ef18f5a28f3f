#include "transport/nccl/announced_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/transport/nccl/fake_lines.h"
#include "tests/transport/random_life.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"
#include "transport/nccl/announcement.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::both_ways;
using testing_support::Dice;
using testing_support::FakeLines;
using testing_support::fill;
using testing_support::holds;

template <typename Action>
std::string error_text(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Announcement, ReadsWhatWasWritten) {
  for (const Announcement& announcement :
       {Announcement{}, Announcement{7, 4096, 12},
        Announcement{std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max(), std::numeric_limits<int64_t>::min()}}) {
    std::array<std::byte, kAnnouncementBytes + 3> bytes{};
    write_announcement(announcement, bytes.data());
    EXPECT_EQ(parse_announcement(bytes, "rank 1"), announcement);
  }
}

TEST(Announcement, LiesLittleEndianAtFixedPlaces) {
  std::array<std::byte, kAnnouncementBytes> bytes{};
  write_announcement({.ordinal = 0x0102, .bytes = 0x030405, .tag = -2}, bytes.data());
  EXPECT_EQ(bytes[0], std::byte{'M'});
  EXPECT_EQ(bytes[3], std::byte{'N'});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(bytes[8], std::byte{2});
  EXPECT_EQ(bytes[9], std::byte{1});
  EXPECT_EQ(bytes[16], std::byte{5});
  EXPECT_EQ(bytes[24], std::byte{0xfe});
  EXPECT_EQ(bytes[31], std::byte{0xff});
}

TEST(Announcement, RefusesWhatItCannotHaveWritten) {
  std::array<std::byte, kAnnouncementBytes> bytes{};
  write_announcement({1, 2, 3}, bytes.data());
  for (size_t shorter = 0; shorter < kAnnouncementBytes; ++shorter)
    EXPECT_THAT(error_text([&] { parse_announcement({bytes.data(), shorter}, "rank 1"); }), HasSubstr("rank 1: an announcement of"));
  for (size_t at = 0; at < 8; ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    EXPECT_THAT(error_text([&] { parse_announcement(damaged, "rank 1"); }), HasSubstr("expected")) << at;
  }
}

// A device queue that notes what it is told, and is ready and done when the test says so.
struct NotedQueue final : TransferQueue {
  bool can_launch() override { return room > 0; }
  void launch(const Transfer& transfer) override {
    --room;
    launched.push_back(transfer.slot);
  }
  bool take_finished() override { return done > 0 && done-- > 0; }
  void in_use(std::byte*) override {}
  void leave() noexcept override {}
  int room = 0;
  int done = 0;
  std::vector<size_t> launched;
};

TEST(AnnouncedLine, LaunchesInTheOrderOfTheSenderWhateverArrivesFirst) {
  auto owned = std::make_unique<NotedQueue>();
  NotedQueue& queue = *owned;
  AnnouncedLine line("receiving from rank 1 (forward)", std::move(owned));
  std::vector<Transfer> finished;
  queue.room = 10;
  line.receive(2, {.slot = 102});
  line.receive(1, {.slot = 101});
  line.progress(finished);
  EXPECT_THAT(queue.launched, ElementsAre());
  EXPECT_FALSE(line.idle());
  line.receive(0, {.slot = 100});
  line.progress(finished);
  EXPECT_THAT(queue.launched, ElementsAre(100, 101, 102));
  EXPECT_TRUE(finished.empty());
  queue.done = 2;
  line.progress(finished);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0].slot, 100u);
  EXPECT_EQ(finished[1].slot, 101u);
  queue.done = 1;
  line.progress(finished);
  EXPECT_TRUE(line.idle());
}

TEST(AnnouncedLine, LaunchesNoMoreThanTheQueueTakes) {
  auto owned = std::make_unique<NotedQueue>();
  NotedQueue& queue = *owned;
  AnnouncedLine line("sending to rank 1 (forward)", std::move(owned));
  std::vector<Transfer> finished;
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(line.send({.slot = i}), i);
  line.progress(finished);
  EXPECT_THAT(queue.launched, ElementsAre());
  queue.room = 3;
  line.progress(finished);
  EXPECT_THAT(queue.launched, ElementsAre(0, 1, 2));
  queue.room = 3;
  line.progress(finished);
  EXPECT_THAT(queue.launched, ElementsAre(0, 1, 2, 3));
}

TEST(AnnouncedLine, RefusesAnAnnouncementThatComesTwice) {
  auto owned = std::make_unique<NotedQueue>();
  owned->room = 1;
  AnnouncedLine line("receiving from rank 1 (forward)", std::move(owned));
  std::vector<Transfer> finished;
  line.receive(0, {});
  line.receive(3, {});
  EXPECT_THAT(error_text([&] { line.receive(3, {}); }), HasSubstr("receiving from rank 1 (forward): payload 3 was announced twice"));
  line.progress(finished);
  EXPECT_THAT(error_text([&] { line.receive(0, {}); }), HasSubstr("payload 0 was announced twice; 1 is the next"));
}

// Brings what has arrived as late as it likes: each channel's frames in order, those of different channels in any.
class ShufflingWire final : public Wire {
 public:
  ShufflingWire(std::unique_ptr<Wire> below, uint64_t seed) : Wire(below->rank(), below->ranks()), below_(std::move(below)), dice_(seed) {}
  Channel& open(const ChannelSpec& spec) override { return below_->open(spec); }
  Instant progress(std::vector<Arrival>& arrivals) override {
    below_->progress(held_);
    for (size_t i = 0; i < held_.size();) {
      const bool first = std::none_of(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&](const Arrival& before) { return before.token == held_[i].token; });
      if (!first || dice_.chance(0.6)) {
        ++i;
        continue;
      }
      arrivals.push_back(held_[i]);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return kNoInstant;
  }

 private:
  std::unique_ptr<Wire> below_;
  Dice dice_;
  std::vector<Arrival> held_;
};

// Flows on the accelerator and flows in host memory, both ways; returns when every message has arrived whole and in order.
void exchange(Transport& first, Transport& second, const FlowTable& table, int64_t messages, uint64_t seed) {
  Dice dice(seed);
  const auto seed_of = [&](size_t flow, int64_t n) { return 1000 * flow + static_cast<uint64_t>(n); };
  const auto bytes_of = [&](size_t flow, int64_t n) {
    return (static_cast<size_t>(n) * 37 + flow * 11) % (table.flows[flow].most_bytes + 1);
  };
  std::vector<int64_t> sent(table.flows.size()), received(table.flows.size());
  for (int round = 0; round < 100000; ++round) {
    if (std::ranges::all_of(received, [&](int64_t n) { return n == messages; })) return;
    for (size_t f = 0; f < table.flows.size(); ++f) {
      Transport& from = table.flows[f].from == 0 ? first : second;
      Transport& to = table.flows[f].from == 0 ? second : first;
      const auto flow = static_cast<int64_t>(f);
      if (sent[f] < messages && dice.chance(0.5) && from.can_send(flow)) {
        const size_t bytes = bytes_of(f, sent[f]);
        fill(from.begin_send(flow).first(bytes), seed_of(f, sent[f]));
        from.commit_send(flow, {.index = sent[f]}, bytes);
        ++sent[f];
      }
      if (dice.chance(0.5) && to.has_message(flow)) {
        const auto payload = to.begin_receive(flow, {.index = received[f]}, bytes_of(f, received[f]));
        EXPECT_TRUE(holds(payload, seed_of(f, received[f]))) << "flow " << f << " message " << received[f];
        to.release(flow);
        ++received[f];
      }
    }
    (dice.chance(0.5) ? first : second).progress();
  }
  FAIL() << "messages are stuck";
}

TEST(AnnouncedWire, CarriesFlowsOfBothKindsInOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FakeLines lines;
    lines.looks_per_launch = static_cast<int>(seed % 3);
    lines.looks_until_there = static_cast<int>(seed % 5) * 4;
    LocalHub hub(2);
    FlowTable table = both_ways(2, 600, 1 + static_cast<int64_t>(seed % 3));
    table.flows.push_back(table.flows[0]);
    table.flows.push_back(table.flows[1]);
    table.flows.push_back(table.flows[0]);
    for (size_t f = 0; f < table.flows.size(); ++f) {
      table.flows[f].tensor += std::to_string(f);
      table.flows[f].device_memory = f != 2;
      table.flows[f].most_bytes += 100 * f;
    }
    {
      const auto wire = [&](int64_t rank) {
        return std::make_unique<AnnouncedWire>(std::make_unique<ShufflingWire>(hub.wire(rank), seed + 7), lines.device(rank));
      };
      Transport first(wire(0)), second(wire(1));
      first.open(table);
      second.open(table);
      exchange(first, second, table, 60, seed);
      EXPECT_EQ(first.counters(0).sent.messages, 60);
    }
    EXPECT_EQ(lines.mismatches, 0);
    EXPECT_EQ(lines.left, 4);
    EXPECT_FALSE(lines.in_use.empty());
  }
}

// Channel of rank 0 to rank 1.
ChannelSpec channel(bool outgoing, size_t token = 0) {
  return {
      .peer = outgoing ? 1 : 0, .tag = 5, .outgoing = outgoing, .payload_bytes = 256, .slots = 2, .device_memory = true, .token = token};
}

TEST(AnnouncedWire, AFrameHasLeftWhenItsPayloadHas) {
  FakeLines lines;
  LocalHub hub(2);
  AnnouncedWire first(hub.wire(0), lines.device(0)), second(hub.wire(1), lines.device(1));
  Channel& from = first.open(channel(true));
  Channel& to = second.open(channel(false, 42));
  std::vector<Arrival> arrivals;
  EXPECT_TRUE(from.sent(0));
  write_header({.flow = 3, .bytes = 256}, from.slot(0).header);
  fill({from.slot(0).payload, 256}, 9);
  from.send(0, 256);
  first.progress(arrivals);
  EXPECT_FALSE(from.sent(0));
  EXPECT_TRUE(from.sent(1));
  second.progress(arrivals);
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals[0].token, 42u);
  EXPECT_EQ(arrivals[0].frame_bytes, kFrameHeaderBytes + 256);
  EXPECT_EQ(parse_header({to.slot(0).header, kFrameHeaderBytes}, 256, "rank 0").flow, 3u);
  EXPECT_TRUE(holds({to.slot(0).payload, 256}, 9));
  to.receive_again(0);
  EXPECT_FALSE(from.sent(0));
  first.progress(arrivals);
  EXPECT_TRUE(from.sent(0));
  EXPECT_THAT(lines.in_use, ElementsAre(from.slot(0).payload, to.slot(0).payload));
}

TEST(AnnouncedWire, RefusesWhatDoesNotFitTheChannel) {
  for (const Announcement& wrong : {Announcement{0, 257, 5}, Announcement{0, 256, 6}}) {
    FakeLines lines;
    LocalHub hub(2);
    const std::unique_ptr<Wire> first = hub.wire(0);
    AnnouncedWire second(hub.wire(1), lines.device(1));
    second.open(channel(false));
    ChannelSpec host = channel(true);
    host.device_memory = false;
    host.payload_bytes = kAnnouncementBytes;
    Channel& from = first->open(host);
    write_announcement(wrong, from.slot(0).payload);
    from.send(0, kAnnouncementBytes);
    std::vector<Arrival> arrivals;
    EXPECT_THAT(error_text([&] { second.progress(arrivals); }), HasSubstr("receiving from rank 0 (forward): 25"));
  }
}

}  // namespace
}  // namespace millrace
