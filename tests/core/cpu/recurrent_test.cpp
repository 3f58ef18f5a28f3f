// The parts of the CPU's recurrent layers: products whose sums know nothing of their neighbours, vectorised cells, and
// layers called chunk by chunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/cpu/cell_loops.h"
#include "core/cpu/cpu_device.h"
#include "core/cpu/instruction_set.h"
#include "core/cpu/packed_product.h"
#include "core/reference/reference_device.h"
#include "tests/core/chunk_runner.h"

namespace millrace::testing {
namespace {

using cpu::Into;
using cpu::PackedMatrix;
using cpu::RowSteps;

std::vector<float> random_floats(CaseDraw& draw, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(draw.exact_in_float());
  return values;
}

// ---- products ------------------------------------------------------------------------------------------------------

struct ProductCase {
  int64_t depth, rows, lanes;
  std::vector<PackedMatrix::Block> blocks;  // of the product's columns, side by side
};

int64_t columns_of(const ProductCase& c) {
  int64_t columns = 0;
  for (const auto& block : c.blocks) columns += block.columns;
  return columns;
}

TEST(PackedProduct, MatchesPlainSums) {
  CaseDraw draw(3, "packed product");
  for (int trial = 0; trial < 120; ++trial) {
    ProductCase c{
        .depth = draw.between(1, trial % 10 == 0 ? 1100 : 70), .rows = draw.between(1, 21), .lanes = draw.one_in(2) ? 16 : 8, .blocks = {}};
    for (int64_t b = 0, first = 0; b < draw.between(1, 4); ++b, first = c.blocks.back().first + c.blocks.back().columns)
      c.blocks.push_back({draw.between(1, 60), first});
    const int64_t columns = columns_of(c);
    const std::vector<float> w = random_floats(draw, columns * c.depth), a = random_floats(draw, c.rows * c.depth),
                             bias = random_floats(draw, columns);
    const bool transposed = draw.one_in(2), with_bias = draw.one_in(2);
    const Into into = draw.one_in(2) ? Into::kAdd : Into::kOverwrite;
    PackedMatrix packed(c.depth, c.blocks, c.lanes);
    // The columns of the source as rows of a matrix, or as its columns.
    packed.pack(w.data(), transposed ? 1 : c.depth, transposed ? columns : 1);
    std::vector<float> result = random_floats(draw, c.rows * columns);
    const std::vector<float> before = result;
    cpu::multiply_packed({a.data(), RowSteps::plain(c.depth)}, c.rows, packed, packed.all(), {result.data(), RowSteps::plain(columns)},
                         into, with_bias ? bias.data() : nullptr);
    for (int64_t row = 0; row < c.rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const auto at = static_cast<size_t>(row * columns + column);
        double expected = into == Into::kAdd ? static_cast<double>(before[at]) : 0;
        double size = std::abs(expected);
        if (with_bias) expected += static_cast<double>(bias[static_cast<size_t>(column)]);
        for (int64_t k = 0; k < c.depth; ++k) {
          const double product = static_cast<double>(a[static_cast<size_t>(row * c.depth + k)]) *
                                 static_cast<double>(w[static_cast<size_t>(transposed ? k * columns + column : column * c.depth + k)]);
          expected += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(static_cast<double>(result[at]), expected, 1e-6 * (1 + size)) << trial << " " << row << " " << column;
      }
  }
}

// A row's sums are the same bits alone, among others, in any order of rows, and for any share of the columns.
TEST(PackedProduct, SumsKnowNothingOfTheirNeighbours) {
  CaseDraw draw(4, "packed product");
  for (const int64_t lanes : {16, 8})
    for (const int64_t depth : {5, 700}) {
      constexpr int64_t kRows = 29, kColumns = 77;
      const std::vector<float> w = random_floats(draw, kColumns * depth), a = random_floats(draw, kRows * depth);
      PackedMatrix packed(depth, {{40, 0}, {37, 40}}, lanes);
      packed.pack(w.data(), depth, 1);
      const auto product = [&](int64_t first, int64_t rows, cpu::PanelRange panels, std::vector<float>& c) {
        cpu::multiply_packed({a.data() + first * depth, RowSteps::plain(depth)}, rows, packed, panels,
                             {c.data() + first * kColumns, RowSteps::plain(kColumns)}, Into::kOverwrite);
      };
      std::vector<float> whole(kRows * kColumns);
      product(0, kRows, packed.all(), whole);
      for (int64_t most = 1; most <= 12; ++most) {
        std::vector<float> parts(whole.size());
        for (int64_t first = 0; first < kRows; first += most)
          for (int64_t panel = 0; panel < packed.panels(); ++panel)
            product(first, std::min(most, kRows - first), {panel, panel + 1}, parts);
        EXPECT_EQ(parts, whole) << most;
      }
      // Added to zero it is the same sum, made in one go instead of stretches.
      std::vector<float> added(whole.size());
      cpu::multiply_packed({a.data(), RowSteps::plain(depth)}, kRows, packed, packed.all(), {added.data(), RowSteps::plain(kColumns)},
                           Into::kAdd);
      EXPECT_EQ(added, whole);
    }
}

// Every tile of rows and panels makes the chain of fused multiply-adds that is written down, so AVX2 and AVX-512 agree to the bit.
TEST(PackedProduct, EachSumIsOneChainOfFusedMultiplyAdds) {
  if (cpu::loop_instruction_set() < cpu::InstructionSet::kAvx2) GTEST_SKIP() << "without fused multiply-adds";
  CaseDraw draw(5, "packed product");
  for (const int64_t lanes : {8, 16})
    for (int64_t rows = 1; rows <= 33; ++rows)
      for (const int64_t panels : {1, 2, 3, 5, 6, 8, 15}) {
        const int64_t columns = panels * lanes - rows % lanes, depth = 1 + (rows + panels) % 7;
        std::vector<float> w(static_cast<size_t>(columns * depth)), a(static_cast<size_t>(rows * depth)),
            c(static_cast<size_t>(rows * columns));
        for (std::vector<float>* values : {&w, &a, &c})
          for (float& value : *values) value = static_cast<float>(draw.between(-1000000, 1000000)) / 3.0f;
        PackedMatrix packed(depth, {{columns, 0}}, lanes);
        packed.pack(w.data(), depth, 1);
        std::vector<float> expected = c;
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t column = 0; column < columns; ++column) {
            float sum = 0;
            for (int64_t k = 0; k < depth; ++k)
              sum = std::fma(a[static_cast<size_t>(row * depth + k)], w[static_cast<size_t>(column * depth + k)], sum);
            expected[static_cast<size_t>(row * columns + column)] += sum;
          }
        cpu::multiply_packed({a.data(), RowSteps::plain(depth)}, rows, packed, packed.all(), {c.data(), RowSteps::plain(columns)},
                             Into::kAdd);
        ASSERT_EQ(c, expected) << lanes << " lanes, " << rows << " rows, " << panels << " panels";
      }
}

TEST(PackedProduct, FindsRowsOfOneStepInEverySample) {
  // [sample][step][feature] read by step.
  constexpr int64_t kSamples = 3, kSteps = 4, kFeatures = 2;
  std::vector<float> x(kSamples * kSteps * kFeatures), y(kSamples * kSteps);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  PackedMatrix packed(kFeatures, {{1, 0}}, 8);
  const std::vector<float> ones{1, 1};
  packed.pack(ones.data(), kFeatures, 1);
  cpu::multiply_packed({x.data(), {kSamples, kFeatures, kSteps * kFeatures}}, kSteps * kSamples, packed, packed.all(),
                       {y.data(), RowSteps::plain(1)}, Into::kOverwrite);
  for (int64_t t = 0; t < kSteps; ++t)
    for (int64_t n = 0; n < kSamples; ++n)
      EXPECT_EQ(y[static_cast<size_t>(t * kSamples + n)], static_cast<float>(4 * (n * kSteps + t) + 1));
}

// ---- cells ---------------------------------------------------------------------------------------------------------

TEST(CellLoops, FunctionsAreAccurateAndSaturate) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.0f, -0.0f, 1e-30f, -1e-30f, 88.0f, -88.0f, 1e30f, -1e30f, kInfinity, -kInfinity};
  for (double value = -30; value < 30; value += 0.0013) x.push_back(static_cast<float>(value));
  for (double value = 1e-20; value < 1; value *= 1.003) x.push_back(static_cast<float>(value));
  std::vector<float> sigmoid(x.size()), tanh(x.size());
  cpu::sigmoid(x.data(), sigmoid.data(), static_cast<int64_t>(x.size()));
  cpu::tanh(x.data(), tanh.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact_sigmoid = 1 / (1 + std::exp(-static_cast<double>(x[i]))), exact_tanh = std::tanh(static_cast<double>(x[i]));
    EXPECT_NEAR(static_cast<double>(sigmoid[i]), exact_sigmoid, 3e-7 * exact_sigmoid + 1e-37) << x[i];
    EXPECT_NEAR(static_cast<double>(tanh[i]), exact_tanh, 3e-7 * std::abs(exact_tanh)) << x[i];
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float y = 0;
  cpu::sigmoid(&nan, &y, 1);
  EXPECT_TRUE(std::isnan(y));
  cpu::tanh(&nan, &y, 1);
  EXPECT_TRUE(std::isnan(y));
}

// ---- layers --------------------------------------------------------------------------------------------------------

const std::vector<Recurrent>& streaming_cells() {
  static const std::vector<Recurrent> cells = {
      {.cell = CellKind::kLstm, .hidden = 37},
      {.cell = CellKind::kLstm, .hidden = 37, .projection = 19, .stateful = true},
      {.cell = CellKind::kGru, .hidden = 37, .truncation = 4},
      {.cell = CellKind::kGru, .hidden = 37, .reset_after = true, .stateful = true},
      {.cell = CellKind::kVanillaRelu, .hidden = 37},
      {.cell = CellKind::kVanillaTanh, .hidden = 37, .truncation = 3},
      {.cell = CellKind::kLstm, .hidden = 37, .gate_activation = GateActivation::kHardSigmoid},
      {.cell = CellKind::kGru, .hidden = 37, .gate_activation = GateActivation::kHardSigmoid, .gate_slope = 1.0 / 6},
  };
  return cells;
}

void expect_same_bits(const CaseResult& a, const CaseResult& b) {
  EXPECT_EQ(a.output, b.output);
  EXPECT_EQ(a.input_errors, b.input_errors);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.state, b.state);
}

