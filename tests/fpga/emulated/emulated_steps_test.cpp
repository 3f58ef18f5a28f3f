// The steps of recurrent layers on the emulated FPGA, x W and gradients elsewhere: close to real numbers, the record too, and in rings the
// same bits on any number of ranks and after a resumption.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/cpu/cpu_device.h"
#include "core/device/step_record.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/plan/flow_load.h"
#include "core/plan/parts.h"
#include "core/reference/reference_device.h"
#include "fpga/emulated/emulated_fpga.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace::emulated_steps {
namespace {

using ::testing::Each;
using testing_support::RingResult;
using testing_support::RingRun;

struct Made {
  testing::CaseResult result;
  std::vector<double> record;
};

Made made_on(Device& device, const testing::OperationCase& one, const testing::CaseData& data) {
  testing::CaseRun run(device, one, data);
  Made made{run.everything(), {}};
  const RecurrentShape shape(one.spec, std::get<Recurrent>(one.spec.operation));
  made.record.resize(static_cast<size_t>(shape.samples * shape.directions * RecordChannels(shape).each * shape.steps));
  dynamic_cast<StepRecorder&>(run.kernel()).read_record(*run.keep(), micro_batch_of(one, data), made.record);
  return made;
}

bool sixteen_bits_take(const Recurrent& cell) {
  if (cell.cell == CellKind::kVanillaRelu || (cell.cell == CellKind::kGru && !cell.reset_after)) return false;
  return cell.gate_activation == GateActivation::kSigmoid || cell.gate_slope == 0.2;
}

// Outputs, errors of the sums and records. Errors reach to 2 at this scale and then saturate, which the device counts: where they do not,
// all differ by no more than rounding and tables (3.7e-5 of sigmoid, 4.4e-5 of tanh, 2^-12 of a sum) make in a few steps.
TEST(EmulatedSteps, StayCloseToRealNumbersAndSoDoErrorsAndRecords) {
  constexpr double kOutput = 0.005, kBack = 0.015;
  const auto oracle = make_reference_device(ElementType::kFloat64);
  int64_t cases = 0, saturated = 0;
  double furthest = 0, furthest_saturated = 0;
  for (const uint64_t seed : {5U, 15U, 25U})
    for (testing::OperationCase one : testing::operation_cases({.per_kind = 120, .seed = seed})) {
      auto* cell = std::get_if<Recurrent>(&one.spec.operation);
      if (cell == nullptr || !one.spec.finish || !sixteen_bits_take(*cell)) continue;
      one.spec.trained = false;
      if (cases++ % 3 == 1) cell->truncation = 2;
      testing::CaseData data = data_of(one);
      for (double& sum : data.inputs[0]) sum /= 4;  // not into the flat parts of the gates
      for (const double part : {1.0, 0.25}) {
        SCOPED_TRACE(fmt::format("{} of seed {}, errors times {}", one.name, seed, part));
        for (double& error : data.output_error) error *= part;
        const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
        device->use_gates(TanhForm::kTable);
        const Made expected = made_on(*oracle, one, data), found = made_on(*device, one, data);
        EXPECT_LT(testing::normwise_difference(found.result.output, expected.result.output), kOutput);
        const double errors = testing::normwise_difference(found.result.input_errors[0], expected.result.input_errors[0]);
        const double record = testing::normwise_difference(found.record, expected.record);
        if (device->counters().begin()->second.errors.saturated > 0) {
          EXPECT_EQ(part, 1.0);
          ++saturated;
          furthest_saturated = std::max(furthest_saturated, errors);
          continue;
        }
        furthest = std::max({furthest, errors, record});
        EXPECT_LT(errors, kBack);
        EXPECT_LT(record, kBack);
      }
    }
  EXPECT_GE(cases, 40);
  EXPECT_GE(saturated, 10);
  EXPECT_GT(furthest_saturated, 10 * kBack);  // they are what differs
  RecordProperty("furthest", std::to_string(furthest));
}

// x W of two layers on CPUs, their steps on boards, the rest behind on a CPU.
Plan plan_of(const Graph& graph, Alignment alignment) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 5);
  request.alignment = alignment;
  request.mini_batch = 8;
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
  place(0, "rnn1", {{{0, 3}, {0, 24}}});
  place(1, "rnn1", {});
  place(2, "rnn2", {{{0, 4}, {0, 36}}});
  place(3, "rnn2", {});
  place(4, "fc", {{{0, 12}, {0, 3}}});
  return assemble_plan(graph, request, shards);
}

