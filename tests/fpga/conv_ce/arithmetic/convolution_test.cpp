#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "fpga/conv_ce/arithmetic/convolution_sums.h"
#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"

namespace millrace {

namespace {

// One output of the convolution, in the most obvious way.
int64_t output_at(const ConvolutionShape& s, const std::vector<int16_t>& input, const std::vector<int16_t>& weight, int64_t output,
                  int64_t row, int64_t column) {
  int64_t sum = 0;
  const int64_t per_group = s.inputs / s.groups;
  for (int64_t i = 0; i < per_group; ++i)
    for (int64_t kh = 0; kh < s.kernel_h; ++kh)
      for (int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const int64_t channel = output / (s.outputs / s.groups) * per_group + i;
        const int64_t y = row * s.stride_h - s.pad_h + kh * s.dilation_h;
        const int64_t x = column * s.stride_w - s.pad_w + kw * s.dilation_w;
        if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
        sum += int64_t{input[static_cast<size_t>((channel * s.height + y) * s.width + x)]} *
               weight[static_cast<size_t>(((output * per_group + i) * s.kernel_h + kh) * s.kernel_w + kw)];
      }
  return sum;
}

template <typename A, typename B>
int64_t dot(const std::vector<A>& a, const std::vector<B>& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<int64_t>(a[i]) * static_cast<int64_t>(b[i]);
  return sum;
}

}  // namespace

TEST(ConvolutionSums, ForwardIsTheDefinition) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    const ConvolutionShape shape = random_shape(random);
    const auto input = random_elements(random, shape.input_elements(), 16);
    const auto weight = random_elements(random, shape.weight_elements(), 16);
    std::vector<int64_t> sums(shape.output_elements());
    add_forward<int16_t, int64_t>(shape, input, weight, sums);
    size_t at = 0;
    for (int64_t output = 0; output < shape.outputs; ++output)
      for (int64_t row = 0; row < shape.out_height(); ++row)
        for (int64_t column = 0; column < shape.out_width(); ++column, ++at)
          ASSERT_EQ(sums[at], output_at(shape, input, weight, output, row, column)) << "round " << round;
  }
}

// EB and PG are the adjoints of FP: all three give the same number when every free end is closed with an operand.
TEST(ConvolutionSums, TheThreePhasesAreAdjoint) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const ConvolutionShape shape = random_shape(random);
    const auto input = random_elements(random, shape.input_elements(), 12);
    const auto weight = random_elements(random, shape.weight_elements(), 12);
    const auto error = random_elements(random, shape.output_elements(), 12);
    std::vector<int64_t> sums(shape.output_elements());
    std::vector<int64_t> input_error(shape.input_elements());
    std::vector<int64_t> gradient(shape.weight_elements());
    add_forward<int16_t, int64_t>(shape, input, weight, sums);
    add_error_back<int16_t, int64_t>(shape, error, weight, input_error);
    add_gradient<int16_t, int64_t>(shape, input, error, gradient);
    ASSERT_EQ(dot(sums, error), dot(input_error, input)) << "round " << round;
    ASSERT_EQ(dot(sums, error), dot(gradient, weight)) << "round " << round;
  }
}

TEST(ConvolutionSums, DenseLayersTakeTheSameWay) {
  std::mt19937_64 random(3);
  const ConvolutionShape shape{.inputs = 37, .outputs = 11};
  const auto input = random_elements(random, 37, 16);
  const auto weight = random_elements(random, 37 * 11, 16);
  const auto error = random_elements(random, 11, 16);
  std::vector<int64_t> sums(11), input_error(37), gradient(37 * 11);
  add_forward<int16_t, int64_t>(shape, input, weight, sums);
  add_error_back<int16_t, int64_t>(shape, error, weight, input_error);
  add_gradient<int16_t, int64_t>(shape, input, error, gradient);
  for (int64_t output = 0; output < 11; ++output)
    EXPECT_EQ(sums[static_cast<size_t>(output)], output_at(shape, input, weight, output, 0, 0));
  EXPECT_EQ(dot(sums, error), dot(input_error, input));
  EXPECT_EQ(dot(sums, error), dot(gradient, weight));
}

