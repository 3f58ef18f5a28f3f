// Recurrent layers on the emulated FPGA: forward as hardware, back close to real numbers, the same bits whoever asks, and able to learn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/reference/reference_device.h"
#include "fpga/emulated/emulated_fpga.h"
#include "fpga/recurrence/arithmetic/fixed_recurrent.h"
#include "node/ring/ring_trainer.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace {
namespace {

bool computed(const testing::OperationCase& one) {
  const auto* cell = std::get_if<Recurrent>(&one.spec.operation);
  if (cell == nullptr || one.spec.finish) return false;
  const bool known_slope = cell->gate_activation == GateActivation::kSigmoid || cell->gate_slope == 0.2;
  return known_slope && (cell->cell != CellKind::kGru || cell->reset_after);
}

}  // namespace

// Cells, directions, projections, short samples, states, hard gates and fused activations against the fp64 reference, with exact tables
// for sigmoid and tangent.
TEST(EmulatedRecurrent, StaysCloseToRealNumbersForthAndBack) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  int64_t cases = 0;
  for (const testing::OperationCase& one : testing::operation_cases({.per_kind = 60, .seed = 5})) {
    if (!computed(one)) continue;
    const bool relu = std::get<Recurrent>(one.spec.operation).cell == CellKind::kVanillaRelu;
    SCOPED_TRACE(one.name);
    const testing::CaseData data = data_of(one);
    const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
    device->use_gates(TanhForm::kTable);
    const testing::CaseResult expected = run_case(*oracle, one, data), found = run_case(*device, one, data);
    if (relu && std::ranges::any_of(expected.output, [](double value) { return std::fabs(value) > 15; })) continue;
    EXPECT_LT(testing::normwise_difference(found.output, expected.output), 0.005);
    for (size_t i = 0; i < found.input_errors.size(); ++i)
      EXPECT_LT(testing::normwise_difference(found.input_errors[i], expected.input_errors[i]), 0.04);
    for (size_t i = 0; i < found.gradients.size(); ++i)
      EXPECT_LT(testing::normwise_difference(found.gradients[i], expected.gradients[i]), 0.02);
    for (size_t i = 0; i < found.state.size(); ++i) EXPECT_LT(testing::normwise_difference(found.state[i], expected.state[i]), 0.01);
    const LayerArithmetic& counters = device->counters().at(one.spec.layer);
    EXPECT_EQ(counters.sums.accumulator_overflows, 0);
    EXPECT_GT(counters.inputs.rounded, 0);
    ++cases;
  }
  EXPECT_GE(cases, 30);
}

// The straight lines of PLAN are off by 0.0189, and say so: near real numbers, and not the tables.
TEST(EmulatedRecurrent, StraightLinesAreTheDefault) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  for (const testing::OperationCase& one : testing::operation_cases({.per_kind = 20, .seed = 6})) {
    if (!computed(one) || std::get<Recurrent>(one.spec.operation).cell != CellKind::kLstm) continue;
    SCOPED_TRACE(one.name);
    const testing::CaseData data = data_of(one);
    const auto lines = make_emulated_fpga(EngineArithmetic::kFixed16), tables = make_emulated_fpga(EngineArithmetic::kFixed16);
    tables->use_gates(TanhForm::kTable);
    const testing::CaseResult expected = run_case(*oracle, one, data), found = run_case(*lines, one, data);
    EXPECT_LT(testing::normwise_difference(found.output, expected.output), 0.15);
    EXPECT_NE(found.output, run_case(*tables, one, data).output);
  }
}

TEST(EmulatedRecurrent, CountsWhatDoesNotFit) {
  for (testing::OperationCase& one : testing::operation_cases({.per_kind = 20, .seed = 7})) {
    if (!computed(one) || one.short_samples) continue;
    testing::CaseData data = data_of(one);
    for (double& value : data.inputs[0]) value = 100;
    const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
    run_case(*device, one, data);
    const LayerArithmetic& counters = device->counters().at(one.spec.layer);
    EXPECT_EQ(counters.inputs.saturated, counters.inputs.rounded);
    EXPECT_GT(counters.inputs.saturated, 0);
    return;
  }
  FAIL() << "no case";
}

