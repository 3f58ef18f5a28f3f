// What recurrent layers promise beyond their derivatives: the end of a sample, carried states, cut errors, the input's
// product apart. PyTorch's numbers are in tests/golden.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "core/base/error.h"
#include "core/reference/reference_device.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace {
namespace {

using testing::CaseData;
using testing::CaseResult;
using testing::CaseRun;
using ::testing::HasSubstr;
using testing::normwise_difference;
using testing::OperationCase;

OperationCase case_of(const Operation& operation, const Shape& input, int64_t samples) {
  OperationCase c;
  c.spec.layer = "layer";
  c.spec.operation = operation;
  c.spec.inputs = {input};
  c.spec.output = infer_shape(operation, c.spec.inputs, "layer");
  c.spec.micro_batch = samples;
  c.adds = {0};
  c.seed = 5;
  return c;
}

CaseResult run(const OperationCase& c, const CaseData& data) {
  return testing::run_case(*make_reference_device(ElementType::kFloat64), c, data);
}

// [sample][channel][step]: the first `length` steps of one sample.
std::vector<double> first_steps(const std::vector<double>& values, const Shape& shape, int64_t sample, int64_t length) {
  std::vector<double> part;
  for (int64_t c = 0; c < shape.channels; ++c)
    for (int64_t t = 0; t < length; ++t) part.push_back(values[static_cast<size_t>((sample * shape.channels + c) * shape.height + t)]);
  return part;
}
std::vector<double> steps(const std::vector<double>& values, const Shape& shape, int64_t begin, int64_t end) {
  std::vector<double> part;
  for (size_t row = 0; row < values.size() / static_cast<size_t>(shape.height); ++row)
    for (int64_t t = begin; t < end; ++t) part.push_back(values[row * static_cast<size_t>(shape.height) + static_cast<size_t>(t)]);
  return part;
}

const std::vector<Recurrent>& all_cells() {
  static const std::vector<Recurrent> cells = {
      {.cell = CellKind::kLstm, .hidden = 4},        {.cell = CellKind::kLstm, .hidden = 4, .projection = 3},
      {.cell = CellKind::kGru, .hidden = 4},         {.cell = CellKind::kGru, .hidden = 4, .reset_after = true},
      {.cell = CellKind::kVanillaRelu, .hidden = 4}, {.cell = CellKind::kVanillaTanh, .hidden = 4},
  };
  return cells;
}

class EveryCell : public ::testing::TestWithParam<size_t> {
 protected:
  Recurrent cell() const { return all_cells()[GetParam()]; }
};
INSTANTIATE_TEST_SUITE_P(Recurrent, EveryCell, ::testing::Range(size_t{0}, all_cells().size()));

// A short sample among others gives what it gives alone, whatever lies behind its end.
TEST_P(EveryCell, WhatLiesBehindTheEndDoesNotMatter) {
  for (const bool both_ways : {false, true}) {
    Recurrent operation = cell();
    operation.bidirectional = both_ways;
    const OperationCase together = case_of(operation, {3, 6, 1}, 3);
    CaseData data = data_of(together);
    data.lengths = {6, 2, 4};
    const CaseResult all = run(together, data);
    std::vector<std::vector<double>> gradients;
    for (int64_t n = 0; n < 3; ++n) {
      const int64_t length = data.lengths[static_cast<size_t>(n)];
      const OperationCase alone = case_of(operation, {3, length, 1}, 1);
      CaseData own = data_of(alone);
      own.parameters = data.parameters;
      own.inputs[0] = first_steps(data.inputs[0], together.spec.inputs[0], n, length);
      own.output_error = first_steps(data.output_error, together.spec.output, n, length);
      for (auto& gradient : own.gradients_before) std::ranges::fill(gradient, 0.0);
      const CaseResult single = run(alone, own);
      EXPECT_EQ(first_steps(all.output, together.spec.output, n, length), single.output);
      EXPECT_EQ(first_steps(all.input_errors[0], together.spec.inputs[0], n, length), single.input_errors[0]);
      for (int64_t c = 0; c < together.spec.output.channels; ++c)
        for (int64_t t = length; t < 6; ++t) EXPECT_EQ(all.output[static_cast<size_t>((n * together.spec.output.channels + c) * 6 + t)], 0);
      if (gradients.empty()) gradients = data.gradients_before;
      for (size_t g = 0; g < gradients.size(); ++g)
        for (size_t i = 0; i < gradients[g].size(); ++i) gradients[g][i] += single.gradients[g][i];
    }
    for (size_t g = 0; g < gradients.size(); ++g) EXPECT_LE(normwise_difference(all.gradients[g], gradients[g]), 1e-13) << g;
  }
}

// Six steps at once, and as three mini-batches of two that carry the state on: the same outputs. Errors end at a
// mini-batch, so they are those of six steps cut after every second.
TEST_P(EveryCell, CarriedStateContinuesASequence) {
  Recurrent stateful = cell(), cut = cell();
  stateful.stateful = true;
  cut.truncation = 2;
  const OperationCase whole = case_of(cut, {3, 6, 1}, 2);
  CaseData data = data_of(whole);
  for (auto& gradient : data.gradients_before) std::ranges::fill(gradient, 0.0);
  const CaseResult expected = run(whole, data);

  const OperationCase part = case_of(stateful, {3, 2, 1}, 2);
  CaseData piece = data_of(part);
  piece.fresh.clear();
  piece.parameters = data.parameters;
  piece.gradients_before = data.gradients_before;
  for (auto& state : piece.state) std::ranges::fill(state, 0.0);
  std::vector<std::vector<double>> gradients = data.gradients_before;
  for (int64_t begin = 0; begin < 6; begin += 2) {
    piece.inputs[0] = steps(data.inputs[0], whole.spec.inputs[0], begin, begin + 2);
    piece.output_error = steps(data.output_error, whole.spec.output, begin, begin + 2);
    const CaseResult result = run(part, piece);
    EXPECT_EQ(result.output, steps(expected.output, whole.spec.output, begin, begin + 2));
    EXPECT_EQ(result.input_errors[0], steps(expected.input_errors[0], whole.spec.inputs[0], begin, begin + 2));
    for (size_t g = 0; g < gradients.size(); ++g)
      for (size_t i = 0; i < gradients[g].size(); ++i) gradients[g][i] += result.gradients[g][i];
    piece.state = result.state;
  }
  for (size_t g = 0; g < gradients.size(); ++g) EXPECT_LE(normwise_difference(expected.gradients[g], gradients[g]), 1e-13) << g;

  // Uncut, errors go further.
  const CaseResult uncut = run(case_of(cell(), {3, 6, 1}, 2), data);
  EXPECT_EQ(uncut.output, expected.output);
  EXPECT_NE(uncut.input_errors[0], expected.input_errors[0]);
}

TEST_P(EveryCell, CutsBothDirectionsAtTheSameSteps) {
  Recurrent cut = cell(), short_one = cell();
  cut.bidirectional = short_one.bidirectional = true;
  cut.truncation = 3;
  const OperationCase whole = case_of(cut, {2, 5, 1}, 1);
  CaseData data = data_of(whole);
  // An error at step 3 alone reaches steps 3 and 4, and nothing before.
  for (size_t i = 0; i < data.output_error.size(); ++i) data.output_error[i] = i % 5 == 3 ? 1.0 : 0.0;
  const CaseResult result = run(whole, data);
  for (size_t i = 0; i < result.input_errors[0].size(); ++i) {
    if (i % 5 < 3) {
      EXPECT_EQ(result.input_errors[0][i], 0) << i;
    } else if (cell().cell != CellKind::kVanillaRelu) {
      EXPECT_NE(result.input_errors[0][i], 0) << i;
    }
  }
}

TEST_P(EveryCell, FreshSamplesAndEvaluationStartFromZero) {
  Recurrent stateful = cell();
  stateful.stateful = true;
  const OperationCase c = case_of(stateful, {3, 4, 1}, 2);
  CaseData data = data_of(c);
  data.fresh.clear();
  const CaseResult carried = run(c, data);
  data.fresh = {0, 1};
  const CaseResult second_fresh = run(c, data);
  CaseData zero = data;
  zero.fresh.clear();
  for (auto& state : zero.state) std::ranges::fill(state, 0.0);
  const CaseResult from_zero = run(c, zero);
  const auto half = [](const std::vector<double>& values, int which) {
    const auto middle = static_cast<std::ptrdiff_t>(values.size() / 2);
    return which == 0 ? std::vector<double>(values.begin(), values.begin() + middle)
                      : std::vector<double>(values.begin() + middle, values.end());
  };
  EXPECT_EQ(half(second_fresh.output, 0), half(carried.output, 0));
  EXPECT_EQ(half(second_fresh.output, 1), half(from_zero.output, 1));
  EXPECT_NE(half(second_fresh.output, 1), half(carried.output, 1));

  OperationCase evaluation = c;
  evaluation.training = false;
  data.fresh.clear();
  const CaseResult evaluated = run(evaluation, data);
  EXPECT_EQ(evaluated.output, from_zero.output);
  EXPECT_EQ(evaluated.state, data.state);
}

// Each micro-batch of a mini-batch has a place of its own in the state.
TEST_P(EveryCell, MicroBatchesDoNotShareTheirStates) {
  Recurrent stateful = cell();
  stateful.stateful = true;
  OperationCase c = case_of(stateful, {3, 2, 1}, 2);
  c.spec.micro_batches = 3;  // micro_batch_of gives s = 3: the first of the next mini-batch
  const CaseData data = data_of(c);
  const CaseResult result = run(c, data);
  for (size_t i = 0; i < data.state.size(); ++i) {
    const size_t third = data.state[i].size() / 3;
    EXPECT_NE(std::vector(result.state[i].begin(), result.state[i].begin() + static_cast<std::ptrdiff_t>(third)),
              std::vector(data.state[i].begin(), data.state[i].begin() + static_cast<std::ptrdiff_t>(third)));
    for (size_t e = third; e < data.state[i].size(); ++e) EXPECT_EQ(result.state[i][e], data.state[i][e]);
  }
}

// x W by itself (a dense layer on every step) and the rest behind it.
TEST_P(EveryCell, InputProductCanBeMadeApart) {
  const OperationCase whole = case_of(cell(), {3, 5, 1}, 2);
  CaseData data = data_of(whole);
  for (auto& gradient : data.gradients_before) std::ranges::fill(gradient, 0.0);
  const CaseResult expected = run(whole, data);

  const int64_t sums = static_cast<int64_t>(data.parameters[2].size());
  const OperationCase product = case_of(Dense{.out_features = sums, .bias = false}, {3, 5, 1}, 2);
  CaseData first = data_of(product);
  first.inputs = data.inputs;
  first.parameters = {data.parameters[0]};
  first.gradients_before = {data.gradients_before[0]};
  OperationCase rest = case_of(cell(), {sums, 5, 1}, 2);
  rest.spec.finish = true;
  CaseData second = data_of(rest);
  second.inputs = {run(product, first).output};
  second.parameters.assign(data.parameters.begin() + 1, data.parameters.end());
  second.gradients_before.assign(data.gradients_before.begin() + 1, data.gradients_before.end());
  second.output_error = data.output_error;
  const CaseResult finished = run(rest, second);
  first.output_error = finished.input_errors[0];
  const CaseResult multiplied = run(product, first);

  EXPECT_EQ(finished.output, expected.output);
  EXPECT_LE(normwise_difference(multiplied.input_errors[0], expected.input_errors[0]), 1e-14);
  EXPECT_LE(normwise_difference(multiplied.gradients[0], expected.gradients[0]), 1e-14);
  for (size_t g = 0; g < finished.gradients.size(); ++g)
    EXPECT_LE(normwise_difference(finished.gradients[g], expected.gradients[g + 1]), 1e-14) << g;
}

TEST_P(EveryCell, LargeSumsSaturateWithoutNan) {
  const auto device = make_reference_device(ElementType::kFloat32);
  const OperationCase c = case_of(cell(), {3, 5, 1}, 2);
  CaseData data = data_of(c);
  for (double& x : data.inputs[0]) x *= 1e4;
  const CaseResult result = testing::run_case(*device, c, data);
  for (const double value : result.output) EXPECT_TRUE(std::isfinite(value));
  for (const auto& gradient : result.gradients)
    for (const double value : gradient) EXPECT_TRUE(std::isfinite(value));
}

TEST(RecurrentErrors, LengthsAreOnePerSample) {
  const OperationCase c = case_of(Recurrent{.hidden = 2}, {3, 4, 1}, 2);
  CaseData data = data_of(c);
  data.lengths = {4};
  try {
    run(c, data);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("1 lengths for 2 samples"));
  }
}

