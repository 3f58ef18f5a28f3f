#include "core/train/initialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace millrace {
namespace {

const ParameterSpec kWeight{.tensor = "weight", .dimensions = {64, 32, 5, 5}};
const ParameterSpec kBias{.tensor = "bias", .dimensions = {64}};
constexpr int64_t kDrawn = 64 * 32 * 5 * 5;
constexpr double kIn = 32 * 25;
constexpr double kOut = 64 * 25;

Layer layer_of(Initializer initializer, Operation operation = Conv2d{}, const std::string& name = "conv1") {
  return Layer{.name = name, .operation = operation, .inputs = {}, .frozen = false, .initializer = initializer};
}

std::vector<double> drawn(const Layer& layer, const ParameterSpec& parameter, int64_t elements, uint64_t seed = 1) {
  std::vector<double> values(static_cast<size_t>(elements));
  InitialValues(layer, parameter, fans_of(kWeight), seed).fill(std::span<double>(values));
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}
// Central moment of the given order.
double moment(const std::vector<double>& values, int order) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += std::pow(value - centre, order);
  return sum / static_cast<double>(values.size());
}

TEST(Fans, CountTheKernelOnBothSides) {
  EXPECT_EQ(fans_of(kWeight), (Fans{32 * 25, 64 * 25}));
  EXPECT_EQ(fans_of({.tensor = "weight", .dimensions = {10, 84}}), (Fans{84, 10}));
  EXPECT_EQ(fans_of({.tensor = "weight", .dimensions = {10}}), (Fans{1, 1}));
}

// 51200 draws: the mean lies within 5 sigma = 5 deviation / sqrt(51200) of 0, the variance within 2.5% (the standard
// error of a normal's variance is sqrt(2/51200) = 0.6%); kurtosis 3 for a normal, 9/5 for a uniform distribution.
struct Expected {
  Initializer initializer;
  double variance;
  double kurtosis;
};
void PrintTo(const Expected& expected, std::ostream* out) { *out << "initializer" << static_cast<int>(expected.initializer); }
class Distributions : public ::testing::TestWithParam<Expected> {};

TEST_P(Distributions, HaveTheirMoments) {
  const auto [initializer, variance, kurtosis] = GetParam();
  const auto values = drawn(layer_of(initializer), kWeight, kDrawn);
  EXPECT_LT(std::abs(mean(values)), 5 * std::sqrt(variance / kDrawn));
  EXPECT_NEAR(moment(values, 2) / variance, 1, 0.025);
  EXPECT_NEAR(moment(values, 4) / std::pow(moment(values, 2), 2), kurtosis, 0.12);
}
INSTANTIATE_TEST_SUITE_P(All, Distributions,
                         ::testing::Values(Expected{Initializer::kHeNormal, 2 / kIn, 3}, Expected{Initializer::kHeUniform, 2 / kIn, 1.8},
                                           Expected{Initializer::kXavierNormal, 2 / (kIn + kOut), 3},
                                           Expected{Initializer::kXavierUniform, 2 / (kIn + kOut), 1.8},
                                           Expected{Initializer::kTorchUniform, 1 / (3 * kIn), 1.8}));

TEST(Initialize, UniformValuesFillTheirBoundAndStayWithin) {
  for (const auto& [initializer, bound] :
       {std::pair(Initializer::kHeUniform, std::sqrt(6 / kIn)), std::pair(Initializer::kXavierUniform, std::sqrt(6 / (kIn + kOut))),
        std::pair(Initializer::kTorchUniform, 1 / std::sqrt(kIn))}) {
    const auto values = drawn(layer_of(initializer), kWeight, kDrawn);
    const auto [least, most] = std::ranges::minmax(values);
    const double in_single = static_cast<double>(static_cast<float>(bound));
    EXPECT_GE(least, -in_single);
    EXPECT_LE(most, in_single);
    EXPECT_LT(least, -0.999 * bound);
    EXPECT_GT(most, 0.999 * bound);
  }
}

TEST(Initialize, ZeroAndBiases) {
  for (const double value : drawn(layer_of(Initializer::kZero), kWeight, 100)) EXPECT_EQ(value, 0);
  for (const auto initializer : {Initializer::kHeNormal, Initializer::kXavierUniform, Initializer::kZero})
    for (const double value : drawn(layer_of(initializer), kBias, 64)) EXPECT_EQ(value, 0);
  // PyTorch draws biases like the weights, from the weights' fan.
  const auto biases = drawn(layer_of(Initializer::kTorchUniform), kBias, 20000);
  EXPECT_NEAR(moment(biases, 2), 1 / (3 * kIn), 0.05 / (3 * kIn));
}

