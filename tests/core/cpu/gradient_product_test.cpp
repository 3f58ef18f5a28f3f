// Products over all rows, against sums written out: any shape, threads and neighbours.
#include "core/cpu/gradient_product.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/base/index.h"
#include "core/cpu/instruction_set.h"
#include "tests/core/operation_cases.h"

namespace millrace::testing {
namespace {

using cpu::GradientProduct;

std::vector<float> drawn(CaseDraw& draw, int64_t count) {
  std::vector<float> values(to_size(count));
  for (float& value : values) value = static_cast<float>(draw.between(-1000000, 1000000)) / 3e5f;
  return values;
}

// A left side and two right ones; where results go, rows are wider than what is written of them.
struct Case {
  int64_t rows, left, left_of_second, columns[2], margin;
  bool adds;
};

struct Result {
  std::vector<float> first, second;
  bool operator==(const Result&) const = default;
};

struct Sides {
  std::vector<float> left, right[2];
  Result before;
};

Sides sides_of(const Case& c, CaseDraw& draw) {
  Sides sides{.left = drawn(draw, c.rows * (c.left + c.margin)), .right = {}, .before = {}};
  for (size_t i = 0; i < 2; ++i) sides.right[i] = drawn(draw, c.rows * (c.columns[i] + c.margin));
  sides.before = {drawn(draw, c.left * (c.columns[0] + c.margin)), drawn(draw, c.left * (c.columns[1] + c.margin))};
  return sides;
}

Result multiply(const Case& c, const Sides& sides, int64_t lanes, int threads) {
  Result result = sides.before;
  const GradientProduct product(lanes, c.left, c.columns[0] + c.columns[1]);
  std::vector<float> scratch(product.scratch_bytes() / sizeof(float));
  const auto right = [&](size_t i, int64_t left, std::vector<float>& to) {
    const int64_t stride = c.columns[i] + c.margin;
    return GradientProduct::Right{
        .from = {sides.right[i].data(), stride}, .columns = c.columns[i], .left = left, .to = to.data(), .stride = stride};
  };
  product.run(threads, {sides.left.data(), c.left + c.margin}, c.rows,
              std::array{right(0, c.left, result.first), right(1, c.left_of_second, result.second)}, c.adds, scratch.data());
  return result;
}

// One chain of fused multiply-adds, which goes on from what was there; what lies between the rows stays.
Result expected_of(const Case& c, const Sides& sides) {
  Result result = sides.before;
  for (size_t i = 0; i < 2; ++i) {
    std::vector<float>& to = i == 0 ? result.first : result.second;
    const int64_t stride = c.columns[i] + c.margin;
    for (int64_t row = 0; row < (i == 0 ? c.left : c.left_of_second); ++row)
      for (int64_t column = 0; column < c.columns[i]; ++column) {
        float sum = c.adds ? to[to_size(row * stride + column)] : 0.0f;
        for (int64_t k = 0; k < c.rows; ++k)
          sum = std::fma(sides.left[to_size(k * (c.left + c.margin) + row)], sides.right[i][to_size(k * stride + column)], sum);
        to[to_size(row * stride + column)] = sum;
      }
  }
  return result;
}

std::vector<Case> cases(CaseDraw& draw) {
  // Exact blocks, one number, less than a block, and more rows and columns than are taken at once.
  std::vector<Case> all{{32, 32, 32, {48, 16}, 0, false}, {1, 1, 1, {1, 1}, 0, true},         {5, 3, 2, {7, 1}, 2, false},
                        {600, 20, 20, {9, 33}, 1, true},  {20, 40, 17, {500, 411}, 3, false}, {257, 96, 0, {64, 8}, 0, true}};
  for (int i = 0; i < 60; ++i) {
    Case c{.rows = draw.between(1, 40),
           .left = draw.between(1, 70),
           .left_of_second = 0,
           .columns = {draw.between(1, 90), draw.between(1, 60)},
           .margin = draw.between(0, 3),
           .adds = draw.one_in(2)};
    c.left_of_second = draw.between(1, c.left);
    all.push_back(c);
  }
  return all;
}

TEST(GradientProduct, MakesEachSumInOneChainOnAnyThreads) {
  CaseDraw draw(7, "gradient product");
  const bool fused = cpu::loop_instruction_set() >= cpu::InstructionSet::kAvx2;
  for (const Case& c : cases(draw)) {
    const Sides sides = sides_of(c, draw);
    const Result expected = expected_of(c, sides);
    for (const int64_t lanes : {8, 16})
      for (const int threads : {1, 2, 3}) {
        const Result result = multiply(c, sides, lanes, threads);
        const std::string what = std::to_string(c.left) + " x " + std::to_string(c.columns[0]) + " over " + std::to_string(c.rows) + ", " +
                                 std::to_string(lanes) + " lanes, " + std::to_string(threads) + " threads";
        ASSERT_TRUE(!fused || result == expected) << what;
        const auto near = [&](const std::vector<float>& mine, const std::vector<float>& theirs) {
          for (size_t i = 0; i < mine.size(); ++i)
            ASSERT_NEAR(mine[i], theirs[i], 1e-5 * static_cast<double>(c.rows) * 12) << what << ", " << i;
        };
        near(result.first, expected.first);
        near(result.second, expected.second);
      }
  }
}

}  // namespace
}  // namespace millrace::testing
