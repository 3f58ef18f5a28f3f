// A pair of a GPU and a board that meet layer after layer, simulated, beside what a mini-batch takes in closed form: overlapped, one thing
// after the other, and with the products on the board.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/plan/flows.h"
#include "core/plan/pair_modes.h"
#include "core/plan/pair_plan.h"
#include "core/plan/seats.h"
#include "node/simulate/mini_batch_pace.h"
#include "node/simulate/simulate.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace::pair_forms {
namespace {

constexpr int64_t kCells = 1024, kInputs = 1024, kGates = 4;

struct Case {
  int64_t layers = 5, steps = 1600, batch = 1;
};
std::string text_of(const Case& c) { return fmt::format("{} layers, {} steps, batch {}", c.layers, c.steps, c.batch); }

// Seconds of a layer and a micro-batch, as FARNN's figures are put together: 256 elements a unit of 400 MHz, 204 cycles exposed forward,
// and 8.4 Tflops.
struct Times : PairTimes {
  explicit Times(const Case& c) {
    steps_forward = real(c.steps * c.batch) * (4 * kCells + 204) / 400e6;
    steps_back = real(c.steps * c.batch) * 4 * kCells / 400e6;
    input = 2.0 * kGates * kCells * kInputs * real(c.steps * c.batch) / 8.37e12;
    gradient = 2 * input;
    on_board = real(c.steps * c.batch) * 4 * kInputs / 400e6;
  }
  static double real(int64_t whole) { return static_cast<double>(whole); }
};
// What crosses, at the link's speed: the weights of the steps; a layer's sums, and its output or inputs.
struct Crossing {
  Crossing(const Case& c, double gbps)
      : input_weights(kGates * kCells * kInputs * 32 / (1e9 * gbps)),
        weights((kGates * kCells * kCells + 2 * kGates * kCells) * 32 / (1e9 * gbps)),
        sums(Times::real(c.steps * c.batch) * kGates * kCells * 32 / (1e9 * gbps)),
        output(sums / kGates) {}
  double input_weights, weights, sums, output;
};

PairNetwork network_of(const Case& c) {
  return {.cell = {.hidden = kCells}, .inputs = kInputs, .layers = c.layers, .steps = c.steps, .batch = c.batch};
}
Model model_of(const Case& c) { return pair_model(network_of(c)); }
Plan plan_of(const Graph& graph, const Case& c, double gbps) { return pair_plan(graph, network_of(c), Times(c), gbps); }

// From update to update, away from the first.
double seconds_of(const Plan& plan, const Graph& graph) { return mini_batch_pace(plan, graph).seconds; }

// Batch 1, 2 and 4; 100 to 1,600 steps; five layers and fourteen.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t layers : {5, 14})
    for (const int64_t steps : {100, 400, 1600})
      for (const int64_t batch : {1, 2, 4}) all.push_back({layers, steps, batch});
  return all;
}

// The last layer gives out one step. Layer after layer the products, their sums' way, the steps, their output's way; back the same, with
// the record beside the sums' errors. Loads and gradients find time beside the steps of the layers before, but for what is left when a
// mini-batch ends: the first layer's gradients, and the load that its update lets go, as far as it takes longer than its products and their
// way.
TEST(PairForms, OverlappedIsTheClosedForm) {
  for (const Case& c : cases()) {
    const double gbps = 400;
    const Graph graph(model_of(c));
    const Plan plan = plan_of(graph, c, gbps);
    const Times t(c);
    const Crossing x(c, gbps);
    ASSERT_GT(t.steps_back, t.gradient + t.input) << "the steps set the pace";
    const double n = Times::real(c.layers);
    const double form = n * (2 * t.input + t.steps_forward + t.steps_back + 2 * x.sums + 3 * x.output) - 2 * x.output - t.input +
                        t.gradient + std::max(0.0, x.weights - t.input - x.sums);
    EXPECT_NEAR(seconds_of(plan, graph) / form, 1, 0.01) << text_of(c);
  }
}

// 2.2 of FARNN's model, with what crosses.
TEST(PairForms, OneAfterTheOtherIsTheClosedForm) {
  for (const Case& c : cases()) {
    const double gbps = 63;
    const Graph graph(model_of(c));
    const Plan plan = plan_of(graph, c, gbps);
    const Times t(c);
    const Crossing x(c, gbps);
    const double n = Times::real(c.layers);
    const double form = n * (2 * x.weights + 2 * t.input + t.steps_forward + t.steps_back + t.gradient + 2 * x.sums + 3 * x.output) -
                        2 * x.output - t.input;
    const double one = seconds_of(in_mode(plan, graph, PairMode::kNoOverlap), graph);
    EXPECT_NEAR(one / form, 1, 0.02) << text_of(c);
    EXPECT_GT(one, 1.01 * seconds_of(plan, graph)) << text_of(c);
  }
}

