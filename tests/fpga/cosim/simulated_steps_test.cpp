// Steps of recurrent layers on simulated engines of chained elements: the functional model's bits from any state, on any number of
// ranks of a ring, and refusals by name.
#include "fpga/cosim/simulated_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/plan/parts.h"
#include "fpga/cosim/cosim_device.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/pe_chain/random_steps.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace::simulated_steps {
namespace {

using testing_support::Dice;
using testing_support::RingRun;

const EngineBuildOptions kEngineCache{.cache = MILLRACE_COSIM_TEST_CACHE};

bool lacks_verilator() { return std::system("verilator --version > /dev/null 2>&1") != 0; }

struct Made {
  std::vector<int16_t> h;
  FixedKept kept;
  RecurrentState state;
  FixedErrors errors;
  FixedBackState back_state;
};

Made made_by(ChainEngine& engine, const FixedRecurrent& layer, const RecurrentRun& run, const std::vector<int16_t>& sums,
             const std::vector<int16_t>& errors, RecurrentState state, FixedBackState back_state) {
  const StepsOfBoard of{layer, {0, layer.hidden}, 12};
  RecurrentCounters counters;
  ArithmeticCounters back_counters;
  Made made;
  made.h = engine.forward(of, sums, run, state, made.kept, counters);
  made.errors = engine.back(of, errors, run, made.kept, back_state, back_counters);
  made.state = state;
  made.back_state = back_state;
  return made;
}

}  // namespace

// Sequences of any length, from states that are brought, forward and back; weights that change between; outputs projected or not.
TEST(SimulatedSteps, GiveTheFunctionalModelsBits) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  Dice dice(4);
  SimulatedSteps engine({.build = kEngineCache});
  const auto host = make_host_chain_engine();
  for (const auto& [units, projection] : {std::pair{7, 0}, {21, 0}, {21, 0}, {7, 3}, {21, 10}, {21, 10}}) {
    FixedRecurrent layer = testing_support::random_steps(dice, CellKind::kLstm, units, projection);
    layer.forms = {};
    RecurrentRun run{.streams = 3, .steps = 4, .first_step = 0, .lengths = {4, 0, 3}};
    const std::vector<int16_t> sums = testing_support::random_elements(dice, 3 * 4 * layer.rows(), 20000);
    const std::vector<int16_t> errors = testing_support::random_elements(dice, 3 * 4 * layer.features(), 8000);
    const RecurrentState state = testing_support::random_state(dice, layer, 3);
    const FixedBackState back_state = testing_support::random_back_state(dice, layer, 3);
    const Made found = made_by(engine, layer, run, sums, errors, state, back_state);
    const Made expected = made_by(*host, layer, run, sums, errors, state, back_state);
    EXPECT_EQ(found.h, expected.h);
    EXPECT_EQ(found.state, expected.state);
    EXPECT_EQ(found.kept.units, expected.kept.units);
    EXPECT_EQ(found.errors.sums, expected.errors.sums);
    EXPECT_EQ(found.errors.features, expected.errors.features);
    EXPECT_EQ(found.back_state.errors, expected.back_state.errors);
    EXPECT_EQ(found.back_state.carried, expected.back_state.carried);
  }
  EXPECT_GT(engine.cycles(), 3 * 2 * 7 * 21);
}

