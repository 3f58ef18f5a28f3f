#include "fpga/conv_ce/arithmetic/after_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"

namespace millrace {

namespace {

PoolingWindow random_window(std::mt19937_64& random) {
  PoolingWindow window;
  const int64_t longest = random() % 4 == 0 ? 21 : 5;
  window.kernel_h = drawn(random, 1, longest);
  window.kernel_w = drawn(random, 1, longest);
  window.stride_h = drawn(random, 1, 3);  // windows overlap, touch, or leave gaps
  window.stride_w = drawn(random, 1, 3);
  window.pad_h = drawn(random, 0, window.kernel_h / 2);
  window.pad_w = drawn(random, 0, window.kernel_w / 2);
  window.height = drawn(random, window.kernel_h, window.kernel_h + 8);
  window.width = drawn(random, window.kernel_w, window.kernel_w + 8);
  const bool partial = random() % 2 == 0;  // a last window that begins on the map or its padding may hang over the edge
  const auto windows = [&](int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
    const int64_t room = size + 2 * pad - kernel;
    const int64_t whole = room / stride + 1;
    return partial && room % stride != 0 && whole * stride < size + pad ? whole + 1 : whole;
  };
  window.out_height = windows(window.height, window.kernel_h, window.stride_h, window.pad_h);
  window.out_width = windows(window.width, window.kernel_w, window.stride_w, window.pad_w);
  window.average = random() % 2 == 0;
  window.count_padding = random() % 2 == 0;
  return window;
}

}  // namespace

TEST(AfterSum, ScaleAndOffsetAreRoundedOnce) {
  ArithmeticCounters counters;
  const std::vector<int16_t> sums = {100, -100, 32767, 5, 0, -7};
  const std::vector<int16_t> scale = {3, -2};
  const std::vector<int16_t> offset = {1, 4};
  const auto y = scaled_and_offset(sums, 2, {.scale = scale, .offset = offset, .offset_shift = 3, .shift = 4}, counters);
  EXPECT_EQ(y, (std::vector<int16_t>{19, -18, 6144, 1, 2, 3}));  // 308/16, -292/16, ...; (-10+32)/16 = 1.375
  const auto rectified =
      scaled_and_offset(sums, 2, {.scale = scale, .offset = offset, .offset_shift = 3, .shift = 4, .relu = true}, counters);
  EXPECT_EQ(rectified, (std::vector<int16_t>{19, 0, 6144, 1, 2, 3}));
}

TEST(AfterSum, ErrorsPassTheReluWhereTheOutputIsAboveZero) {
  const std::vector<int16_t> output = {0, 1, 32767, 0};
  const std::vector<int16_t> error = {5, -6, 7, -8};
  EXPECT_EQ(error_through_relu(output, error), (std::vector<int16_t>{0, -6, 7, 0}));
}

TEST(AfterSum, ErrorsPassAScaleRoundedOnce) {
  ArithmeticCounters counters;
  const std::vector<int16_t> error = {100, -100, 6, 32767};
  EXPECT_EQ(error_through_scale(error, 2, std::vector<int16_t>{3, -20000}, 3, counters), (std::vector<int16_t>{38, -38, -15000, -32768}));
  EXPECT_EQ(counters.saturated, 1);
}

// What a batch norm with constant statistics says, to the steps of both numbers.
TEST(AfterSum, ABatchNormFolds) {
  const std::vector<double> weight = {1.5, -0.25, 3}, bias = {0.5, 1, -2}, mean = {0.1, -3, 0}, variance = {0.04, 9, 1};
  const std::vector<double> sum_bias = {0, 0.5, -0.75};
  ArithmeticCounters counters;
  const FoldedNormalisation folded =
      folded_normalisation({.weight = weight, .bias = bias, .mean = mean, .variance = variance, .epsilon = 1e-5}, sum_bias, {11}, counters);
  EXPECT_EQ(folded.shift, 12) << "the largest scale is about 7.5";
  EXPECT_EQ(counters.saturated, 0);
  for (size_t c = 0; c < weight.size(); ++c)
    for (const double x : {-2.0, 0.0, 1.25}) {
      const double expected = weight[c] * (x + sum_bias[c] - mean[c]) / std::sqrt(variance[c] + 1e-5) + bias[c];
      const std::vector<int16_t> sum = {static_cast<int16_t>(x * 2048)};
      const auto y = scaled_and_offset(sum, 1,
                                       {.scale = std::span(folded.scale).subspan(c, 1),
                                        .offset = std::span(folded.offset).subspan(c, 1),
                                        .offset_shift = folded.shift,
                                        .shift = folded.shift},
                                       counters);
      EXPECT_NEAR(y[0] / 2048.0, std::clamp(expected, -16.0, 15.9995), 1e-3) << c << " " << x;
    }
  folded_normalisation({.weight = std::vector<double>{1e6},
                        .bias = std::vector<double>{0},
                        .mean = std::vector<double>{0},
                        .variance = std::vector<double>{1}},
                       std::vector<double>{0}, {11}, counters);
  EXPECT_GT(counters.saturated, 0);
}

TEST(AfterSum, PoolingIsTheDefinition) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    const PoolingWindow w = random_window(random);
    const auto input = random_elements(random, static_cast<size_t>(2 * w.height * w.width), round % 2 == 0 ? 16 : 3);  // with ties
    ArithmeticCounters counters;
    const PooledPlane pooled = pooled_forward(w, 2, input, counters);
    size_t at = 0;
    for (int64_t channel = 0; channel < 2; ++channel)
      for (int64_t row = 0; row < w.out_height; ++row)
        for (int64_t column = 0; column < w.out_width; ++column, ++at) {
          double sum = 0;
          int count = 0, counted = 0;  // on the map; there or on the padding
          int largest = -40'000;
          int64_t winner = 0;
          for (int64_t i = 0; i < w.kernel_h * w.kernel_w; ++i) {
            const int64_t y = row * w.stride_h - w.pad_h + i / w.kernel_w;
            const int64_t x = column * w.stride_w - w.pad_w + i % w.kernel_w;
            if (y < w.height + w.pad_h && x < w.width + w.pad_w) ++counted;
            if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
            const int value = input[static_cast<size_t>((channel * w.height + y) * w.width + x)];
            sum += value;
            ++count;
            if (value > largest) {
              largest = value;
              winner = i;
            }
          }
          if (w.average) {
            const double divisor = static_cast<double>(w.count_padding ? counted : count);
            ASSERT_NEAR(pooled.values[at], sum / divisor, 0.5 + std::fabs(sum) / 262144 + 1e-9) << "round " << round;
          } else {
            ASSERT_EQ(pooled.values[at], largest);
            ASSERT_EQ(pooled.winners[at], winner);
          }
        }
  }
}

