#include "transport/streams/flow_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/random_plans.h"
#include "tests/transport/rings.h"
#include "transport/streams/settings.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::error_of;

TEST(RingLayout, EveryRankHostsConsecutiveDevices) {
  for (int64_t devices = 1; devices <= 40; ++devices)
    for (int64_t ranks = 1; ranks <= devices; ++ranks) {
      const RingLayout layout = ring_layout(devices, ranks);
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        EXPECT_FALSE(layout.devices_of(rank).empty());
        for (const int64_t device : layout.devices_of(rank)) {
          EXPECT_EQ(device, next++);
          EXPECT_EQ(layout.rank_of(device), rank);
          EXPECT_EQ(layout.rank_of(device), device * ranks / devices);
        }
      }
      EXPECT_EQ(next, devices);
    }
}

TEST(RingLayout, TurnsGoRoundTheRanksAndKeepNeighbours) {
  EXPECT_THAT(ring_layout(8, 2, Deal::kTurns).devices_of(1), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(ring_layout(5, 3, Deal::kTurns).devices_of(0), ElementsAre(0, 3));
  for (int64_t devices = 1; devices <= 40; ++devices)
    for (int64_t ranks = 1; ranks <= devices; ++ranks) {
      if (!can_take_turns(devices, ranks)) {
        EXPECT_THAT(error_of([&] { ring_layout(devices, ranks, Deal::kTurns); }, ErrorCode::kUsage), HasSubstr("no neighbour of rank 0"));
        continue;
      }
      const RingLayout layout = ring_layout(devices, ranks, Deal::kTurns);
      for (int64_t device = 0; device < devices; ++device) {
        EXPECT_EQ(layout.rank_of(device), device % ranks);
        const int64_t apart = (layout.rank_of((device + 1) % devices) - layout.rank_of(device) + ranks) % ranks;
        EXPECT_TRUE(apart <= 1 || apart == ranks - 1) << devices << " devices, " << ranks << " ranks, behind device " << device;
      }
    }
  EXPECT_TRUE(can_take_turns(8, 4));
  EXPECT_FALSE(can_take_turns(7, 4));
}

TEST(RingLayout, RefusesMoreRanksThanDevices) {
  EXPECT_THAT(error_of([] { ring_layout(3, 4); }, ErrorCode::kUsage), HasSubstr("4 ranks for 3 device(s)"));
  EXPECT_NE(error_of([] { ring_layout(0, 1); }, ErrorCode::kUsage), "");
  EXPECT_NE(error_of([] { ring_layout(3, 0); }, ErrorCode::kUsage), "");
  EXPECT_NE(error_of([] { ring_layout(int64_t{1} << 40, 2); }, ErrorCode::kUsage), "");
}

TEST(FlowTable, CarriesEveryFlowOfAPlanAndTwinsForEvaluation) {
  testing_support::RandomPlans random(5);
  int64_t flows = 0;
  for (int round = 0; round < 30; ++round) {
    const Graph graph(random.model());
    const int64_t devices = random.between(1, 4);
    const Plan plan = random.plan(graph, devices, Alignment::kFlush, 2);
    const FlowTable table = flow_table(plan, 3);
    EXPECT_EQ(table.devices, devices);
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const Flow& flow = plan.flows[f];
      const FlowSpec& spec = table.flows[f];
      EXPECT_EQ(spec.stream, flow.stream);
      EXPECT_EQ(spec.credits, 3);
      EXPECT_EQ(link_of(table, spec), flow.link);
      EXPECT_EQ(direction_of(table, spec), flow.direction);
      EXPECT_EQ(static_cast<int64_t>(spec.most_bytes) * 8,
                (flow.elements_per_sample * plan.micro_batch + flow.elements_per_pass) * bits_of(flow.wire));
      const bool evaluated =
          flow.direction == Direction::kForward && (flow.stream == Stream::kActivation || flow.stream == Stream::kPartial);
      if (evaluated)
        EXPECT_EQ(table.flows[static_cast<size_t>(table.evaluation_of(static_cast<int64_t>(f)))], spec);
      else
        EXPECT_NE(error_of([&] { table.evaluation_of(static_cast<int64_t>(f)); }, ErrorCode::kNotFound), "");
      ++flows;
    }
    Plan other = plan;
    other.optimizer.weight_decay += 1;
    EXPECT_NE(digest_of(flow_table(other, 3)), digest_of(table));
    if (!plan.flows.empty()) {
      EXPECT_NE(digest_of(flow_table(plan, 2)), digest_of(table));
    }
  }
  EXPECT_GT(flows, 30);
}

TEST(FlowTable, RefusesWhatIsNoFlow) {
  FlowTable table = testing_support::both_ways(4, 100, 2);
  const auto refusal = [&](auto change) {
    FlowTable changed = table;
    change(changed.flows[3]);
    return error_of([&] { check(changed); }, ErrorCode::kMalformed);
  };
  EXPECT_EQ(refusal([](FlowSpec&) {}), "");
  EXPECT_THAT(refusal([](FlowSpec& flow) {
                flow.to = 3;
                flow.from = 1;
              }),
              HasSubstr("flow 3 (error \"layer1\" from device 1 to 3): not neighbours"));
  EXPECT_EQ(refusal([](FlowSpec& flow) {
              flow.to = 0;
              flow.from = 3;
            }),
            "");  // over the link that closes the ring
  EXPECT_NE(refusal([](FlowSpec& flow) { flow.from = 4; }), "");
  EXPECT_NE(refusal([](FlowSpec& flow) { flow.from = -1; }), "");
  EXPECT_NE(refusal([](FlowSpec& flow) { flow.from = flow.to; }), "");
  EXPECT_NE(refusal([](FlowSpec& flow) { flow.most_bytes = 0; }), "");
  EXPECT_NE(refusal([](FlowSpec& flow) { flow.most_bytes = SIZE_MAX; }), "");
  EXPECT_NE(refusal([](FlowSpec& flow) { flow.credits = 0; }), "");
}

TEST(FlowTable, APlanWithAbsurdSizesIsRefused) {
  testing_support::RandomPlans random(6);
  const Graph graph(random.model());
  Plan plan = random.plan(graph, 2, Alignment::kFlush, 2);
  plan.flows[0].elements_per_sample = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_NE(error_of([&] { flow_table(plan); }, ErrorCode::kMalformed), "");
}

TEST(FlowTable, InARingOfTwoTheDataLinkIsMeant) {
  const FlowTable table = testing_support::both_ways(2, 8, 1);
  EXPECT_EQ(link_of(table, table.flows[0]), 0);
  EXPECT_EQ(direction_of(table, table.flows[0]), Direction::kForward);
  EXPECT_EQ(link_of(table, table.flows[1]), 0);
  EXPECT_EQ(direction_of(table, table.flows[1]), Direction::kBackward);
}

TEST(Settings, AreChecked) {
  const auto refusal = [](auto change) {
    TransportSettings settings;
    change(settings);
    return error_of([&] { check(settings); }, ErrorCode::kUsage);
  };
  EXPECT_EQ(refusal([](TransportSettings&) {}), "");
  EXPECT_THAT(refusal([](TransportSettings& settings) { settings.deadline = Nanoseconds(0); }), HasSubstr("a deadline of 0 s"));
  EXPECT_NE(refusal([](TransportSettings& settings) { settings.eager_bytes = 10; }), "");
  EXPECT_NE(refusal([](TransportSettings& settings) { settings.lane_slots = 0; }), "");
}

}  // namespace
}  // namespace millrace
