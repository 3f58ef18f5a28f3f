// Cards that fill several places of a ring: one place computes at a time, links between two cards share a cable, and what crosses stays.
#include "core/plan/seats.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/plan/flow_load.h"
#include "node/simulate/simulate.h"
#include "node/simulate/simulate_parallel.h"
#include "tests/core/dataflow/plans_by_kind.h"
#include "tests/node/simulate/same_results.h"
#include "tests/node/simulate/simulated_plans.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"

namespace millrace::seats {
namespace {

using testing::HasSubstr;
using testing_support::kMicrosecond;

// Spans of different places that one card fills lie one behind the other.
int64_t expect_one_at_a_time(const Plan& plan, const SimulationResult& result) {
  const std::vector<int64_t> seats = seats_of(plan.cluster);
  std::map<int64_t, std::vector<TraceSpan>> of_card;
  for (const TraceSpan& span : result.trace) of_card[seats[static_cast<size_t>(span.device)]].push_back(span);
  int64_t pairs = 0;
  for (auto& [card, spans] : of_card) {
    std::ranges::sort(spans, {}, [](const TraceSpan& span) { return std::pair(span.start, span.end); });
    for (size_t i = 0; i + 1 < spans.size(); ++i) {
      EXPECT_LE(spans[i].end, spans[i + 1].start) << "card " << card << ", places " << spans[i].device << " and " << spans[i + 1].device;
      pairs += spans[i].device != spans[i + 1].device ? 1 : 0;
    }
  }
  return pairs;
}

// Of the whole run.
double rate_of(const SimulationResult& result) {
  return 1e12 * static_cast<double>(result.samples) / static_cast<double>(result.picoseconds);
}

// Of each cable and way no more bits than its speed allows in the time of the run.
void expect_within_cables(const Plan& plan, const SimulationResult& result) {
  const std::vector<int64_t> cables = cables_of(plan.cluster);
  std::vector<double> bits(cables.size());
  for (size_t l = 0; l < plan.links.size(); ++l) {
    bits[static_cast<size_t>(cables[2 * l])] += static_cast<double>(result.links[l].forward_bits);
    bits[static_cast<size_t>(cables[2 * l + 1])] += static_cast<double>(result.links[l].backward_bits);
  }
  for (size_t lane = 0; lane < bits.size(); ++lane) {
    const Link& link = plan.links[lane / 2];
    const auto speed = static_cast<double>(lane % 2 == 0 ? link.forward_bits_per_second : link.backward_bits_per_second);
    EXPECT_LE(bits[lane], speed * 1e-12 * static_cast<double>(result.picoseconds) * (1 + 1e-9)) << "lane " << lane;
  }
}

// Dense layers on as many devices, or on fewer, of 1 us a sample and phase.
Plan dense_plan(const Graph& graph, Cluster cluster, Alignment alignment, int64_t micro_batches, int64_t devices = 5) {
  PlanRequest request;
  request.cluster = std::move(cluster);
  request.alignment = alignment;
  request.mini_batch = micro_batches;
  request.micro_batch = 1;
  std::vector<Shard> shards;
  for (size_t g = 0; g < graph.groups().size(); ++g) {
    const Node& head = graph.node(graph.groups()[g].head);
    Shard& shard = shards.emplace_back();
    shard.device = std::min(static_cast<int64_t>(g), devices - 1);
    shard.layer = head.layer.name;
    shard.blocks = {{{0, head.input_shapes[0].channels}, {0, sum_shape(head).channels}}};
    shard.unit = StreamingUnit::kSample;
    for (const Phase phase : {Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient})
      if (phase != Phase::kErrorBack || head.input_error_needed) shard.phases.push_back({phase, "engine", 0, kMicrosecond});
  }
  return assemble_plan(graph, request, std::move(shards));
}
Model dense_model(int64_t layers) {
  ModelBuilder net("dense", {100, 1, 1});
  for (int64_t i = 0; i < layers; ++i) net.dense("dense" + std::to_string(i), 100);
  return net.finish();
}

// Five places on two cards against five on cards of their own.
TEST(Seats, OnePlaceOfACardComputesAtATime) {
  const Graph graph(dense_model(5));
  const LinkEntry fast{1e6, 1e6, 0, 0};
  const Cluster own = uniform_cluster("cpu", 5, fast);
  const Cluster pair = folded(uniform_cluster("cpu", 2, fast), 2);
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kFpdeep, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}) {
    const Plan folded_plan = dense_plan(graph, pair, alignment, 8), plan = dense_plan(graph, own, alignment, 8);
    const SimulationOptions options{.samples = 96, .paced = false, .trace = true};
    const SimulationResult slow = simulate(folded_plan, graph, options), fast_one = simulate(plan, graph, options);
    EXPECT_GT(expect_one_at_a_time(folded_plan, slow), 100);
    expect_within_cables(folded_plan, slow);
    // The card with three places has eight phases of 1 us a sample (the first layer has no E), a place of its own three at most.
    const double bound = 1e12 / (8 * kMicrosecond);
    EXPECT_LE(rate_of(slow), bound);
    EXPECT_GT(rate_of(slow), 0.6 * bound) << name_of(alignment);
    EXPECT_GT(rate_of(fast_one), 1.4 * rate_of(slow)) << name_of(alignment);
    // The cards have 8 and 6 of the 14 phases: idle is what is left of both, not of five places.
    EXPECT_NEAR(slow.idle_fraction, 1 - rate_of(slow) * 14 * 1e-12 * kMicrosecond / 2, 0.08) << name_of(alignment);
    for (size_t f = 0; f < plan.flows.size(); ++f) EXPECT_EQ(slow.flows[f].elements, fast_one.flows[f].elements);
    testing_support::expect_same(slow, simulate(folded_plan, graph, options));
  }
}

