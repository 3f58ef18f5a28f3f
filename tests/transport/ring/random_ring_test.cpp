// Random rings on threads: any flows, sizes, credits and ranks, sent and received in any order. Every message arrives, in
// order and bit by bit; counts are exact; memory stays within what was stated. Runs under the thread sanitizer, too.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transport/random_life.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"
#include "transport/shaping/shaped_wire.h"
#include "transport/streams/agreement.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing_support::Dice;
using testing_support::expected_count;
using testing_support::live;
using testing_support::outcomes_on_threads;
using testing_support::random_table;

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
  const Deal deal = seed % 2 == 0 && can_take_turns(devices, ranks) ? Deal::kTurns : Deal::kBlocks;
  LocalHub hub(ranks);
  size_t stated = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) stated += memory_of(table, ring_layout(devices, ranks, deal), rank, settings).total();

  std::vector<std::vector<FlowCounters>> counters(static_cast<size_t>(ranks), std::vector<FlowCounters>(table.flows.size()));
  const auto outcomes = outcomes_on_threads(ranks, [&](int64_t rank) {
    std::unique_ptr<Wire> wire = hub.wire(rank);
    if (shaped) wire = std::make_unique<ShapedWire>(std::move(wire), shapes);
    Transport transport(std::move(wire), settings);
    Agreement agreement(transport);
    agreement.require_equal("plan and settings", digest_of(table));
    transport.open(table, deal);
    live(transport, Dice(seed * 100 + static_cast<uint64_t>(rank)), messages);
    agreement.close();
    for (size_t f = 0; f < table.flows.size(); ++f) counters[static_cast<size_t>(rank)][f] = transport.counters(static_cast<int64_t>(f));
  });
  ASSERT_THAT(outcomes, Each("")) << "seed " << seed;
  EXPECT_LE(hub.allocated_bytes(), stated);
  for (size_t f = 0; f < table.flows.size(); ++f) {
    FlowCounters sum;
    for (const auto& of_rank : counters) sum += of_rank[f];
    const Count expected = expected_count(table.flows[f], messages);
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
      Transport transport(hub.wire(rank), {.deadline = 100s});
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