TEST(EmulatedSteps, TrainTheSameBitsOnAnyNumberOfRanks) {
  ModelBuilder net("boards", {3, 12, 1});
  net.layer("rnn1", Recurrent{.hidden = 6, .projection = 4, .truncation = 5});
  net.layer("rnn2", Recurrent{.cell = CellKind::kGru, .hidden = 6, .bidirectional = true, .reset_after = true});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  const Graph graph(net.finish());
  for (const int index : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    const Alignment alignment = testing_support::kEveryAlignment[index / 2];
    const EngineArithmetic arithmetic = index % 2 == 0 ? EngineArithmetic::kFixed16 : EngineArithmetic::kFloat32;
    const Plan plan = plan_of(graph, alignment);
    RingRun run(graph, plan);
    run.open_device = [=](int64_t device) -> std::unique_ptr<Device> {
      if (device == 1 || device == 3) return make_emulated_fpga(arithmetic);
      return make_cpu_device();
    };
    std::string digest;
    for (const int64_t ranks : {1, 2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, name_of(alignment)));
      const RingResult result = run.retrain(ranks);
      ASSERT_THAT(result.errors, Each(""));
      if (digest.empty()) digest = result.outcome.weights_digest;
      EXPECT_EQ(result.outcome.weights_digest, digest);
      for (size_t f = 0; f < plan.flows.size(); ++f)
        if (plan.flows[f].stream == Stream::kRecord) {
          EXPECT_EQ(result.bytes[f], 4 * elements_per_mini_batch(plan.flows[f], plan) * run.job.steps);
        }
    }
    RingRun broken(graph, plan);
    broken.open_device = run.open_device;
    broken.job.steps = 1;
    ASSERT_THAT(broken.train(2).errors, Each(""));
    broken.job.steps = run.job.steps;
    const RingResult resumed = broken.resume(3);
    ASSERT_THAT(resumed.errors, Each(""));
    EXPECT_EQ(resumed.outcome.weights_digest, digest) << name_of(alignment);
    // Not the numbers of single precision.
    RingRun single(graph, plan);
    single.open_device = [](int64_t) { return make_cpu_device(); };
    EXPECT_NE(single.train(1).outcome.weights_digest, digest);
  }
}

// The steps of a layer on `boards` boards; a residual add behind the first.
Plan shared_plan(const Graph& graph, Alignment alignment, int64_t boards, int64_t time_chunks) {
  PlanRequest request;
  request.alignment = alignment;
  request.mini_batch = 8;
  request.micro_batch = 2;
  request.time_chunks = time_chunks;
  std::vector<Shard> shards;
  int64_t device = 0;
  const auto add = [&](const std::string& layer) -> Shard& {
    Shard& shard = shards.emplace_back();
    shard.device = device;
    shard.layer = layer;
    return shard;
  };
  const auto place = [&](const std::string& layer, int64_t inputs, int64_t outputs) { add(layer).blocks = {{{0, inputs}, {0, outputs}}}; };
  // Uneven: [0, 1), [1, 3), [3, cells), or so many times as many.
  const auto steps = [&](const std::string& layer, int64_t cells) {
    const Node& node = graph.node(graph.index_of(layer));
    const int64_t grain = grain_of(std::get<Recurrent>(node.layer.operation));
    std::vector<ChannelRange> units;
    for (int64_t board = 0; board < boards; ++board)
      units.push_back({board == 0 ? 0 : grain * (2 * board - 1), board + 1 == boards ? cells : grain * (2 * board + 1)});
    for (ParameterHome& home : boards > 1 ? homes_before_steps(node, device + 1, units) : homes_before_steps(node, device + 1))
      request.remote_homes.push_back(home);
    for (const ChannelRange& range : units) {
      ++device;
      Shard& shard = add(layer);
      if (boards > 1) shard.units = range;
    }
    ++device;
  };
  place("rnn1", 3, 28);
  steps("rnn1", 7);
  place("rnn2", 7, 56);
  steps("rnn2", 14);
  place("rnn3", 7, 42);
  steps("rnn3", 7);
  place("fc", 14, 3);
  request.cluster = uniform_cluster("cpu", device + 1);
  // As many micro-batches under way whatever the number of devices.
  if (!drains(alignment)) request.windows.assign(static_cast<size_t>(device + 1), request.mini_batch / request.micro_batch);
  return assemble_plan(graph, request, shards);
}