TEST(CpuRecurrent, GivesTheSameBitsForAnyChunks) {
  const auto device = make_cpu_device();
  for (const Recurrent& cell : streaming_cells())
    for (const bool short_samples : {false, true}) {
      OperationCase c = case_of(cell, {21, 11, 1}, 3);
      SCOPED_TRACE(std::string(name_of(c.spec.operation)) + (short_samples ? ", short samples" : ""));
      c.adds = {short_samples ? uint8_t{1} : uint8_t{0}};
      c.short_samples = short_samples;
      const CaseData data = data_of(c);
      const CaseResult whole = run_case(*device, c, data);
      for (const int32_t chunks : {1, 2, 3, 5, 11, 16}) expect_same_bits(run_in_chunks(*device, c, data, chunks), whole);
    }
}

TEST(CpuRecurrent, WhatStandsBetweenGivesTheSameBitsForAnyChunks) {
  const auto device = make_cpu_device();
  std::vector<OperationCase> cases{case_of(Embedding{.vocabulary = 9, .dimension = 5}, {1, 7, 1}, 2)};
  for (const Shape& shape : {Shape{5, 9, 1}, Shape{1, 9, 1}, Shape{700, 9, 1}, Shape{20, 1, 1}})
    for (const Operation& operation : {Operation(Dropout{.probability = 0.3}), Operation(Activation{ActivationKind::kTanh})}) {
      cases.push_back(case_of(operation, shape, 3));
      cases.push_back(cases.back());
      cases.back().adds = {1};
      cases.push_back(cases.back());
      cases.back().training = false;
    }
  for (const OperationCase& c : cases) {
    SCOPED_TRACE(std::string(name_of(c.spec.operation)) + " " + text_of(c.spec.output));
    const CaseData data = data_of(c);
    const CaseResult whole = run_case(*device, c, data);
    for (const int32_t chunks : {2, 3, 9}) expect_same_bits(run_in_chunks(*device, c, data, chunks), whole);
  }
}

