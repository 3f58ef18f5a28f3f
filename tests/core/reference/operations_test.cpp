// What single operations promise beyond their derivatives, with numbers worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/device/dropout_mask.h"
#include "core/reference/reference_device.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace {
namespace {

using testing::CaseData;
using testing::CaseResult;
using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OperationCase;
using ::testing::Pointwise;

// One operation on given data, in fp64.
struct Fixture {
  OperationCase c;
  CaseData data;

  Fixture(Operation operation, std::vector<Shape> inputs, int64_t samples) {
    c.spec.layer = "layer";
    c.spec.operation = std::move(operation);
    c.spec.inputs = std::move(inputs);
    c.spec.output = infer_shape(c.spec.operation, c.spec.inputs, "layer");
    c.spec.micro_batch = samples;
    c.adds.assign(c.spec.inputs.size(), 0);
    c.seed = 1;
    data = data_of(c);
  }
  CaseResult run() const { return testing::run_case(*make_reference_device(ElementType::kFloat64), c, data); }
};

std::string message_of(const std::function<void()>& call, ErrorCode expected) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Pooling, EqualValuesGoToTheFirst) {
  Fixture f(Pool2d{.kind = PoolKind::kMax}, {{1, 2, 4}}, 1);
  f.data.inputs[0] = {1, 5, 7, 7,  //
                      5, 5, 7, 7};
  f.data.output_error = {10, 20};
  const CaseResult result = f.run();
  EXPECT_THAT(result.output, ElementsAre(5, 7));
  EXPECT_THAT(result.input_errors[0], ElementsAre(0, 10, 20, 0, 0, 0, 0, 0));
}

TEST(Pooling, NegativeMaximumIsNotCutByPadding) {
  Fixture f(Pool2d{.kind = PoolKind::kMax, .kernel_h = 1, .kernel_w = 3, .stride_h = 1, .stride_w = 2, .pad_w = 1}, {{1, 1, 3}}, 1);
  f.data.inputs[0] = {-4, -2, -3};
  EXPECT_THAT(f.run().output, ElementsAre(-2, -2));
}

TEST(Pooling, AverageDividesByTheValuesOrByTheWindow) {
  Pool2d pool{.kind = PoolKind::kAverage, .kernel_h = 1, .kernel_w = 3, .stride_h = 1, .stride_w = 2, .pad_w = 1};
  Fixture valid(pool, {{1, 1, 3}}, 1);
  valid.data.inputs[0] = {6, 12, 30};
  EXPECT_THAT(valid.run().output, ElementsAre(9, 21));
  pool.count_include_pad = true;
  Fixture padded(pool, {{1, 1, 3}}, 1);
  padded.data.inputs[0] = {6, 12, 30};
  EXPECT_THAT(padded.run().output, ElementsAre(6, 14));
}

// A window of a ceil_mode may reach past input and padding: what lies there counts for nothing.
TEST(Pooling, WithThePaddingCountedTheLastPartialWindowDividesByWhatLiesOnInputAndPadding) {
  Fixture corner(Pool2d{.kind = PoolKind::kAverage, .ceil_mode = true, .count_include_pad = true}, {{1, 5, 5}}, 1);
  corner.data.inputs[0].assign(25, 1);
  EXPECT_THAT(corner.run().output, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1));
  Pool2d pool{.kind = PoolKind::kAverage, .kernel_h = 1, .kernel_w = 3, .stride_h = 1, .stride_w = 3, .pad_w = 1, .ceil_mode = true};
  pool.count_include_pad = true;
  Fixture padded(pool, {{1, 1, 6}}, 1);
  padded.data.inputs[0] = {3, 6, 1, 2, 3, 8};  // (0 3 6) (1 2 3) (8 0): one of padding each side, the ninth place is neither
  EXPECT_THAT(padded.run().output, ElementsAre(3, 2, 4));
}

TEST(Pooling, CeilModeCountsTheLastPartialWindow) {
  Fixture f(Pool2d{.kind = PoolKind::kAverage, .kernel_h = 1, .stride_h = 1, .ceil_mode = true}, {{1, 1, 5}}, 1);
  f.data.inputs[0] = {1, 3, 5, 7, 9};
  EXPECT_THAT(f.run().output, ElementsAre(2, 6, 9));
}