TEST(ConvolutionSums, FloatsFollowTheIntegers) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 30; ++round) {
    const ConvolutionShape shape = random_shape(random);
    const auto input = random_elements(random, shape.input_elements(), 6);  // exact in fp32
    const auto weight = random_elements(random, shape.weight_elements(), 6);
    const std::vector<float> real_input(input.begin(), input.end()), real_weight(weight.begin(), weight.end());
    std::vector<int64_t> sums(shape.output_elements());
    std::vector<float> real_sums(shape.output_elements());
    add_forward<int16_t, int64_t>(shape, input, weight, sums);
    add_forward<float, float>(shape, real_input, real_weight, real_sums);
    for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(static_cast<float>(sums[i]), real_sums[i]);
  }
}

TEST(FixedConvolution, AccumulatorsWrapAndAreCounted) {
  const ConvolutionShape shape{.inputs = 3, .outputs = 1};
  const std::vector<int16_t> input = {-32768, -32768, -32768};
  std::vector<int32_t> accumulators(1);
  ArithmeticCounters counters;
  accumulate_forward(shape, input, input, accumulators, counters);
  EXPECT_EQ(accumulators[0], -(1 << 30));  // 3 * 2^30 modulo 2^32
  EXPECT_EQ(counters.accumulator_overflows, 1);
}

TEST(FixedConvolution, WrappingDoesNotDependOnTheOrder) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    ConvolutionShape shape = random_shape(random);
    shape.groups = 1;
    shape.inputs = 4;
    const auto input = random_elements(random, shape.input_elements(), 16);
    const auto weight = random_elements(random, shape.weight_elements(), 16);
    ArithmeticCounters counters;
    std::vector<int32_t> together(shape.output_elements(), 1 << 30);
    accumulate_forward(shape, input, weight, together, counters);
    // The second half of the channels first.
    std::vector<int32_t> apart(shape.output_elements(), 1 << 30);
    ConvolutionShape half = shape;
    half.inputs = 2;
    for (const int64_t begin : {2, 0}) {
      const auto plane = shape.height * shape.width;
      const std::vector<int16_t> some_input(input.begin() + begin * plane, input.begin() + (begin + 2) * plane);
      std::vector<int16_t> some_weight;
      const int64_t kernel = shape.kernel_h * shape.kernel_w;
      for (int64_t output = 0; output < shape.outputs; ++output)
        for (int64_t i = 0; i < 2 * kernel; ++i) some_weight.push_back(weight[static_cast<size_t>((output * 4 + begin) * kernel + i)]);
      accumulate_forward(half, some_input, some_weight, apart, counters);
    }
    ASSERT_EQ(together, apart);
  }
}

TEST(FixedConvolution, PartialSumsEnterRaisedAndLeaveRounded) {
  ArithmeticCounters counters;
  const std::vector<int16_t> partials = {3, -5, 32767};
  const std::vector<int32_t> accumulators = from_partials(partials, 10, counters);
  EXPECT_EQ(accumulators, (std::vector<int32_t>{3072, -5120, 32767 << 10}));
  EXPECT_EQ(to_elements(accumulators, 10, counters), partials);
  EXPECT_EQ(counters.saturated, 0);
  EXPECT_EQ(to_elements(accumulators, 0, counters), (std::vector<int16_t>{3072, -5120, 32767}));
  EXPECT_EQ(counters.saturated, 1);
  EXPECT_EQ(to_elements(accumulators, 10, counters, 8)[2], 127) << "a wire of eight bits";
  from_partials(partials, 20, counters);
  EXPECT_EQ(counters.accumulator_overflows, 1);
}

TEST(FixedConvolution, BiasGradientsAreSumsOfErrors) {
  const ConvolutionShape shape{.inputs = 1, .outputs = 2, .height = 2, .width = 2};
  const std::vector<int16_t> error = {1, 2, 3, 4, -5, -6, -7, 32767};
  std::vector<int32_t> accumulators = {100, 0};
  ArithmeticCounters counters;
  accumulate_bias_gradient(shape, error, accumulators, counters);
  EXPECT_EQ(accumulators, (std::vector<int32_t>{110, 32749}));
}

}  // namespace millrace