TEST(CpuRecurrent, ThatGoesBothWaysIsNotDividedInTime) {
  const auto device = make_cpu_device();
  EXPECT_FALSE(device->make_kernel(case_of(Recurrent{.hidden = 4, .bidirectional = true}, {3, 5, 1}, 1).spec)->streams());
}

// Large enough for threads to meet at every step.
TEST(CpuRecurrent, GivesTheSameBitsOnTwoThreads) {
  const auto one = make_cpu_device({.threads = 1});
  const auto two = make_cpu_device({.threads = 2});
  for (Recurrent cell : streaming_cells()) {
    cell.hidden = cell.cell == CellKind::kLstm ? 200 : cell.cell == CellKind::kGru ? 230 : 380;
    if (cell.projection > 0) cell.projection = 170;
    const OperationCase c = case_of(cell, {21, 4, 1}, 2);
    SCOPED_TRACE(name_of(c.spec.operation));
    const CaseData data = data_of(c);
    const CaseResult a = run_case(*one, c, data), b = run_case(*two, c, data);
    EXPECT_EQ(a.output, b.output);
    EXPECT_EQ(a.input_errors, b.input_errors);
    EXPECT_EQ(a.state, b.state);
    // Below AVX2 oneDNN makes the sums and may divide them.
    EXPECT_TRUE(cpu::loop_instruction_set() < cpu::InstructionSet::kAvx2 || a.gradients == b.gradients);
    for (size_t g = 0; g < a.gradients.size(); ++g) EXPECT_LE(normwise_difference(a.gradients[g], b.gradients[g]), 1e-6);
  }
}