TEST(BatchNormalisation, StatisticsOfTheMicroBatchAndRunningOnes) {
  Fixture f(BatchNorm{.epsilon = 1e-9, .momentum = 0.25}, {{1, 1, 2}}, 2);
  f.data.inputs[0] = {1, 3, 5, 7};  // mean 4, biased variance 5, unbiased 20 / 3
  f.data.parameters = {{2}, {10}};
  f.data.state = {{8}, {1}};
  const CaseResult result = f.run();
  const double unit = 2 / std::sqrt(5.0);
  EXPECT_THAT(result.output, Pointwise(DoubleNear(1e-8), {10 - 3 * unit, 10 - unit, 10 + unit, 10 + 3 * unit}));
  EXPECT_THAT(result.state[0], ElementsAre(DoubleEq(0.75 * 8 + 0.25 * 4)));
  EXPECT_THAT(result.state[1], ElementsAre(DoubleEq(0.75 * 1 + 0.25 * 20.0 / 3)));
}

TEST(BatchNormalisation, TrainedWithRunningStatisticsTheyAreConstantsAndSumsAreGathered) {
  Fixture f(BatchNorm{.epsilon = 1e-9, .momentum = 0.25, .statistics = Statistics::kRunning}, {{1, 1, 2}}, 2);
  f.data.inputs[0] = {1, 3, 5, 7};
  f.data.parameters = {{2}, {10}};
  f.data.state = {{8}, {4}, {0.5}, {2}, {1, 2, 3, 4, 5}};
  f.data.output_error = {1, 2, 3, 4};
  const CaseResult result = f.run();
  EXPECT_THAT(result.output, Pointwise(DoubleNear(1e-8), {10 - 7, 10 - 5, 10 - 3, 10 - 1}));
  EXPECT_THAT(result.input_errors[0], Pointwise(DoubleNear(1e-7), {7.5, 6.5, 5.5, 4.5}));
  EXPECT_THAT(result.state[0], ElementsAre(8));
  EXPECT_THAT(result.state[1], ElementsAre(4));
  EXPECT_THAT(result.state[2], ElementsAre(0.5));
  EXPECT_THAT(result.state[3], ElementsAre(2));
  EXPECT_THAT(result.state[4], Pointwise(DoubleNear(1e-7), {1 - 7.0 - 5 - 3 - 1, 2 + 49.0 + 25 + 9 + 1, 3 + 4.0, 4 + 10.0, 5 - 15.0}));
}

TEST(BatchNormalisation, EvaluationAndFrozenLayersUseRunningStatistics) {
  for (const bool training : {false, true}) {
    SCOPED_TRACE(training ? "frozen" : "evaluation");
    Fixture f(BatchNorm{.epsilon = 1e-9}, {{1, 1, 1}}, 1);
    f.c.training = training;
    f.c.spec.trained = !training;
    f.data.inputs[0] = {5};
    f.data.parameters = {{3}, {1}};
    f.data.state = {{1}, {4}};
    const CaseResult result = f.run();
    EXPECT_THAT(result.output, ElementsAre(DoubleNear(3 * (5 - 1) / 2.0 + 1, 1e-8)));
    EXPECT_THAT(result.state[0], ElementsAre(1));
    EXPECT_THAT(result.state[1], ElementsAre(4));
  }
}

TEST(BatchNormalisation, RefusesToTrainOnOneValuePerChannel) {
  const Fixture f(BatchNorm{}, {{3, 1, 1}}, 1);
  const std::string message = message_of([&] { f.run(); }, ErrorCode::kUsage);
  EXPECT_THAT(message, HasSubstr("layer \"layer\""));
  EXPECT_THAT(message, HasSubstr("micro-batch of two or more"));
}

TEST(LocalResponseNormalisation, WindowIsCutAtTheFirstAndLastChannel) {
  Fixture f(LocalResponseNorm{.size = 3, .alpha = 3, .beta = 1, .k = 2}, {{3, 1, 1}}, 1);
  f.data.inputs[0] = {1, 2, 3};
  EXPECT_THAT(f.run().output, ElementsAre(DoubleEq(1.0 / (2 + 5)), DoubleEq(2.0 / (2 + 14)), DoubleEq(3.0 / (2 + 13))));
}