TEST(Initialize, BatchNormStartsAsTheIdentity) {
  for (const auto initializer : {Initializer::kHeNormal, Initializer::kTorchUniform, Initializer::kZero}) {
    const Layer layer = layer_of(initializer, BatchNorm{}, "bn1");
    const std::map<std::string, double> expected = {{"weight", 1}, {"bias", 0}, {"running_mean", 0}, {"running_var", 1}};
    std::map<std::string, double> started;
    const std::vector<Shape> inputs = {{8, 1, 1}};
    for (const ParameterSpec& parameter : parameters_of(layer.operation, inputs))
      started[parameter.tensor] = InitialValues(layer, parameter, {1, 1}, 3).at(5);
    EXPECT_EQ(started, expected);
  }
}

// A recurrent cell has two weights of different widths: each goes by its own.
TEST(Initialize, EveryWeightGoesByItsOwnFans) {
  const Layer cell = layer_of(Initializer::kHeNormal, Recurrent{.hidden = 100}, "rnn");
  std::vector<double> values(10000);
  InitialValues(cell, {.tensor = "weight_hh", .dimensions = {100, 100}}, {25, 100}, 1).fill(std::span<double>(values));
  EXPECT_NEAR(moment(values, 2), 0.02, 0.001);
}

TEST(Initialize, RecurrentCellsAndEmbeddingsFollowPyTorch) {
  const Layer lstm = layer_of(Initializer::kTorchUniform, Recurrent{.hidden = 100}, "lstm");
  std::vector<double> values(20000);
  const ParameterSpec weight_ih = parameters_of(lstm.operation, std::vector<Shape>{{50, 1, 1}}).front();
  EXPECT_EQ(weight_ih.tensor, "weight_ih");
  InitialValues(lstm, weight_ih, {50, 400}, 1).fill(std::span<double>(values));
  EXPECT_NEAR(moment(values, 2), 0.01 / 3, 0.0001);
  const Layer embedding = layer_of(Initializer::kTorchUniform, Embedding{.vocabulary = 200, .dimension = 100}, "embedding");
  const ParameterSpec rows = parameters_of(embedding.operation, std::vector<Shape>{{1, 1, 1}}).front();
  InitialValues(embedding, rows, {100, 200}, 1).fill(std::span<double>(values));
  EXPECT_NEAR(moment(values, 2), 1, 0.05);
}

// What makes any partition start from the same weights: a slice anywhere equals that slice of the whole.
TEST(Initialize, EverySliceDrawsTheNumbersOfTheWhole) {
  for (const auto initializer : {Initializer::kHeNormal, Initializer::kHeUniform, Initializer::kTorchUniform, Initializer::kZero}) {
    const InitialValues values(layer_of(initializer), kWeight, fans_of(kWeight), 11);
    std::vector<float> whole(1000);
    values.fill(std::span<float>(whole));
    for (const int64_t first : {0, 1, 2, 3, 4, 17, 995})
      for (const int64_t count : {0, 1, 3, 5}) {
        std::vector<float> slice(static_cast<size_t>(count));
        values.fill(std::span<float>(slice), first);
        for (int64_t i = 0; i < count; ++i) {
          EXPECT_EQ(slice[static_cast<size_t>(i)], whole[static_cast<size_t>(first + i)]);
          EXPECT_EQ(values.at(first + i), static_cast<double>(whole[static_cast<size_t>(first + i)]));
        }
      }
  }
}

TEST(Initialize, BothPrecisionsStartEqual) {
  for (const auto initializer : {Initializer::kHeNormal, Initializer::kXavierUniform}) {
    const InitialValues values(layer_of(initializer), kWeight, fans_of(kWeight), 5);
    std::vector<float> single(500);
    std::vector<double> wide(500);
    values.fill(std::span<float>(single));
    values.fill(std::span<double>(wide));
    for (size_t i = 0; i < single.size(); ++i) EXPECT_EQ(static_cast<double>(single[i]), wide[i]);
  }
}

TEST(Initialize, SeedLayerAndTensorEachGiveOtherNumbers) {
  const auto base = drawn(layer_of(Initializer::kHeNormal), kWeight, 50);
  EXPECT_EQ(drawn(layer_of(Initializer::kHeNormal), kWeight, 50), base);
  EXPECT_NE(drawn(layer_of(Initializer::kHeNormal), kWeight, 50, 2), base);
  EXPECT_NE(drawn(layer_of(Initializer::kHeNormal, Conv2d{}, "conv2"), kWeight, 50), base);
  EXPECT_NE(drawn(layer_of(Initializer::kHeNormal), {.tensor = "weight_hh", .dimensions = {64, 32, 5, 5}}, 50), base);
}

// Beyond 32 bits of element index nothing repeats.
TEST(Initialize, LargeTensorsDoNotWrapAround) {
  const InitialValues values(layer_of(Initializer::kHeUniform), kWeight, fans_of(kWeight), 1);
  EXPECT_NE(values.at(0), values.at(int64_t{1} << 32));
  EXPECT_NE(values.at(0), values.at(int64_t{1} << 34));
}

}  // namespace
}  // namespace millrace