// Many steps of many units, where rounding could add up.
TEST(CpuRecurrent, StaysCloseToFp64OverManySteps) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  const auto device = make_cpu_device();
  for (const Recurrent& cell :
       {Recurrent{.hidden = 64}, Recurrent{.hidden = 64, .projection = 40, .bidirectional = true},
        Recurrent{.cell = CellKind::kGru, .hidden = 64}, Recurrent{.cell = CellKind::kGru, .hidden = 64, .reset_after = true},
        Recurrent{.cell = CellKind::kVanillaTanh, .hidden = 64}}) {
    const OperationCase c = case_of(cell, {48, 60, 1}, 2);
    SCOPED_TRACE(name_of(c.spec.operation));
    const CaseData data = data_of(c);
    const CaseResult mine = run_case(*device, c, data), exact = run_case(*oracle, c, data);
    for (size_t i = 0; i < exact.output.size(); ++i) ASSERT_NEAR(mine.output[i], exact.output[i], 1e-5);
    EXPECT_LE(normwise_difference(mine.input_errors[0], exact.input_errors[0]), 1e-4);
    for (size_t g = 0; g < exact.gradients.size(); ++g) EXPECT_LE(normwise_difference(mine.gradients[g], exact.gradients[g]), 1e-4) << g;
  }
}

// Not even a NaN.
TEST(CpuRecurrent, WhatLiesBehindTheEndDoesNotMatter) {
  const auto device = make_cpu_device();
  for (Recurrent cell : streaming_cells()) {
    cell.stateful = false;
    cell.bidirectional = true;
    const OperationCase c = case_of(cell, {5, 6, 1}, 3);
    SCOPED_TRACE(name_of(c.spec.operation));
    CaseData data = data_of(c);
    data.lengths = {6, 2, 0};
    const CaseResult expected = run_case(*device, c, data);
    for (int64_t n = 0; n < 3; ++n)
      for (int64_t channel = 0; channel < 5; ++channel)
        for (int64_t t = data.lengths[static_cast<size_t>(n)]; t < 6; ++t)
          data.inputs[0][static_cast<size_t>((n * 5 + channel) * 6 + t)] = std::numeric_limits<double>::quiet_NaN();
    const CaseResult result = run_case(*device, c, data);
    EXPECT_EQ(result.output, expected.output);
    EXPECT_EQ(result.input_errors, expected.input_errors);
    EXPECT_EQ(result.gradients, expected.gradients);
  }
}

TEST(CpuRecurrent, LargeSumsSaturateWithoutNan) {
  const auto device = make_cpu_device();
  for (const Recurrent& cell : streaming_cells()) {
    if (cell.cell == CellKind::kVanillaRelu) continue;  // grows as it should
    const OperationCase c = case_of(cell, {5, 6, 1}, 2);
    CaseData data = data_of(c);
    for (double& x : data.inputs[0]) x = static_cast<double>(static_cast<float>(x * 1e6));
    const CaseResult result = run_case(*device, c, data);
    for (const double value : result.output) EXPECT_TRUE(std::isfinite(value));
    for (const auto& gradient : result.gradients)
      for (const double value : gradient) EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace millrace::testing