// ---- the layers around them ----------------------------------------------------------------------------------------

TEST(ShortSamples, LastStepIsTheSamplesOwn) {
  const OperationCase c = case_of(LastStep{}, {2, 3, 1}, 3);
  CaseData data = data_of(c);
  data.inputs[0] = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26};
  data.output_error = {-1, -2, -3, -4, -5, -6};
  data.lengths = {2, 3, 0};
  const CaseResult result = run(c, data);
  EXPECT_THAT(result.output, ::testing::ElementsAre(2, 5, 13, 16, 0, 0));
  EXPECT_THAT(result.input_errors[0], ::testing::ElementsAre(0, -1, 0, 0, -2, 0, 0, 0, -3, 0, 0, -4, 0, 0, 0, 0, 0, 0));
}

TEST(ShortSamples, BatchNormLeavesOutWhatLiesBehind) {
  const OperationCase together = case_of(BatchNorm{}, {2, 5, 3}, 1);
  CaseData data = data_of(together);
  data.lengths = {4};
  const CaseResult cut = run(together, data);
  const OperationCase alone = case_of(BatchNorm{}, {2, 4, 3}, 1);
  CaseData own = data_of(alone);
  own.parameters = data.parameters;
  own.state = data.state;
  own.gradients_before = data.gradients_before;
  const auto first_rows = [](const std::vector<double>& values) {
    std::vector<double> rows;
    for (size_t i = 0; i < values.size(); ++i)
      if (i % 15 < 12) rows.push_back(values[i]);
    return rows;
  };
  own.inputs[0] = first_rows(data.inputs[0]);
  own.output_error = first_rows(data.output_error);
  const CaseResult expected = run(alone, own);
  EXPECT_EQ(first_rows(cut.output), expected.output);
  EXPECT_EQ(first_rows(cut.input_errors[0]), expected.input_errors[0]);
  EXPECT_EQ(cut.gradients, expected.gradients);
  EXPECT_EQ(cut.state, expected.state);
  for (size_t i = 0; i < cut.output.size(); ++i) {
    if (i % 15 < 12) continue;
    EXPECT_EQ(cut.output[i], 0);
    EXPECT_EQ(cut.input_errors[0][i], 0);
  }
}