// One board of several: of its steps one at a time, of a layer that projects one part at a time, from the states of all.
TEST(SimulatedSteps, GiveTheBitsOfOneBoardOfSeveral) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  Dice dice(6);
  SimulatedSteps engine({.build = kEngineCache});
  const auto host = make_host_chain_engine();
  for (const auto& [units, projection, board] : {std::tuple{7, 0, UnitRange{2, 7}}, {21, 0, {0, 8}}, {12, 8, {3, 12}}, {12, 8, {0, 3}}})
    for (const StepPart part : {StepPart::kBoth, StepPart::kUnits, StepPart::kFeatures}) {
      if ((projection > 0) == (part == StepPart::kBoth)) continue;
      SCOPED_TRACE(testing::Message() << units << " units, projected to " << projection << ", part " << static_cast<int>(part));
      FixedRecurrent layer = testing_support::random_steps(dice, CellKind::kLstm, units, projection);
      layer.forms = {};
      const StepsOfBoard of{layer, board, 12, part};
      const bool units_too = part != StepPart::kFeatures;
      const RecurrentRun run{.streams = 2, .steps = 1, .first_step = 0, .lengths = {}};
      const std::vector<int16_t> sums = testing_support::random_elements(dice, units_too ? 2 * layer.rows() : 0, 20000);
      const std::vector<int16_t> errors = testing_support::random_elements(dice, 2 * layer.features(), 8000);
      RecurrentState state = testing_support::random_state(dice, layer, 2), expected_state = state;
      FixedBackState back = testing_support::random_back_state(dice, layer, 2), expected_back = back;
      FixedKept kept, expected_kept;
      if (!units_too) kept.units = expected_kept.units = testing_support::random_elements(dice, 2 * layer.hidden, 30000);
      RecurrentCounters counters;
      ArithmeticCounters back_counters;
      EXPECT_EQ(engine.forward(of, sums, run, state, kept, counters),
                host->forward(of, sums, run, expected_state, expected_kept, counters));
      EXPECT_EQ(state, expected_state);
      const FixedErrors found = engine.back(of, errors, run, kept, back, back_counters),
                        expected = host->back(of, errors, run, kept, expected_back, back_counters);
      EXPECT_EQ(found.sums, expected.sums);
      EXPECT_EQ(found.features, expected.features);
      EXPECT_EQ(back.carried, expected_back.carried);
    }
  EXPECT_GT(engine.cycles(), 0);
}

TEST(SimulatedSteps, RefuseWhatIsNotBuilt) {
  Dice dice(5);
  SimulatedSteps engine({.build = kEngineCache});
  FixedRecurrent layer = testing_support::random_steps(dice, CellKind::kLstm, 8);
  RecurrentState state = zero_state(layer, 1);
  FixedKept kept;
  RecurrentCounters counters;
  const std::vector<int16_t> sums(static_cast<size_t>(2 * layer.rows()));
  expect_error(ErrorCode::kUnavailable, "units [0, 4) of 8 are one board's of several, which takes a step at a time, not 2", [&] {
    engine.forward({layer, {0, 4}}, sums, {.streams = 1, .steps = 2, .first_step = 0, .lengths = {}}, state, kept, counters);
  });
}