// Stateful, truncated, projected, with a residual add, both directions, samples of all lengths, chunks of time: numbers do not depend on
// how many boards share the steps, nor on ranks, nor on a resumption.
TEST(EmulatedSteps, TrainTheSameBitsOnAnyNumberOfBoards) {
  ModelBuilder net("boards", {3, 9, 1});
  net.layer("rnn1", Recurrent{.hidden = 7, .stateful = true});
  net.layer("rnn2", Recurrent{.hidden = 14, .projection = 7, .truncation = 4});
  net.add("join", {"rnn2", "rnn1"});
  net.layer("rnn3", Recurrent{.cell = CellKind::kGru, .hidden = 7, .bidirectional = true, .reset_after = true});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  const Graph graph(net.finish());
  for (const EngineArithmetic arithmetic : {EngineArithmetic::kFixed16, EngineArithmetic::kFloat32})
    for (const Alignment alignment : testing_support::kEveryAlignment) {
      std::string digest;
      // One board takes its layers step by step in chunks, too, and the products with the inputs come in them for any number of boards.
      for (const auto& [boards, chunks] : std::initializer_list<std::pair<int64_t, int64_t>>{{1, 1}, {1, 4}, {2, 3}, {3, 1}}) {
        const Plan plan = shared_plan(graph, alignment, boards, chunks);
        RingRun run(graph, plan, 2);
        run.open_device = [arithmetic, boards = boards](int64_t device) -> std::unique_ptr<Device> {
          if (device % (boards + 1) != 0) return make_emulated_fpga(arithmetic);
          return make_cpu_device();
        };
        for (const int64_t ranks : {int64_t{1}, int64_t{3}}) {
          if (ranks == 1 && chunks > 1) continue;
          SCOPED_TRACE(fmt::format("{} boards, {} chunks, {} ranks, {}", boards, chunks, ranks, name_of(alignment)));
          const RingResult result = run.retrain(ranks);
          ASSERT_THAT(result.errors, Each(""));
          if (digest.empty()) digest = result.outcome.weights_digest;
          EXPECT_EQ(result.outcome.weights_digest, digest);
          for (size_t f = 0; f < plan.flows.size(); ++f) {
            if (plan.flows[f].stream != Stream::kState) continue;
            EXPECT_EQ(result.bytes[f], 4 * elements_per_mini_batch(plan.flows[f], plan) * run.job.steps);
          }
        }
        if (boards != 3) continue;
        RingRun broken(graph, plan, 1);
        broken.open_device = run.open_device;
        ASSERT_THAT(broken.train(2).errors, Each(""));
        broken.job.steps = 2;
        const RingResult resumed = broken.resume(4);
        ASSERT_THAT(resumed.errors, Each(""));
        EXPECT_EQ(resumed.outcome.weights_digest, digest) << name_of(alignment);
      }
    }
}

TEST(EmulatedSteps, InSinglePrecisionTheyAreThoseOfTheReference) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  int64_t cases = 0;
  for (testing::OperationCase one : testing::operation_cases({.per_kind = 120, .seed = 8})) {
    auto* cell = std::get_if<Recurrent>(&one.spec.operation);
    if (cell == nullptr || !one.spec.finish || (cell->cell == CellKind::kGru && !cell->reset_after)) continue;
    if (cell->gate_activation != GateActivation::kSigmoid) continue;
    SCOPED_TRACE(one.name);
    one.spec.trained = false;
    if (cases % 3 == 1) cell->truncation = 2;
    testing::CaseData data = data_of(one);
    for (double& sum : data.inputs[0]) sum /= 4;  // not into the flat parts of the gates
    const auto device = make_emulated_fpga(EngineArithmetic::kFloat32);
    const Made expected = made_on(*oracle, one, data), found = made_on(*device, one, data);
    EXPECT_LT(testing::normwise_difference(found.result.output, expected.result.output), 5e-6);
    EXPECT_LT(testing::normwise_difference(found.result.input_errors[0], expected.result.input_errors[0]), 2e-5);
    EXPECT_LT(testing::normwise_difference(found.record, expected.record), 2e-5);
    ++cases;
  }
  EXPECT_GE(cases, 10);
}

}  // namespace
}  // namespace millrace::emulated_steps