TEST(EmulatedRecurrent, RefusesByName) {
  const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
  KernelSpec spec;
  spec.layer = "walk";
  spec.operation = Recurrent{.cell = CellKind::kGru, .hidden = 4};
  spec.inputs = {{4, 3, 1}};
  spec.output = {4, 3, 1};
  expect_error(ErrorCode::kUnavailable, "set reset_after", [&] { device->make_kernel(spec); });
  spec.operation = Recurrent{.hidden = 4};
  spec.adds_to_output = true;
  expect_error(ErrorCode::kUnavailable, "leave it whole on one device", [&] { device->make_kernel(spec); });
}

// The products with x made by another device in real numbers, the steps in fixed point: near the reference's own, forth and back.
TEST(EmulatedRecurrent, TakesSumsThatAnotherDeviceMade) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  constexpr double kFlatter = 0.08;  // of slopes: the sums that are drawn reach far into the flat parts of the gates
  int64_t cases = 0;
  for (testing::OperationCase& one : testing::operation_cases({.per_kind = 80, .seed = 8})) {
    const auto* cell = std::get_if<Recurrent>(&one.spec.operation);
    if (cell == nullptr || !one.spec.finish || cell->cell == CellKind::kVanillaRelu ||
        (cell->cell == CellKind::kGru && !cell->reset_after) ||
        (cell->gate_activation != GateActivation::kSigmoid && cell->gate_slope != 0.2))
      continue;
    SCOPED_TRACE(one.name);
    const testing::CaseData data = data_of(one);
    const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
    device->use_gates(TanhForm::kTable);
    const testing::CaseResult expected = run_case(*oracle, one, data), found = run_case(*device, one, data);
    EXPECT_LT(testing::normwise_difference(found.output, expected.output), 0.005);
    for (size_t i = 0; i < found.input_errors.size(); ++i)
      EXPECT_LT(testing::normwise_difference(found.input_errors[i], expected.input_errors[i]), kFlatter);
    for (size_t i = 0; i < found.gradients.size(); ++i)
      EXPECT_LT(testing::normwise_difference(found.gradients[i], expected.gradients[i]), kFlatter);
    EXPECT_EQ(device->counters().at(one.spec.layer).sums.accumulator_overflows, 0);
    ++cases;
  }
  EXPECT_GE(cases, 5);
}

// The digits row by row, eight steps: sixteen bits with straight lines for gates within two points of single precision.
TEST(EmulatedRecurrent, LearnsTheDigitsRowByRow) {
  const std::string file = ::testing::TempDir() + "rows.textproto";
  std::ofstream(file) << R"(
      name: "rows"
      input { channels: 1 height: 8 width: 8 }
      layers { name: "steps" to_sequence {} }
      layers { name: "lstm" lstm { hidden: 24 } }
      layers { name: "last" last_step {} }
      layers { name: "fc" dense { out_features: 10 } }
      layers { name: "loss" softmax_cross_entropy {} })";
  Job job;
  job.model = file;
  job.data = "digits";
  job.epochs = 6;
  job.seed = 1;
  job.optimizer.kind = OptimizerKind::kAdam;
  job.learning_rate.base = 0.01;
  const TrainingTask task = prepare_task(job);
  const TrainingOutcome single = train_alone(task, [](int64_t) { return make_cpu_device({.threads = 1}); });
  const TrainingOutcome fixed = train_alone(task, [](int64_t) { return make_emulated_fpga(EngineArithmetic::kFixed16); });
  EXPECT_GT(single.test.accuracy, 0.85);
  EXPECT_GE(fixed.test.accuracy, single.test.accuracy - 0.02) << "fp32 " << single.test.accuracy;
  RecordProperty("fp32_accuracy", std::to_string(single.test.accuracy));
  RecordProperty("fixed16_accuracy", std::to_string(fixed.test.accuracy));
}

}  // namespace millrace