// Rows of all links between two cards go over one cable.
TEST(Seats, LinksBetweenTwoCardsShareACable) {
  const Graph graph(dense_model(5));
  const LinkEntry narrow{0.1, 0.1, 0, 0};  // 32 us for 100 words
  const Plan plan = dense_plan(graph, uniform_cluster("cpu", 5, narrow), Alignment::kFpdeep, 8);
  const Plan on_pair = dense_plan(graph, folded(uniform_cluster("cpu", 2, narrow), 2), Alignment::kFpdeep, 8);
  const SimulationOptions options{.samples = 64, .paced = false};
  const SimulationResult own = simulate(plan, graph, options), pair = simulate(on_pair, graph, options);
  expect_within_cables(on_pair, pair);
  // Each way of the cable: F of two links, E of the other two.
  const double bound = 1e12 / (4 * 32 * kMicrosecond);
  EXPECT_LE(rate_of(pair), bound);
  EXPECT_GT(rate_of(pair), 0.6 * bound);
  EXPECT_GT(rate_of(own), 1.5 * bound);
}

// Drawn plans of recurrent layers by kind, their places on two cards in turn: every flow moves what the plan says.
TEST(Seats, DrawnPlansMoveWhatTheySay) {
  int64_t folds = 0, records = 0, turns = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    testing_support::DrawnByKind draw(seed);
    const Graph graph(draw.model());
    constexpr Alignment kAll[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                  Alignment::kZeroBubble};
    Plan plan = draw.plan(graph, kAll[seed % 5], true);
    if (plan.devices() < 3) continue;
    for (size_t d = 0; d < plan.cluster.devices.size(); ++d) plan.cluster.devices[d].seat = d % 2 == 0 ? "a" : "b";
    for (LinkEntry& link : plan.cluster.links) link = {1, 1, 0, 0.5};
    plan.links = links_of(plan.cluster);
    for (Shard& shard : plan.shards) {
      shard.unit = draw.one_in(2) ? StreamingUnit::kStep : StreamingUnit::kSample;
      for (const Phase phase : {Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient})
        shard.phases.push_back({phase, "engine", 0, draw.from_to(1, 3000) * 1000});
    }
    plan.time_chunks = draw.from_to(1, draw.steps);
    const SimulationResult result = simulate(plan, graph, {.samples = 4 * plan.mini_batch, .trace = true});
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const Flow& flow = plan.flows[f];
      records += flow.stream == Stream::kRecord ? 1 : 0;
      ASSERT_EQ(result.flows[f].elements, 4 * elements_per_mini_batch(flow, plan)) << "seed " << seed << " " << flow.tensor;
    }
    turns += expect_one_at_a_time(plan, result);
    expect_within_cables(plan, result);
    ++folds;
  }
  EXPECT_GT(folds, 50);
  EXPECT_GT(records, 50);
  EXPECT_GT(turns, 1000);
}

// All layers on the first place: those behind it do nothing, and it is as fast as a ring of one.
TEST(Seats, PlacesWithoutWorkHoldNothingUp) {
  const Graph graph(dense_model(5));
  const Plan one = dense_plan(graph, uniform_cluster("cpu", 1), Alignment::kFlush, 8, 1);
  const Plan pair = dense_plan(graph, folded(uniform_cluster("cpu", 2), 2), Alignment::kFlush, 8, 1);
  const SimulationOptions options{.samples = 48, .paced = false};
  const SimulationResult alone = simulate(one, graph, options), among_idle = simulate(pair, graph, options);
  EXPECT_GT(rate_of(alone), 0);
  EXPECT_EQ(among_idle.finished, alone.finished);
  EXPECT_EQ(mini_batch_rate(pair, among_idle), mini_batch_rate(one, alone));
}

TEST(Seats, WhatIsNotSimulatedIsRefused) {
  const Graph graph(dense_model(3));
  const Plan plan = dense_plan(graph, folded(uniform_cluster("cpu", 2), 1), Alignment::kFlush, 4);
  const auto refusal = [&](const Plan& of, const SimulationOptions& options) {
    try {
      simulate(of, graph, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(plan, {.cores = 1}), HasSubstr("this ring's cards fill several places; simulate it without them"));
  EXPECT_THAT(refusal(plan, {.trainer_ranks = 2}), HasSubstr("this ring's cards fill several places"));
  Plan engines = plan;
  for (Shard& shard : engines.shards)
    for (PhaseEngine& phase : shard.phases) phase.multipliers = 1;
  EXPECT_THAT(refusal(engines, {}), HasSubstr("cards that fill several places are simulated where devices take turns"));
}

TEST(Seats, AnyNumberOfRanksSimulatesTheSame) {
  const Graph graph(dense_model(5));
  const Plan plan = dense_plan(graph, folded(uniform_cluster("cpu", 2), 2), Alignment::kFpdeep, 8);
  const SimulationResult alone = simulate(plan, graph, {.samples = 64, .trace = true});
  for (const int64_t ranks : {1, 2, 4}) {
    LocalHub hub(ranks);
    SimulationResult result;
    const std::vector<std::string> outcomes = testing_support::outcomes_on_threads(ranks, [&](int64_t rank) {
      Transport transport(hub.wire(rank));
      SimulationResult mine = simulate(plan, graph, {.samples = 64, .trace = true}, transport);
      if (rank == 0) result = std::move(mine);
    });
    for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
    testing_support::expect_same(alone, result);
    EXPECT_EQ(result.ranks.size(), static_cast<size_t>(ranks));
  }
}

}  // namespace
}  // namespace millrace::seats