TEST(AfterSum, UnpooledErrorsAreTheAdjointOfPooling) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 200; ++round) {
    PoolingWindow w = random_window(random);
    w.average = false;
    const auto input = random_elements(random, static_cast<size_t>(3 * w.height * w.width), 12);
    const auto error = random_elements(random, static_cast<size_t>(3 * w.out_height * w.out_width), 10);
    ArithmeticCounters counters;
    const PooledPlane pooled = pooled_forward(w, 3, input, counters);
    const auto back = pooled_back(w, 3, error, pooled, counters);
    int64_t forward_side = 0, backward_side = 0;
    for (size_t i = 0; i < error.size(); ++i) forward_side += int64_t{pooled.values[i]} * error[i];
    for (size_t i = 0; i < back.size(); ++i) backward_side += int64_t{input[i]} * back[i];
    ASSERT_EQ(forward_side, backward_side) << "round " << round;
    ASSERT_EQ(counters.saturated, 0);
  }
}

TEST(AfterSum, AveragedErrorsAreSpreadAndSaturate) {
  PoolingWindow w{.height = 4,
                  .width = 4,
                  .out_height = 3,
                  .out_width = 3,
                  .kernel_h = 2,
                  .kernel_w = 2,
                  .stride_h = 1,
                  .stride_w = 1,
                  .average = true};
  ArithmeticCounters counters;
  const std::vector<int16_t> error(9, 32767);
  const auto back = pooled_back(w, 1, error, {}, counters);
  EXPECT_EQ(back[0], 8192);   // 32767 / 4 = 8191.75
  EXPECT_EQ(back[5], 32767);  // four windows meet
  EXPECT_EQ(counters.saturated, 0);
}

TEST(AfterSum, ReciprocalsAreTheNearest) {
  for (int64_t count = 1; count <= 300; ++count)
    EXPECT_EQ(reciprocal_of(count), std::lround(131072.0 / static_cast<double>(count))) << count;
}

}  // namespace millrace
