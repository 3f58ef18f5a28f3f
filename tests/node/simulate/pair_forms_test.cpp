// A pair of a GPU and a board that meet layer after layer, simulated, beside what a mini-batch takes in closed form: overlapped, one thing
// after the other, and with the products on the board.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/plan/pair_modes.h"
#include "core/plan/parts.h"
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
struct Times {
  explicit Times(const Case& c)
      : steps_forward(real(c.steps * c.batch) * (4 * kCells + 204) / 400e6),
        steps_back(real(c.steps * c.batch) * 4 * kCells / 400e6),
        input(2.0 * kGates * kCells * kInputs * real(c.steps * c.batch) / 8.37e12),
        gradient(2 * input),
        on_board(real(c.steps * c.batch) * 4 * kInputs / 400e6) {}
  static double real(int64_t whole) { return static_cast<double>(whole); }
  double steps_forward, steps_back, input, gradient, on_board;
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

Model model_of(const Case& c) {
  ModelBuilder net("pair", {kInputs, c.steps, 1});
  for (int64_t l = 0; l < c.layers; ++l) net.layer("lstm" + std::to_string(l), Recurrent{.hidden = kCells});
  net.layer("last", LastStep{});
  net.dense("fc", 2);
  return net.finish();
}

Plan plan_of(const Graph& graph, const Case& c, double gbps) {
  PlanRequest request;
  request.cluster = folded(uniform_cluster("cpu", 2, {gbps, gbps, 0, 0.5}), c.layers);
  request.alignment = Alignment::kFlush;
  request.micro_batch = request.mini_batch = c.batch;
  const Times times(c);
  std::vector<Shard> shards;
  const auto add = [&](const std::string& layer, std::vector<Block> blocks, double forward, double back, double gradient) {
    Shard& shard = shards.emplace_back();
    shard.device = static_cast<int64_t>(shards.size()) - 1;
    shard.layer = layer;
    shard.blocks = std::move(blocks);
    shard.unit = StreamingUnit::kSample;
    const auto phase = [&](Phase of, double seconds) {
      if (seconds > 0) shard.phases.push_back({of, "engine", 0, std::llround(1e12 * seconds / Times::real(c.batch))});
    };
    phase(Phase::kForward, forward);
    phase(Phase::kErrorBack, back);
    phase(Phase::kParameterGradient, gradient);
  };
  for (int64_t l = 0; l < c.layers; ++l) {
    const std::string layer = "lstm" + std::to_string(l);
    add(layer, {{{0, kInputs}, {0, kGates * kCells}}}, times.input, l > 0 ? times.input : 0, times.gradient);
    add(layer, {}, times.steps_forward, times.steps_back, 0);
    shards.back().resources.push_back({std::string(kInputProductSeconds), times.on_board / Times::real(c.batch)});
    for (ParameterHome& home : homes_before_steps(graph.node(graph.index_of(layer)), 2 * l + 1))
      request.remote_homes.push_back(std::move(home));
  }
  add("fc", {{{0, kCells}, {0, 2}}}, 1e-9, 1e-9, 1e-9);
  return assemble_plan(graph, request, std::move(shards));
}

// From update to update, away from the first.
double seconds_of(const Plan& plan, const Graph& graph) { return mini_batch_pace(plan, graph).seconds; }

// Batch 1, 2 and 4; 100 to 1,600 steps; five layers and fourteen.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t layers : {5, 14})
    for (const int64_t steps : {100, 400, 1600})
      for (const int64_t batch : {1, 2, 4})
        if (layers == 5 || batch != 2) all.push_back({layers, steps, batch});
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