TEST(PairForms, AllOnTheBoardIsTheClosedForm) {
  for (const Case& c : cases()) {
    const double gbps = 63;
    const Graph graph(model_of(c));
    const Plan plan = plan_of(graph, c, gbps);
    const Times t(c);
    const Crossing x(c, gbps);
    const double n = Times::real(c.layers);
    const double form = n * (t.steps_forward + t.steps_back + 2 * x.weights + 2 * t.on_board + 2 * x.input_weights + 5 * x.output) -
                        2 * x.output + t.gradient;
    EXPECT_NEAR(seconds_of(in_mode(plan, graph, PairMode::kAllFpga), graph) / form, 1, 0.02) << text_of(c);
  }
}

// FARNN's own schedule: products in chunks of time, which the board fetches, and one memory of weights.
constexpr PairPace kAsFarnn{.chunks_fetched = 2, .single_memory = true, .load_picoseconds = 500'000'000};
double seconds_in_chunks(Plan plan, const Graph& graph, const PairPace& pair, int64_t chunks = 16) {
  plan.time_chunks = chunks;
  const SimulationResult result = simulate(plan, graph, {.samples = 4 * plan.mini_batch, .pair = pair});
  return Times::real(plan.mini_batch) / mini_batch_rate(plan, result);
}

// Products and what crosses find time beside the steps; loads do not. The lowest layer's gradients follow its last chunk.
TEST(PairForms, FarnnsScheduleIsTheClosedForm) {
  for (const Case& c : cases()) {
    const double gbps = 60;
    const Graph graph(model_of(c));
    const Times t(c);
    const Crossing x(c, gbps);
    const double load = x.weights + 5e-4, n = Times::real(c.layers);
    const double form = n * (2 * load + t.steps_forward + t.steps_back) + x.sums / 16 + t.gradient;
    ASSERT_GT(load, (t.input + x.sums) / 16) << "the first chunk is there before the weights";
    EXPECT_NEAR(seconds_in_chunks(plan_of(graph, c, gbps), graph, kAsFarnn) / form, 1, 0.003) << text_of(c);
  }
}

TEST(PairForms, WhatFarnnsScheduleTakesAndGives) {
  const Case c{.steps = 800};
  const Graph graph(model_of(c));
  const Plan plan = plan_of(graph, c, 60);
  const double as_farnn = seconds_in_chunks(plan, graph, kAsFarnn);
  const auto without = [&](const auto& change) {
    PairPace pair = kAsFarnn;
    change(pair);
    return seconds_in_chunks(plan, graph, pair) / as_farnn;
  };
  EXPECT_GT(seconds_in_chunks(plan, graph, kAsFarnn, 1) / as_farnn, 1.1);
  EXPECT_LT(without([](PairPace& pair) { pair.single_memory = false; }), 0.94);
  EXPECT_LT(without([](PairPace& pair) { pair.load_picoseconds = 0; }), 0.96);
  EXPECT_GT(without([](PairPace& pair) { pair.chunks_fetched = 0; }), 1.01);  // the first load waits among the sums of all steps
}

// A board has one layer's weights at a time: once it has begun with them, it goes on to the last chunk, whatever else could be made.
TEST(PairForms, ABoardEndsALayerBeforeItTakesAnother) {
  const Case c{.layers = 4, .steps = 200};
  const Graph graph(model_of(c));
  Plan plan = plan_of(graph, c, 1);  // sums cross slowly, and those of the layer behind come as early
  plan.time_chunks = 8;
  SimulationResult result = simulate(plan, graph, {.samples = 4 * plan.mini_batch, .trace = true});
  const std::vector<int64_t> seats = seats_of(plan.cluster);
  std::erase_if(result.trace,
                [&](const TraceSpan& span) { return seats[static_cast<size_t>(span.device)] != seats[1] || span.phase == 2; });
  std::ranges::sort(result.trace, {}, [](const TraceSpan& span) { return std::pair(span.start, span.end); });
  int64_t changes = 0;
  for (size_t i = 0; i + 1 < result.trace.size(); ++i) {
    if (result.trace[i].device == result.trace[i + 1].device) continue;
    EXPECT_EQ(result.trace[i].chunk, result.trace[i].phase == 0 ? plan.time_chunks - 1 : 0) << "place " << result.trace[i].device;
    ++changes;
  }
  EXPECT_EQ(changes, 4 * 2 * (c.layers - 1));
}

// Of several micro-batches the card's order is not known beforehand.
TEST(PairForms, ASingleMemoryOfSeveralMicroBatchesIsRefused) {
  const Case c{.layers = 1, .steps = 100, .batch = 2};
  const Graph graph(model_of(c));
  Plan plan = plan_of(graph, c, 60);
  plan.micro_batch = 1;
  plan.windows.assign(plan.windows.size(), 2);
  plan.flows = flows_of(plan, graph);
  try {
    simulate(plan, graph, {.samples = 4, .pair = kAsFarnn});
    FAIL() << "two micro-batches to a mini-batch";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("one micro-batch between updates"));
  }
}

TEST(PairForms, WhatHasNoPairIsRefused) {
  const Graph graph(testing_support::row_convolutions(2, 8, 3));
  const Plan plan = testing_support::one_layer_per_device(graph, {100, 100, 0, 0.5});
  try {
    in_mode(plan, graph, PairMode::kNoOverlap);
    FAIL() << "there is no pair";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("no board of this plan makes the steps of a recurrent layer"));
  }
}

}  // namespace
}  // namespace millrace::pair_forms