TEST(DropoutLayer, DropsTheStatedShareAndScalesTheRest) {
  Fixture f(Dropout{.probability = 0.25}, {{10, 50, 50}}, 2);
  std::ranges::fill(f.data.inputs[0], 3.0);
  const CaseResult result = f.run();
  const auto dropped = std::ranges::count(result.output, 0.0);
  EXPECT_NEAR(static_cast<double>(dropped) / 50000, 0.25, 0.01);
  EXPECT_EQ(std::ranges::count(result.output, 4.0), 50000 - dropped);
}

TEST(DropoutLayer, IsTheIdentityInEvaluation) {
  Fixture f(Dropout{.probability = 0.9}, {{2, 3, 3}}, 2);
  f.c.training = false;
  EXPECT_EQ(f.run().output, f.data.inputs[0]);
}

// The same sample draws the same mask whatever its neighbours are, and another one in another epoch.
TEST(DropoutLayer, MaskBelongsToTheSampleNotToTheMicroBatch) {
  Fixture both(Dropout{}, {{7, 3, 3}}, 2);
  both.data.sample_ids = {41, 17};
  std::ranges::fill(both.data.inputs[0], 1.0);
  const std::vector<double> together = both.run().output;
  Fixture alone(Dropout{}, {{7, 3, 3}}, 1);
  alone.data.sample_ids = {17};
  std::ranges::fill(alone.data.inputs[0], 1.0);
  const std::vector<double> single = alone.run().output;
  EXPECT_EQ(std::vector<double>(together.begin() + 63, together.end()), single);
  EXPECT_NE(std::vector<double>(together.begin(), together.begin() + 63), single);
}

