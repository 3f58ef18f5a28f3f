// Blocks of devices with about equal work, against every way to cut.
#include "node/simulate/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace {
namespace {

using namespace simulation;
using namespace testing_support;

int64_t heaviest(const std::vector<int64_t>& weights, const std::vector<int64_t>& begins) {
  int64_t most = 0;
  for (size_t b = 0; b + 1 < begins.size(); ++b)
    most = std::max(most, std::accumulate(weights.begin() + begins[b], weights.begin() + begins[b + 1], int64_t{0}));
  return most;
}

int64_t lightest_cut(const std::vector<int64_t>& weights, size_t from, int64_t blocks) {
  if (blocks == 1) return std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(from), weights.end(), int64_t{0});
  int64_t best = INT64_MAX, own = 0;
  for (size_t end = from + 1; end + static_cast<size_t>(blocks) - 1 <= weights.size(); ++end) {
    own += weights[end - 1];
    best = std::min(best, std::max(own, lightest_cut(weights, end, blocks - 1)));
  }
  return best;
}

TEST(Blocks, AreTheLightestOfAllCuts) {
  std::mt19937_64 generator(11);
  const auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); };
  for (int i = 0; i < 300; ++i) {
    std::vector<int64_t> weights(static_cast<size_t>(between(1, 9)));
    for (int64_t& weight : weights) weight = between(1, 50);
    const auto devices = static_cast<int64_t>(weights.size());
    for (int64_t blocks = 1; blocks <= devices; ++blocks) {
      const std::vector<int64_t> begins = even_blocks(weights, blocks);
      ASSERT_EQ(static_cast<int64_t>(begins.size()), blocks + 1);
      EXPECT_EQ(begins.front(), 0);
      EXPECT_EQ(begins.back(), devices);
      for (size_t b = 0; b + 1 < begins.size(); ++b) EXPECT_LT(begins[b], begins[b + 1]);
      EXPECT_EQ(heaviest(weights, begins), lightest_cut(weights, 0, blocks));
    }
  }
}

TEST(Blocks, OfTwoAreTheCheapestOfAllCuts) {
  std::mt19937_64 generator(12);
  const auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); };
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> weights(static_cast<size_t>(between(2, 12))), crossing(weights.size());
    for (int64_t& weight : weights) weight = between(1, 50);
    for (int64_t& cost : crossing) cost = between(0, 60);
    const auto devices = static_cast<int64_t>(weights.size());
    const auto cost = [&](int64_t at) { return heaviest(weights, {0, at, devices}) + crossing[static_cast<size_t>(at)]; };
    const std::vector<int64_t> begins = with_cheaper_cuts(even_blocks(weights, 2), weights, crossing);
    ASSERT_EQ(begins.size(), 3U);
    for (int64_t at = 1; at < devices; ++at) EXPECT_LE(cost(begins[1]), cost(at));
    // More blocks: cuts stay in order and none is empty.
    const int64_t blocks = between(1, devices);
    const std::vector<int64_t> many = with_cheaper_cuts(even_blocks(weights, blocks), weights, crossing);
    for (size_t b = 0; b + 1 < many.size(); ++b) EXPECT_LT(many[b], many[b + 1]);
  }
}

TEST(Blocks, FollowTheRowsAndRefuseMoreRanksThanDevices) {
  // The first layers walk 32 rows, those behind the pool 5 or less: the cut lies before the middle, or at the pool.
  ModelBuilder net("rows", {4, 32, 4});
  for (int64_t l = 1; l <= 4; ++l) net.layer("conv" + std::to_string(l), Conv2d{.out_channels = 4, .kernel_h = 1, .kernel_w = 1});
  net.max_pool("pool", {.kernel = 8, .stride = 8, .pad = 3});
  for (int64_t l = 5; l <= 8; ++l) net.layer("conv" + std::to_string(l), Conv2d{.out_channels = 4, .kernel_h = 1, .kernel_w = 1});
  const Graph graph(net.finish());
  Plan plan = one_layer_per_device(graph, {1, 1, 0, 0.1});
  set_times(plan, graph, kMicrosecond);
  const std::vector<int64_t> begins = blocks_of(plan, graph, false, 2);
  EXPECT_GE(begins[1], 2);
  EXPECT_LE(begins[1], 4);
  EXPECT_THROW(blocks_of(plan, graph, false, plan.devices() + 1), Error);
}

}  // namespace
}  // namespace millrace
