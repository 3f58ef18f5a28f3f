// Random work for engines, and two engines held against each other. For tests.
//
//   compare_engines(*make_host_convolution_engine(), *engine, /*cases=*/100, /*seed=*/1);
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "fpga/conv_ce/phases/convolution_engine.h"

namespace millrace::xrt {

inline std::vector<int16_t> random_elements(size_t count, std::mt19937_64& random) {
  std::vector<int16_t> elements(count);
  for (int16_t& element : elements) element = static_cast<int16_t>(static_cast<int64_t>(random() % 6001) - 3000);
  return elements;
}

inline PhaseShape random_shape(std::mt19937_64& random) {
  const auto between = [&random](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  PhaseShape shape;
  ConvolutionShape& convolution = shape.convolution;
  convolution.groups = between(1, 2);
  convolution.inputs = convolution.groups * between(1, 3);
  convolution.outputs = convolution.groups * between(1, 3);
  convolution.kernel_h = between(1, 4);
  convolution.kernel_w = between(1, 4);
  convolution.pad_h = between(0, 2);
  convolution.pad_w = between(0, 2);
  convolution.stride_h = between(1, 3);
  convolution.stride_w = between(1, 3);
  convolution.height = between(convolution.kernel_h, 9);
  convolution.width = between(convolution.kernel_w, 9);
  shape.samples = between(1, 5);
  shape.shift = static_cast<int>(between(8, 14));
  return shape;
}

inline void compare_engines(ConvolutionEngine& expected, ConvolutionEngine& found, int cases, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < cases; ++round) {
    SCOPED_TRACE(round);
    const PhaseShape shape = random_shape(random);
    const ConvolutionShape& convolution = shape.convolution;
    const auto input = random_elements(shape.input_elements(), random);
    const auto error = random_elements(shape.output_elements(), random);
    const auto before = random_elements(random() % 2 == 0 ? shape.output_elements() : 0, random);
    const auto weight = random_elements(convolution.weight_elements(), random);
    const auto bias = random_elements(random() % 2 == 0 ? static_cast<size_t>(convolution.outputs) : 0, random);
    const void* owner = &expected + round % 3;

    PhaseCounters counters[2];
    ConvolutionEngine* engines[] = {&expected, &found};
    std::vector<std::vector<int16_t>> forward, back;
    std::vector<std::vector<int32_t>> weight_sums, bias_sums;
    std::vector<std::vector<float>> updated;
    ArithmeticCounters gradients[2], updates[2];
    const auto start = random_elements(weight.size() + bias.size(), random);
    const bool set_first = random() % 2 == 0, look_before_update = random() % 2 == 0;
    UpdateRun update;
    update.format = {13};
    update.stream = random();
    update.arguments.learning_rate = 0.01;
    update.arguments.step = round + 1;
    update.arguments.optimizer.kind = static_cast<OptimizerKind>(random() % 4);
    update.arguments.optimizer.weight_decay = 1e-3;
    if (random() % 2 == 0) update.arguments.value_limit = 0.5;
    const auto slots = static_cast<size_t>(update.arguments.optimizer.slots());
    const uint64_t values_seed = random();
    for (int i = 0; i < 2; ++i) {
      ConvolutionEngine& engine = *engines[i];
      forward.push_back(engine.forward(shape, {.input = input, .weight = weight, .before = before, .bias = bias}, owner, counters[i]));
      back.push_back(engine.error_back(shape, error, weight, owner, counters[i].second));
      const auto sum = engine.make_gradient_sum(convolution, !bias.empty(), gradients[i]);
      if (set_first) {
        const std::vector<int32_t> all(start.begin(), start.end());
        sum->set(std::span(all).first(weight.size()), std::span(all).subspan(weight.size()));
      }
      sum->add(shape, input, error);
      if (look_before_update) weight_sums.push_back(sum->read(0));
      sum->add(shape, input, error);
      if (!bias.empty()) bias_sums.push_back(sum->read(1));
      std::mt19937_64 draw(values_seed);
      std::uniform_real_distribution<float> real(-0.3f, 0.3f);
      std::vector<float> values((1 + slots) * weight.size());
      for (float& value : values) value = real(draw);
      for (size_t j = 2 * weight.size(); j < values.size(); ++j) values[j] = std::abs(values[j]);  // squares
      const auto part = [&](size_t index) {
        return index <= slots ? std::span(values).subspan(index * weight.size(), weight.size()) : std::span<float>{};
      };
      engine.update(update, owner, part(0), {.sum = sum.get(), .part = 0, .fraction_bits = 20}, part(1), part(2), updates[i]);
      weight_sums.push_back(sum->read(0));
      // Once more, by values, from the weights that the engine has by now.
      const std::vector<float> gradient(weight.size(), 0.125f);
      engine.update(update, owner, part(0), {.values = gradient}, part(1), part(2), updates[i]);
      updated.push_back(values);
    }
    ASSERT_EQ(forward[1], forward[0]);
    ASSERT_EQ(back[1], back[0]);
    const size_t half = weight_sums.size() / 2;
    for (size_t i = 0; i < half; ++i) ASSERT_EQ(weight_sums[half + i], weight_sums[i]);
    if (!bias.empty()) {
      ASSERT_EQ(bias_sums[1], bias_sums[0]);
    }
    ASSERT_EQ(updated[1], updated[0]);
    EXPECT_EQ(counters[1].first.rounded, counters[0].first.rounded);
    EXPECT_EQ(counters[1].first.saturated, counters[0].first.saturated);
    EXPECT_EQ(counters[1].second.rounded, counters[0].second.rounded);
    EXPECT_EQ(gradients[1].accumulator_overflows, gradients[0].accumulator_overflows);
    EXPECT_EQ(updates[1].rounded, updates[0].rounded);
    EXPECT_EQ(updates[1].saturated, updates[0].saturated);
  }
}

}  // namespace millrace::xrt