TEST(DropoutMask, FillAgreesWithSingleElements) {
  const int64_t elements = 27;  // not a multiple of four
  const DropoutMask<float> mask(Dropout{.probability = 0.4}, 9, "drop6", elements);
  for (const int64_t sample : {0, 1, 59'999}) {
    std::vector<float> filled(elements);
    mask.fill(3, sample, filled.data(), elements);
    for (int64_t e = 0; e < elements; ++e) EXPECT_EQ(filled[static_cast<size_t>(e)], mask.factor(3, sample, e)) << sample << " " << e;
  }
}

TEST(DropoutMask, DependsOnSeedLayerAndEpoch) {
  const auto pattern = [](uint64_t seed, std::string_view layer, int64_t epoch) {
    std::vector<float> factors(256);
    DropoutMask<float>(Dropout{}, seed, layer, 256).fill(epoch, 5, factors.data(), 256);
    return factors;
  };
  EXPECT_NE(pattern(1, "a", 0), pattern(2, "a", 0));
  EXPECT_NE(pattern(1, "a", 0), pattern(1, "b", 0));
  EXPECT_NE(pattern(1, "a", 0), pattern(1, "a", 1));
}

TEST(Softmax, LargeLogitsDoNotOverflow) {
  Fixture f(SoftmaxCrossEntropy{}, {{3, 1, 1}}, 2);
  f.c.seed = 2;  // odd ones smooth labels
  f.data.inputs[0] = {1000, 1000, -1000, -5000, 0, 3};
  f.data.labels = {2, 2};
  const CaseResult result = f.run();
  EXPECT_THAT(result.output, Pointwise(DoubleNear(1e-12), {0.5, 0.5, 0.0, 0.0, 1 / (1 + std::exp(3)), 1 / (1 + std::exp(-3))}));
  EXPECT_NEAR(result.score.loss, 2000 + std::log(2) + std::log1p(std::exp(-3)), 1e-9);
  EXPECT_EQ(result.score.correct, 1);
  EXPECT_EQ(result.score.samples, 2);
  EXPECT_NEAR(result.input_errors[0][2], -1 * 0.25, 1e-12);  // error scale 0.25
}

TEST(Softmax, SamplesWithoutALabelAreLeftOut) {
  Fixture f(SoftmaxCrossEntropy{}, {{2, 1, 1}}, 3);
  f.c.seed = 2;  // odd ones smooth labels
  f.data.inputs[0] = {0, 0, 5, 9, 0, 0};
  f.data.labels = {1, kNoLabel, 0};
  const CaseResult result = f.run();
  EXPECT_NEAR(result.score.loss, 2 * std::log(2), 1e-12);
  EXPECT_EQ(result.score.samples, 2);
  EXPECT_EQ(result.score.correct, 1);
  EXPECT_THAT(result.input_errors[0], ElementsAre(0.125, -0.125, 0, 0, -0.125, 0.125));
}

// Of a sequence the last labelled step decides whether it is correct.
TEST(Softmax, SequencesSumOverTheirLabelledSteps) {
  Fixture f(SoftmaxCrossEntropy{}, {{2, 3, 1}}, 1);
  f.c.seed = 2;  // odd ones smooth labels
  f.data.inputs[0] = {0, 7, 9, /* class 1 */ 0, 0, 0};
  f.data.labels = {1, 0, kNoLabel};
  const CaseResult result = f.run();
  EXPECT_NEAR(result.score.loss, std::log(2) + std::log1p(std::exp(-7)), 1e-12);
  EXPECT_EQ(result.score.samples, 1);
  EXPECT_EQ(result.score.correct, 1);
}

TEST(Softmax, ErrorsNameTheLabelAndTheClasses) {
  Fixture f(SoftmaxCrossEntropy{}, {{10, 1, 1}}, 2);
  f.data.labels = {3, 10};
  EXPECT_THAT(message_of([&] { f.run(); }, ErrorCode::kMismatch), HasSubstr("label 10, but the network tells 10 classes apart"));
  f.data.labels = {3};
  EXPECT_THAT(message_of([&] { f.run(); }, ErrorCode::kMismatch), HasSubstr("1 labels for 2 samples"));
}

TEST(Rearrangement, SequenceStepsAreRows) {
  Fixture f(ToSequence{}, {{2, 2, 3}}, 1);
  f.data.inputs[0] = {0, 1, 2, 10, 11, 12, /* channel 1 */ 100, 101, 102, 110, 111, 112};
  EXPECT_THAT(f.run().output, ElementsAre(0, 10, 1, 11, 2, 12, 100, 110, 101, 111, 102, 112));
}

TEST(Rearrangement, LastStepTakesTheLastRow) {
  Fixture f(LastStep{}, {{2, 3, 1}}, 2);
  f.data.inputs[0] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  f.data.output_error = {-1, -2, -3, -4};
  const CaseResult result = f.run();
  EXPECT_THAT(result.output, ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(result.input_errors[0], ElementsAre(0, 0, -1, 0, 0, -2, 0, 0, -3, 0, 0, -4));
}

TEST(Rearrangement, ConcatPutsInputsBehindEachOther) {
  Fixture f(Concat{}, {{1, 1, 2}, {2, 1, 2}}, 2);
  f.data.inputs = {{1, 2, 3, 4}, {10, 20, 30, 40, 50, 60, 70, 80}};
  EXPECT_THAT(f.run().output, ElementsAre(1, 2, 10, 20, 30, 40, 3, 4, 50, 60, 70, 80));
}

// A convolution with every option, written out for one output.
TEST(Convolution, StridePaddingDilationGroups) {
  const Conv2d conv{.out_channels = 4,
                    .kernel_h = 2,
                    .kernel_w = 2,
                    .stride_h = 2,
                    .stride_w = 1,
                    .pad_h = 1,
                    .pad_w = 0,
                    .dilation_h = 2,
                    .dilation_w = 3,
                    .groups = 2};
  Fixture f(conv, {{4, 5, 5}}, 1);
  f.c.spec.bias = true;
  EXPECT_EQ(f.c.spec.output, (Shape{4, 3, 2}));
  const std::vector<double>& x = f.data.inputs[0];
  const std::vector<double>& w = f.data.parameters[0];
  const auto in = [&](size_t c, size_t row, size_t column) { return x[(c * 5 + row) * 5 + column]; };
  // Output channel 3 is in the second group (inputs 2 and 3); row 2 reads input rows 3 and 5, the latter padding;
  // column 1 reads input columns 1 and 4.
  double expected = f.data.parameters[1][3];
  for (size_t i = 0; i < 2; ++i)
    expected += in(2 + i, 3, 1) * w[((3 * 2 + i) * 2 + 0) * 2 + 0] + in(2 + i, 3, 4) * w[((3 * 2 + i) * 2 + 0) * 2 + 1];
  EXPECT_DOUBLE_EQ(f.run().output[(3 * 3 + 2) * 2 + 1], expected);
}

}  // namespace
}  // namespace millrace
