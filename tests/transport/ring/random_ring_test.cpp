// Random rings on threads: any flows, sizes, credits and ranks, sent and received in any order. Every message arrives, in
// order and bit by bit; counts are exact; memory stays within what was stated. Runs under the thread sanitizer, too.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"
#include "transport/shaping/shaped_wire.h"
#include "transport/streams/agreement.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing_support::fill;
using testing_support::holds;
using testing_support::outcomes_on_threads;

class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(generator_); }

 private:
  std::mt19937_64 generator_;
};

FlowTable random_table(Dice& dice, int64_t devices) {
  FlowTable table;
  table.devices = devices;
  constexpr Stream kStreams[] = {Stream::kActivation, Stream::kPartial,  Stream::kError,
                                 Stream::kParameter,  Stream::kGradient, Stream::kLabel};
  for (int64_t link = 0; link < devices && devices > 1; ++link)
    for (int64_t f = dice.between(0, 4); f > 0; --f) {
      FlowSpec flow;
      flow.stream = kStreams[dice.between(0, 5)];
      flow.tensor = fmt::format("t{}", table.flows.size());
      flow.from = link;
      flow.to = (link + 1) % devices;
      if (dice.chance(0.5)) std::swap(flow.from, flow.to);
      flow.most_bytes = static_cast<size_t>(dice.chance(0.5) ? dice.between(1, 300) : dice.between(3900, 20'000));
      flow.credits = dice.between(1, 3);
      table.flows.push_back(std::move(flow));
    }
  return table;
}

size_t bytes_of(const FlowSpec& flow, int64_t n) {
  return n % 5 == 0 ? flow.most_bytes : static_cast<size_t>(n * 7919) % (flow.most_bytes + 1);
}
uint64_t seed_of(size_t flow, int64_t n) { return flow * 1'000'003 + static_cast<uint64_t>(n); }
MessageId id_of(int64_t n) { return {n / 3, static_cast<int32_t>(n % 3) - 1}; }

// One rank's life: whatever can be done, in random order, until every message has been sent and received.
void live(Transport& transport, Dice dice, int64_t messages) {
  const FlowTable& table = transport.table();
  const auto here = [&](int64_t device) { return transport.layout().rank_of(device) == transport.rank(); };
  struct State {
    int64_t sent = 0;
    int64_t received = 0;
    bool reading = false;
  };
  std::vector<State> states(table.flows.size());
  const auto act = [&](size_t f) {
    const FlowSpec& flow = table.flows[f];
    const auto number = static_cast<int64_t>(f);
    State& state = states[f];
    if (here(flow.to) && state.reading && dice.chance(0.7)) {
      transport.release(number);
      state.reading = false;
      ++state.received;
      return true;
    }
    if (here(flow.to) && !state.reading && state.received < messages && transport.has_message(number)) {
      const auto payload = transport.begin_receive(number, id_of(state.received), bytes_of(flow, state.received));
      EXPECT_TRUE(holds(payload, seed_of(f, state.received))) << "flow " << f << ", message " << state.received;
      state.reading = true;
      return true;
    }
    if (here(flow.from) && state.sent < messages && transport.can_send(number)) {
      const size_t bytes = bytes_of(flow, state.sent);
      fill(transport.begin_send(number).first(bytes), seed_of(f, state.sent));
      if (dice.chance(0.3)) transport.progress();
      transport.commit_send(number, id_of(state.sent), bytes);
      ++state.sent;
      return true;
    }
    return false;
  };
  for (;;) {
    std::vector<Interest> missing;
    bool open = false;
    bool acted = false;
    for (size_t i = 0; i < states.size(); ++i) {
      const auto f = static_cast<size_t>(dice.between(0, static_cast<int64_t>(states.size()) - 1));
      acted = act(f) || acted;
    }
    for (size_t f = 0; f < states.size(); ++f) {
      const State& state = states[f];
      const auto number = static_cast<int64_t>(f);
      open = open || state.reading;
      if (here(table.flows[f].from) && state.sent < messages) missing.push_back({Want::kCredit, number, id_of(state.sent)});
      if (here(table.flows[f].to) && !state.reading && state.received < messages)
        missing.push_back({Want::kMessage, number, id_of(state.received)});
    }
    if (missing.empty() && !open) return;
    if (acted || open || dice.chance(0.2))
      transport.progress();
    else
      transport.wait(missing);
  }
}

void run_random_ring(uint64_t seed, bool shaped) {
  Dice dice(seed);
  const int64_t devices = dice.between(1, 7);
  const int64_t ranks = dice.between(1, devices);
  const int64_t messages = dice.between(1, 40);
  const FlowTable table = random_table(dice, devices);
  TransportSettings settings;
  settings.checksums = dice.chance(0.5);
  settings.lane_slots = static_cast<size_t>(dice.between(1, 8));
  settings.eager_bytes = dice.chance(0.5) ? 3968 : 256;
  std::vector<LinkShape> shapes;
  if (shaped)
    for (int64_t link = 0; link < devices; ++link)
      shapes.push_back({.forward_bits_per_second = dice.chance(0.5) ? 1e9 : 0.0,
                        .backward_bits_per_second = 2e9,
                        .shared_bits_per_second = dice.chance(0.5) ? 1.5e9 : 0.0,
                        .latency = Nanoseconds(dice.between(0, 20'000))});
  LocalHub hub(ranks);
  size_t stated = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) stated += memory_of(table, ring_layout(devices, ranks), rank, settings).total();

  std::vector<std::vector<FlowCounters>> counters(static_cast<size_t>(ranks), std::vector<FlowCounters>(table.flows.size()));
  const auto outcomes = outcomes_on_threads(ranks, [&](int64_t rank) {
    std::unique_ptr<Wire> wire = hub.wire(rank);
    if (shaped) wire = std::make_unique<ShapedWire>(std::move(wire), shapes);
    Transport transport(std::move(wire), settings);
    Agreement agreement(transport);
    agreement.require_equal("plan and settings", digest_of(table));
    transport.open(table);
    live(transport, Dice(seed * 100 + static_cast<uint64_t>(rank)), messages);
    agreement.close();
    for (size_t f = 0; f < table.flows.size(); ++f) counters[static_cast<size_t>(rank)][f] = transport.counters(static_cast<int64_t>(f));
  });
  ASSERT_THAT(outcomes, Each("")) << "seed " << seed;
  EXPECT_LE(hub.allocated_bytes(), stated);
  for (size_t f = 0; f < table.flows.size(); ++f) {
    FlowCounters sum;
    for (const auto& of_rank : counters) sum += of_rank[f];
    Count expected{messages, 0};
    for (int64_t n = 0; n < messages; ++n) expected.bytes += static_cast<int64_t>(bytes_of(table.flows[f], n));
    EXPECT_EQ(sum.sent, expected) << "seed " << seed << ", flow " << f;
    EXPECT_EQ(sum.received, expected) << "seed " << seed << ", flow " << f;
  }
}

TEST(RandomRing, EveryMessageArrivesInOrderAndBitByBit) {
  for (uint64_t seed = 1; seed <= 60; ++seed) run_random_ring(seed, false);
}

TEST(RandomRing, AlsoOverShapedLinks) {
  for (uint64_t seed = 1001; seed <= 1015; ++seed) run_random_ring(seed, true);
}

TEST(RandomRing, AnErrorOnOneRankEndsAllOfThem) {
  for (const int64_t ranks : {2, 3, 5}) {
    LocalHub hub(ranks);
    const FlowTable table = testing_support::both_ways(ranks, 5000, 2);
    const auto outcomes = outcomes_on_threads(ranks, [&](int64_t rank) {
      Transport transport(hub.wire(rank), {.deadline = 20s});
      transport.open(table);
      try {
        if (rank == 1) fail(ErrorCode::kNumeric, "layer conv3 is not finite");
        const std::array wanted = {Interest{Want::kMessage, rank == 0 ? 1 : 2 * (rank - 1), {.index = 0}}};
        transport.wait(wanted);
      } catch (const Error& error) {
        transport.abort(error);
        throw;
      }
    });
    for (size_t r = 0; r < outcomes.size(); ++r)
      EXPECT_EQ(outcomes[r], r == 1 ? "layer conv3 is not finite" : "rank 1 ended the job: layer conv3 is not finite");
  }
}

}  // namespace
}  // namespace millrace
