// Slow devices, unsteady links, replicas: runs whose times follow from a formula, printed beside what was simulated; and what has no
// effect or makes no sense.
#include "node/simulate/scenario.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <set>

#include "core/base/error.h"
#include "node/simulate/simulate.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace {
namespace {

using namespace testing_support;
using testing::HasSubstr;

Plan three_boards(const Graph& graph) {
  Plan plan = one_layer_per_device(graph, {100, 100, 0, 0.03});
  set_times(plan, graph, kMicrosecond);
  return plan;
}

TEST(Scenarios, ASlowDeviceSetsThePace) {
  const int64_t rows = 8;
  const Graph graph(row_convolutions(3, rows, 3));
  const Plan plan = three_boards(graph);
  for (const int64_t slow : {0, 1, 2}) {
    SimulationOptions options{.samples = 12, .paced = false};
    options.scenario.stragglers = {{.device = slow, .factor = 2.5}};
    const SimulationResult result = simulate(plan, graph, options);
    expect_time(result.finished[11] - result.finished[5], 6 * rows * 5 * kMicrosecond / 2,
                fmt::format("device {} takes 2.5 times as long; six images: 6 H 2.5 t", slow));
    options.paced = true;  // the input is fed at the straggler's pace then
    EXPECT_EQ(simulate(plan, graph, options).images_per_second, result.images_per_second);
  }
  SimulationOptions faster{.samples = 12, .paced = false};
  faster.scenario.stragglers = {{.device = 0, .factor = 0.5}, {.device = 1, .factor = 0.5}, {.device = 2, .factor = 0.5}};
  const SimulationResult result = simulate(plan, graph, faster);
  expect_time(result.finished[11] - result.finished[5], 6 * rows * kMicrosecond / 2, "all twice as fast: 6 H t / 2");
}

TEST(Scenarios, StragglersAreDrawnByDevice) {
  SimulationScenario scenario;
  scenario.straggler_share = 0.2;
  scenario.straggler_most = 3;
  scenario.seed = 5;
  const std::vector<int64_t> many = slowness_of(scenario, 10'000);
  const auto struck = std::count_if(many.begin(), many.end(), [](int64_t slow) { return slow != 1000; });
  fmt::print("  of 10,000 devices a share of 0.2: 2000 expected, {} drawn\n", struck);
  EXPECT_NEAR(static_cast<double>(struck), 2000, 160);  // four standard deviations
  EXPECT_LE(*std::max_element(many.begin(), many.end()), 3000);
  EXPECT_GT(*std::max_element(many.begin(), many.end()), 2900);
  EXPECT_EQ(*std::min_element(many.begin(), many.end()), 1000);
  // A device's draw does not depend on how many there are.
  const std::vector<int64_t> few = slowness_of(scenario, 100);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  scenario.seed = 6;
  EXPECT_NE(slowness_of(scenario, 100), few);
}

TEST(Scenarios, MessagesComeAsMuchLaterAsDrawn) {
  const Graph graph(row_convolutions(2, 1, 1, 20));
  Plan plan = one_layer_per_device(graph, {0.1, 0.1, 0, 0.25});
  set_times(plan, graph, kMicrosecond);
  const int64_t row = 3'200'000;  // 20 * 16 bits at 0.1 Gb/s
  const int64_t latency = 250'000;
  std::set<int64_t> firsts;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SimulationOptions options{.samples = 2, .paced = false};
    options.scenario.jitter_picoseconds = 900'000;
    options.scenario.seed = seed;
    ASSERT_EQ(plan.flows.size(), 2u);
    const int64_t there = jitter_of(options.scenario, 0, 0);
    const int64_t back = jitter_of(options.scenario, 1, 0);
    // All of it streams, at the pace of the slowest: the link.
    expect_time(simulate(plan, graph, options).finished[0], row + 2 * latency + there + back,
                fmt::format("{} and {} ps drawn: row + 2 latency + j0 + j1", there, back));
    // With the barrier a map of one row is there when all of it is: F, message, F, E, message, G.
    options.fc_barrier = true;
    const SimulationResult result = simulate(plan, graph, options);
    expect_time(result.finished[0], 4 * kMicrosecond + 2 * (row + latency) + there + back,
                fmt::format("{} and {} ps drawn, with a barrier: 4 t + 2 (row + latency) + j0 + j1", there, back));
    firsts.insert(result.finished[0]);
  }
  EXPECT_EQ(firsts.size(), 3u);
}

TEST(Scenarios, JitterIsDrawnEvenly) {
  SimulationScenario scenario;
  scenario.jitter_picoseconds = 1000;
  double sum = 0;
  int64_t most = 0;
  for (int64_t i = 0; i < 10'000; ++i) {
    const int64_t drawn = jitter_of(scenario, 3, i);
    ASSERT_GE(drawn, 0);
    sum += static_cast<double>(drawn);
    most = std::max(most, drawn);
  }
  EXPECT_NEAR(sum / 10'000, 500, 12);  // four standard deviations
  EXPECT_LE(most, 1000);
  EXPECT_GT(most, 990);
}

TEST(Scenarios, AllReducesTakeWhatTheirStepsTake) {
  const ReplicaLink outer{1'000'000'000, 5'000'000};  // a bit takes a nanosecond
  const ReplicaLink inner{10'000'000'000, 1'000'000};
  const auto expect = [](const Replicas& replicas, int64_t bits, int64_t derived, const char* formula) {
    const int64_t time = all_reduce_picoseconds(replicas, bits);
    fmt::print("  {:<90} = {} ps, simulated {} ps\n", formula, derived, time);
    EXPECT_EQ(time, derived) << formula;
  };
  expect({.count = 4, .outer = outer, .inner = {}}, 4000, 2 * 3 * (1000 * 1000 + 5'000'000),
         "ring of 4, 4000 bits: 2 (k - 1) (B / k b + l)");
  expect({.count = 3, .outer = outer, .inner = {}}, 4000, 2 * 2 * (1334 * 1000 + 5'000'000),
         "ring of 3: parts are rounded up to whole bits");
  expect({.count = 4, .method = AllReduce::kTree, .outer = outer, .inner = {}}, 4000, 2 * 2 * (4000 * 1000 + 5'000'000),
         "tree of 4: 2 log2 k (B / b + l)");
  expect({.count = 5, .method = AllReduce::kTree, .outer = outer, .inner = {}}, 4000, 2 * 3 * (4000 * 1000 + 5'000'000),
         "tree of 5: three levels");
  expect({.count = 8, .outer = outer, .group_size = 4, .inner = inner}, 4000,
         2 * 3 * (1000 * 100 + 1'000'000) + 2 * 1 * (500 * 1000 + 5'000'000),
         "2 groups of 4: 2 (g - 1) (B / g b_in + l_in) + 2 (G - 1) (B / g G b_out + l_out)");
  expect({.count = 1, .outer = outer, .inner = {}}, 4000, 0, "one alone");
  // For large gradients a ring moves less than a tree, for small ones the tree waits less.
  const Replicas ring{.count = 64, .outer = outer, .inner = {}};
  Replicas tree = ring;
  tree.method = AllReduce::kTree;
  EXPECT_LT(all_reduce_picoseconds(ring, 1'000'000'000), all_reduce_picoseconds(tree, 1'000'000'000));
  EXPECT_GT(all_reduce_picoseconds(ring, 1000), all_reduce_picoseconds(tree, 1000));
}

int64_t bits_of_column(const Plan& plan, int64_t device) { return column_bits(plan)[static_cast<size_t>(device)]; }

TEST(Scenarios, ReplicasAddAnAllReduceToEveryMiniBatch) {
  const int64_t rows = 8;
  const int64_t n = 3;
  const Graph graph(row_convolutions(1, rows, 3));
  const Replicas replicas{.count = 4, .method = AllReduce::kRing, .outer = {1'000'000'000, 700'000}, .group_size = 0, .inner = {}};
  Plan plan = plan_by_cuts(graph, {}, {}, n, Alignment::kFlush);
  SimulationOptions options{.samples = 4 * n, .paced = false};
  options.scenario.replicas = replicas;
  set_times(plan, graph, kMicrosecond);
  int64_t sum = 0;
  for (const ParameterHome& home : plan.homes) sum += home.count;
  const int64_t bits = 16 * sum;
  const int64_t reduce = 2 * 3 * ((bits + 3) / 4 * 1000 + 700'000);
  EXPECT_EQ(bits_of_column(plan, 0), bits);
  SimulationResult result = simulate(plan, graph, options);
  expect_time(result.finished[4 * n - 1] - result.finished[2 * n - 1], 2 * (n * rows * kMicrosecond + reduce),
              "flush, two mini-batches: 2 (n H t + 2 (k - 1) (B / k b + l))");
  // A device that takes turns: F, E there is none, G, and the update with the all-reduce.
  set_times(plan, graph, 10 * kMicrosecond, 0);
  result = simulate(plan, graph, options);
  expect_time(result.finished[4 * n - 1] - result.finished[2 * n - 1], 2 * (n * 2 * 10 * kMicrosecond + reduce),
              "taking turns: 2 (n (F + G) + 2 (k - 1) (B / k b + l))");
  // fpdeep goes on with old weights while the all-reduce is under way: hidden where the window is wide enough.
  Plan late = plan_by_cuts(graph, {}, {}, n, Alignment::kFpdeep, {2});
  set_times(late, graph, kMicrosecond);
  result = simulate(late, graph, options);
  const int64_t time = result.finished[4 * n - 1] - result.finished[2 * n - 1];
  fmt::print("  fpdeep: from 2 n H t = {} to 2 (n H t + A) = {} ps, simulated {} ps\n", 2 * n * rows * kMicrosecond,
             2 * (n * rows * kMicrosecond + reduce), time);
  EXPECT_GE(time, 2 * n * rows * kMicrosecond);
  EXPECT_LE(time, 2 * (n * rows * kMicrosecond + reduce));
}

TEST(Scenarios, AColumnAddsUpItsShardsOneAfterTheOther) {
  const int64_t rows = 8;
  const int64_t n = 2;
  const Graph graph(row_convolutions(2, rows, 1));
  const Replicas replicas{.count = 2, .method = AllReduce::kRing, .outer = {10'000'000, 0}, .group_size = 0, .inner = {}};
  Plan plan = plan_by_cuts(graph, {}, {}, n, Alignment::kFlush);
  set_times(plan, graph, kMicrosecond);
  SimulationOptions options{.samples = 4 * n, .paced = false};
  options.scenario.replicas = replicas;
  const SimulationResult result = simulate(plan, graph, options);
  // Kernels of one row: both layers end their last gradient together, and their sums share the column's link.
  const int64_t reduce = 2 * (bits_of_column(plan, 0) / 2) * 100'000;
  const int64_t time = result.finished[4 * n - 1] - result.finished[2 * n - 1];
  expect_time(time, 2 * (n * rows * kMicrosecond + reduce), "flush, two layers on a device: 2 (n H t + (B1 + B2) / b)");
}

std::string refusal(const SimulationScenario& scenario, int64_t samples = 12, int64_t layers = 3) {
  const Graph graph(row_convolutions(layers, 4, 1));
  Plan plan = layers > 1 ? one_layer_per_device(graph, {1, 1, 0, 0.1}, 4) : plan_by_cuts(graph, {}, {}, 4);
  set_times(plan, graph, kMicrosecond);
  try {
    SimulationOptions options{.samples = samples};
    options.scenario = scenario;
    static_cast<void>(simulate(plan, graph, options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Scenarios, AreRefusedWhereTheyMakeNoSenseOrHaveNoEffect) {
  const auto with = [](const std::function<void(SimulationScenario&)>& change) {
    SimulationScenario scenario;
    change(scenario);
    return scenario;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal(with([](auto& s) { s.stragglers = {{3, 2}}; })), HasSubstr("straggler 3: the ring has devices 0 to 2"));
  EXPECT_THAT(refusal(with([](auto& s) { s.stragglers = {{1, 1}}; })), HasSubstr("a factor of 1 has no effect"));
  EXPECT_THAT(refusal(with([](auto& s) { s.stragglers = {{1, 0}}; })), HasSubstr("takes from 0.001 to 1e+06 times as long, not 0"));
  EXPECT_THAT(refusal(with([](auto& s) { s.stragglers = {{1, 2}, {1, 3}}; })), HasSubstr("straggler 1 is given twice"));
  EXPECT_THAT(refusal(with([](auto& s) { s.straggler_share = 1.5; })), HasSubstr("between 0 and 1"));
  EXPECT_THAT(refusal(with([](auto& s) { s.straggler_share = 0.5; })), HasSubstr("at most 1 times as long"));
  EXPECT_THAT(refusal(with([](auto& s) {
                s.straggler_share = 1e-6;
                s.straggler_most = 2;
              })),
              HasSubstr("none of 3 devices is a straggler"));
  EXPECT_THAT(refusal(with([](auto& s) { s.jitter_picoseconds = -1; })), HasSubstr("a jitter of -1 ps"));
  EXPECT_THAT(refusal(with([](auto& s) { s.jitter_picoseconds = 5; }), 12, 1), HasSubstr("no effect on one device"));
  const auto replicas = [&](const Replicas& given) { return with([&](auto& s) { s.replicas = given; }); };
  const ReplicaLink link{1'000'000, 0};
  EXPECT_EQ(refusal(replicas({.count = 4, .outer = link, .inner = {}})), "");
  EXPECT_THAT(refusal(replicas({.count = 0, .outer = link, .inner = {}})), HasSubstr("0 replicas"));
  EXPECT_THAT(refusal(replicas({.count = 2, .outer = {}, .inner = {}})), HasSubstr("links between replicas carry 0 bits a second"));
  EXPECT_THAT(refusal(replicas({.count = 2, .outer = {1, -1}, .inner = {}})), HasSubstr("latency of -1 ps"));
  EXPECT_THAT(refusal(replicas({.count = 6, .outer = link, .group_size = 4, .inner = link})),
              HasSubstr("6 replicas do not make groups of 4"));
  EXPECT_THAT(refusal(replicas({.count = 4, .outer = link, .group_size = 4, .inner = link})), HasSubstr("do not make groups of 4"));
  EXPECT_THAT(refusal(replicas({.count = 4, .outer = link, .inner = {}}), 4), HasSubstr("4 samples are fewer than two mini-batches of 4"));
  EXPECT_THAT(refusal(replicas({.count = 64, .outer = {1, 1'000'000'000'000'000}, .inner = {}})),
              HasSubstr("the most of it on the all-reduce of the replicas; simulate fewer"));
}

}  // namespace
}  // namespace millrace