namespace {

struct PlannedRing {
  Graph graph;
  Plan plan;
};
// x W, gradients and what is behind on CPUs, the steps of two layers on boards, of the first on several where `units` says whose cells.
PlannedRing ring_of(const Recurrent& first, const Recurrent& second, const std::vector<ChannelRange>& units = {}) {
  ModelBuilder net("boards", {3, 9, 1});
  net.layer("rnn1", first);
  net.layer("rnn2", second);
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  const Graph graph(net.finish());
  PlanRequest request;
  const int64_t boards = std::max<int64_t>(1, std::ssize(units));
  request.cluster = uniform_cluster("cpu", 4 + boards);
  request.alignment = Alignment::kFlush;
  request.mini_batch = 4;
  request.micro_batch = 2;
  std::vector<Shard> shards;
  const auto place = [&](int64_t device, const std::string& layer, const std::vector<Block>& blocks) {
    Shard& shard = shards.emplace_back();
    shard.device = device;
    shard.layer = layer;
    shard.blocks = blocks;
    if (!blocks.empty()) return;
    for (ParameterHome& home : homes_before_steps(graph.node(graph.index_of(layer)), device)) request.remote_homes.push_back(home);
  };
  const int64_t features = first.directions() * first.features(), last = second.directions() * second.features();
  place(0, "rnn1", {{{0, 3}, {0, 4 * first.directions() * first.hidden}}});
  if (units.empty()) place(1, "rnn1", {});
  for (size_t board = 0; board < units.size(); ++board) {
    Shard& shard = shards.emplace_back();
    shard.device = 1 + static_cast<int64_t>(board);
    shard.layer = "rnn1";
    shard.units = units[board];
  }
  for (ParameterHome& home : homes_before_steps(graph.node(graph.index_of("rnn1")), 1, units)) request.remote_homes.push_back(home);
  place(1 + boards, "rnn2", {{{0, features}, {0, 4 * second.directions() * second.hidden}}});
  place(2 + boards, "rnn2", {});
  place(3 + boards, "fc", {{{0, last}, {0, 3}}});
  return {graph, assemble_plan(graph, request, shards)};
}

// Of the trained weights, with the steps on simulated RTL or on the functional model.
std::string digest_of(const PlannedRing& ring, bool simulated, int64_t ranks) {
  RingRun run(ring.graph, ring.plan, 3);
  run.open_device = [&](int64_t device) -> std::unique_ptr<Device> {
    if (!makes_steps(ring.plan, ring.graph, device)) return make_cpu_device();
    if (simulated) return make_cosim_device(ring.plan, ring.graph, device, kEngineCache);
    return make_emulated_fpga(EngineArithmetic::kFixed16);
  };
  const testing_support::RingResult result = run.train(ranks);
  EXPECT_THAT(result.errors, testing::Each(""));
  return result.outcome.weights_digest;
}

}  // namespace

// A stateful and a truncated layer: the weights of emulated-fpga on any number of ranks.
TEST(SimulatedSteps, TrainTheWeightsOfTheFunctionalModel) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  const PlannedRing ring = ring_of({.hidden = 5, .stateful = true}, {.hidden = 6, .bidirectional = true, .truncation = 4});
  const auto& [graph, plan] = ring;
  EXPECT_TRUE(engines_of(plan, graph, 1).empty());
  EXPECT_EQ(planned_steps(plan, graph, 1, TanhForm::kPlan), planned_steps(plan, graph, 3, TanhForm::kPlan));
  EXPECT_FALSE(makes_steps(plan, graph, 2));
  const std::string expected = digest_of(ring, false, 1);
  EXPECT_EQ(digest_of(ring, true, 1), expected);
  EXPECT_EQ(digest_of(ring, true, 3), expected);
}

TEST(SimulatedSteps, TrainTheWeightsOfTheFunctionalModelProjected) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  const PlannedRing ring =
      ring_of({.hidden = 7, .projection = 3, .stateful = true}, {.hidden = 6, .projection = 5, .bidirectional = true, .truncation = 4});
  EXPECT_TRUE(planned_steps(ring.plan, ring.graph, 1, TanhForm::kPlan).front().hardware.projects);
  const std::string expected = digest_of(ring, false, 1);
  EXPECT_EQ(digest_of(ring, true, 1), expected);
  EXPECT_EQ(digest_of(ring, true, 2), expected);
}

// A projected layer over three boards of unlike cells, and one that is not: weights of one board, and of emulated-fpga on any number of
// ranks.
TEST(SimulatedSteps, TrainTheWeightsOfOneBoardOnSeveral) {
  if (lacks_verilator()) GTEST_SKIP() << "verilator is not installed";
  for (const int64_t projection : {int64_t{5}, int64_t{0}}) {
    SCOPED_TRACE(projection);
    const Recurrent first{.hidden = 15, .projection = projection, .stateful = true}, second{.hidden = 3};
    const PlannedRing ring = ring_of(first, second, {{0, 3}, {3, 12}, {12, 15}});
    const std::string expected = digest_of(ring_of(first, second), false, 1);
    EXPECT_EQ(digest_of(ring, false, 2), expected);
    EXPECT_EQ(digest_of(ring, true, 1), expected);
    EXPECT_EQ(digest_of(ring, true, 3), expected);
  }
}

}  // namespace millrace::simulated_steps
