// Every operation's E and G against central differences of its F, in fp64, over random shapes and options.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/reference/reference_device.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace {
namespace {

using testing::CaseData;
using testing::CaseResult;
using testing::CaseRun;
using testing::data_of;
using testing::normwise_difference;
using testing::operation_cases;
using testing::operation_cases_of;
using testing::OperationCase;

// What E and G differentiate: the loss, or the output weighed with the given output error.
double objective(Device& device, CaseRun& run, const OperationCase& c, const CaseData& data) {
  const Score score = run.forward();
  if (!data.labels.empty()) return score.loss * testing::micro_batch_of(c, data).error_scale;
  const std::vector<double> output = testing::values_of(device, *run.output);
  double sum = 0;
  for (size_t i = 0; i < output.size(); ++i) sum += output[i] * data.output_error[i];
  return sum;
}

// Central differences. Where the slopes to the left and to the right differ, a kink (relu, a maximum) lies within the
// step, and a smaller one is tried.
std::vector<double> numeric_gradient(Device& device, CaseRun& run, const OperationCase& c, const CaseData& data, Tensor& variable) {
  const std::vector<double> base = testing::values_of(device, variable);
  const double here = objective(device, run, c, data);
  const auto objective_at = [&](size_t i, double value) {
    std::vector<double> moved = base;
    moved[i] = value;
    device.write(variable, whole(variable), std::span<const double>(moved));
    return objective(device, run, c, data);
  };
  std::vector<double> gradient(base.size());
  for (size_t i = 0; i < base.size(); ++i)
    for (const double step : {1e-5, 1e-6, 1e-7}) {
      const double left = (here - objective_at(i, base[i] - step)) / step;
      const double right = (objective_at(i, base[i] + step) - here) / step;
      gradient[i] = (left + right) / 2;
      if (std::abs(left - right) <= 1e-2 * std::max(1.0, std::abs(gradient[i]))) break;
    }
  device.write(variable, whole(variable), std::span<const double>(base));
  return gradient;
}

std::vector<double> sum_of(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

void expect_central_differences(const OperationCase& c) {
  const auto device = make_reference_device(ElementType::kFloat64);
  CaseData data = data_of(c);
  // What running statistics take out of errors is no derivative.
  if (std::holds_alternative<BatchNorm>(c.spec.operation))
    for (size_t i = 2; i < std::min<size_t>(4, data.state.size()); ++i) std::ranges::fill(data.state[i], 0.0);
  const CaseResult result = testing::run_case(*device, c, data);
  CaseRun run(*device, c, data);
  for (size_t i = 0; i < c.spec.inputs.size(); ++i) {
    if (std::holds_alternative<Embedding>(c.spec.operation)) break;  // of tokens
    std::vector<double> expected = numeric_gradient(*device, run, c, data, *run.inputs[i]);
    if (c.adds[i] != 0) expected = sum_of(expected, data.input_errors_before[i]);
    EXPECT_LE(normwise_difference(result.input_errors[i], expected), 1e-7) << "input " << i;
  }
  for (size_t i = 0; i < (c.spec.trained ? data.parameters.size() : 0); ++i) {
    const std::vector<double> expected = sum_of(numeric_gradient(*device, run, c, data, *run.parameters[i]), data.gradients_before[i]);
    EXPECT_LE(normwise_difference(result.gradients[i], expected), 1e-7) << "parameter " << i;
  }
}

// By kind of operation.
class Gradients : public ::testing::TestWithParam<size_t> {};

TEST_P(Gradients, AgreeWithCentralDifferences) {
  for (const OperationCase& c : operation_cases_of(GetParam(), {.per_kind = 60})) {
    SCOPED_TRACE(c.name);
    expect_central_differences(c);
  }
}

TEST_P(Gradients, AgreeBetweenFp32AndFp64) {
  for (const OperationCase& c : operation_cases_of(GetParam(), {.per_kind = 60})) {
    SCOPED_TRACE(c.name);
    const CaseData data = data_of(c);
    const CaseResult exact = testing::run_case(*make_reference_device(ElementType::kFloat64), c, data);
    const CaseResult rounded = testing::run_case(*make_reference_device(ElementType::kFloat32), c, data);
    EXPECT_LE(normwise_difference(rounded.output, exact.output), 1e-5);
    for (size_t i = 0; i < exact.input_errors.size(); ++i)
      EXPECT_LE(normwise_difference(rounded.input_errors[i], exact.input_errors[i]), 1e-4) << "input " << i;
    for (size_t i = 0; i < exact.gradients.size(); ++i)
      EXPECT_LE(normwise_difference(rounded.gradients[i], exact.gradients[i]), 1e-4) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Gradients, ::testing::Range(size_t{0}, testing::operation_kinds()));

// The cases are only worth something when they reach the corners they were made for.
TEST(OperationCases, CoverTheOptions) {
  std::map<std::string, int> seen;
  for (const OperationCase& c : operation_cases({.per_kind = 60})) {
    seen["adds to output"] += c.spec.adds_to_output;
    seen["fused activation"] += c.spec.activation.has_value();
    seen["batch norm with running statistics"] += std::holds_alternative<BatchNorm>(c.spec.operation) && !c.spec.trained;
    if (const auto* norm = std::get_if<BatchNorm>(&c.spec.operation))
      seen["batch norm trained with running statistics"] += norm->statistics == Statistics::kRunning && c.spec.trained;
    if (const auto* conv = std::get_if<Conv2d>(&c.spec.operation)) {
      seen["groups"] += conv->groups > 1;
      seen["stride and dilation"] += conv->stride_h > 1 && conv->dilation_h > 1;
      seen["padding"] += conv->pad_h > 0 && conv->pad_w > 0;
    }
    if (const auto* cell = std::get_if<Recurrent>(&c.spec.operation)) {
      seen["each cell " + std::to_string(static_cast<int>(cell->cell))] += 1;
      seen["projection"] += cell->projection > 0;
      seen["bidirectional"] += cell->bidirectional && c.spec.inputs[0].height > 1;
      seen["state taken up"] += cell->stateful;
      seen["gru with reset after"] += cell->reset_after;
      seen["gru with reset before"] += cell->cell == CellKind::kGru && !cell->reset_after;
      seen["hard gates of lstm"] += cell->cell == CellKind::kLstm && cell->gate_activation == GateActivation::kHardSigmoid;
      seen["hard gates of gru"] += cell->cell == CellKind::kGru && cell->gate_activation == GateActivation::kHardSigmoid;
      seen["recurrent without its input product"] += c.spec.finish;
      seen["recurrent with short samples"] += c.short_samples && c.spec.inputs[0].height > 1;
    }
    seen["short samples elsewhere"] += c.short_samples && !std::holds_alternative<Recurrent>(c.spec.operation);
    if (const auto* dense = std::get_if<Dense>(&c.spec.operation)) seen["dense per step"] += c.spec.output.height > 1 && dense->bias;
    if (const auto* pool = std::get_if<Pool2d>(&c.spec.operation))
      seen["average over partial padded windows"] += pool->kind == PoolKind::kAverage && pool->ceil_mode && pool->pad_h > 0;
  }
  for (const auto& [what, count] : seen) EXPECT_GE(count, 3) << what;
  EXPECT_EQ(seen.size(), 23u);
}

}  // namespace
}  // namespace millrace