// Lengths are those of the network's input; a kernel knows what became of them on the way.
TEST(ShortSamples, LengthsShrinkWithTheRows) {
  OperationCase c = case_of(LastStep{}, {1, 3, 1}, 2);
  c.spec.steps.windows = {{.kernel = 3, .stride = 2, .pad = 1}};
  CaseData data = data_of(c);
  data.inputs[0] = {1, 2, 3, 11, 12, 13};
  data.lengths = {4, 1};
  EXPECT_THAT(run(c, data).output, ::testing::ElementsAre(2, 11));
}

TEST(ShortSamples, GlobalPoolingRefusesThem) {
  const OperationCase c = case_of(GlobalPool{}, {2, 3, 1}, 2);
  CaseData data = data_of(c);
  data.lengths = {3, 3};
  EXPECT_NO_THROW(run(c, data));
  data.lengths = {3, 2};
  EXPECT_THROW(run(c, data), Error);
}

TEST(EmbeddingLayer, TakesRowsAndAddsUpGradients) {
  const OperationCase c = case_of(Embedding{.vocabulary = 3, .dimension = 2}, {1, 3, 1}, 1);
  CaseData data = data_of(c);
  data.inputs[0] = {2, 0, 2};
  data.parameters = {{1, 2, 3, 4, 5, 6}};
  data.output_error = {10, 20, 30, 40, 50, 60};
  data.gradients_before = {{0, 0, 0, 0, 0, 0}};
  const CaseResult result = run(c, data);
  EXPECT_THAT(result.output, ::testing::ElementsAre(5, 1, 5, 6, 2, 6));
  EXPECT_THAT(result.gradients[0], ::testing::ElementsAre(20, 50, 0, 0, 40, 100));
}

TEST(EmbeddingLayer, RefusesWhatIsNoToken) {
  const OperationCase c = case_of(Embedding{.vocabulary = 3, .dimension = 2}, {1, 3, 1}, 2);
  for (const double bad : {3.0, -1.0, 0.5, std::nan("")}) {
    CaseData data = data_of(c);
    data.inputs[0] = {0, 1, 2, 0, bad, 1};
    try {
      run(c, data);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMismatch);
      EXPECT_THAT(error.what(), HasSubstr("at step 1 of sample 1; the vocabulary has ids 0 to 2"));
    }
    data.lengths = {3, 1};  // behind the end anything may lie
    EXPECT_NO_THROW(run(c, data));
  }
}

}  // namespace
}  // namespace millrace
