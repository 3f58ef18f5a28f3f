// Products of a few rows with a weight that is read once, against sums written out.
#include "core/cpu/streamed_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "core/cpu/cpu_device.h"
#include "core/cpu/instruction_set.h"
#include "core/reference/reference_device.h"
#include "tests/core/chunk_runner.h"

namespace millrace::testing {
namespace {

std::vector<float> thirds(CaseDraw& draw, int64_t count) {
  std::vector<float> values(to_size(count));
  for (float& value : values) value = static_cast<float>(draw.between(-1000, 1000)) / 300.0f;
  return values;
}

TEST(StreamedProduct, MatchesPlainSumsOnAnyThreads) {
  CaseDraw draw(8, "streamed product");
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t rows = draw.between(1, 17), outputs = draw.between(1, 50), inputs = draw.between(1, 200);
    const bool adds = draw.one_in(2);
    const std::vector<float> w = thirds(draw, outputs * inputs), x = thirds(draw, rows * inputs), dy = thirds(draw, rows * outputs);
    const std::vector<float> y_before = thirds(draw, rows * outputs), dx_before = thirds(draw, rows * inputs);
    const cpu::WeightStream weight{w.data(), outputs, inputs};
    std::vector<float> y_first, dx_first;
    for (const int threads : {1, 2, 3}) {
      std::vector<float> y = y_before, dx = dx_before;
      cpu::multiply_streamed(threads, x.data(), rows, weight, y.data(), adds);
      cpu::multiply_streamed_back(threads, dy.data(), rows, weight, dx.data(), adds);
      if (threads == 1) y_first = y, dx_first = dx;
      ASSERT_EQ(y, y_first);
      ASSERT_EQ(dx, dx_first);
    }
    const bool fused = cpu::loop_instruction_set() >= cpu::InstructionSet::kAvx2;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t output = 0; output < outputs; ++output) {
        double sum = adds ? y_before[to_size(row * outputs + output)] : 0;
        for (int64_t k = 0; k < inputs; ++k) sum += double{x[to_size(row * inputs + k)]} * w[to_size(output * inputs + k)];
        ASSERT_NEAR(y_first[to_size(row * outputs + output)], sum, 1e-4 * static_cast<double>(inputs)) << trial;
      }
      for (int64_t input = 0; input < inputs; ++input) {
        const auto at = to_size(row * inputs + input);
        float chain = adds ? dx_before[at] : 0;
        double sum = chain;
        for (int64_t k = 0; k < outputs; ++k) {
          const float factor = dy[to_size(row * outputs + k)], of = w[to_size(k * inputs + input)];
          chain = std::fma(factor, of, chain);
          sum += double{factor} * of;
        }
        ASSERT_NEAR(dx_first[at], sum, 1e-4 * static_cast<double>(outputs)) << trial;
        ASSERT_TRUE(!fused || dx_first[at] == chain) << trial;
      }
    }
  }
}

// A dense layer whose weight takes more than a cache, of a few samples; one of one sample has nothing to gain.
TEST(StreamedProduct, ServesLargeDenseLayersOfFewSamples) {
  const auto device = make_cpu_device();
  const auto exact = make_reference_device(ElementType::kFloat64);
  const auto streams = [&](int64_t samples) {
    const OperationCase c = case_of(Dense{.out_features = 1030}, {2050, 1, 1}, samples);
    return device->make_kernel(c.spec)->implementation().starts_with("streamed");
  };
  EXPECT_EQ(streams(3), cpu::loop_instruction_set() >= cpu::InstructionSet::kAvx2);
  EXPECT_FALSE(streams(1));
  EXPECT_FALSE(streams(17));
  const OperationCase c = case_of(Dense{.out_features = 1030}, {2050, 1, 1}, 3);
  const CaseData data = data_of(c);
  const CaseResult mine = run_case(*device, c, data), expected = run_case(*exact, c, data);
  EXPECT_LE(normwise_difference(mine.output, expected.output), 1e-5);
  EXPECT_LE(normwise_difference(mine.input_errors[0], expected.input_errors[0]), 1e-5);
}

}  // namespace
}  // namespace millrace::testing
