// Cuts become shards, shards become a plan: where channels divide, and which cuts and requests are refused.
#include "core/plan/assemble.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plan/validate.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/plan/small_plans.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing_support::group_of;
using testing_support::plan_of;
using testing_support::small_model;

// "0 b [0, 1)x[0, 6) [1, 2)x[0, 2)": device, layer, blocks.
std::vector<std::string> lines(const std::vector<Shard>& shards) {
  std::vector<std::string> found;
  for (const Shard& shard : shards) {
    std::string line = fmt::format("{} {}", shard.device, shard.layer);
    for (const Block& block : shard.blocks) line += fmt::format(" {}x{}", text_of(block.inputs), text_of(block.outputs));
    found.push_back(line);
  }
  return found;
}

Graph grouped_graph() {
  ModelBuilder net("grouped", {4, 4, 4});
  net.conv("a", 4, {.kernel = 3, .pad = 1});
  net.grouped_conv("g", 6, {.kernel = 3, .pad = 1}, 2);
  net.flatten("flat");
  net.dense("fc", 3);
  return Graph(net.finish());
}

TEST(ShardsFromCuts, BoundaryChannelsGiveUpToThreeBlocks) {
  const Graph graph(small_model());
  // Group 1 is b: 4 inputs, 6 outputs.
  EXPECT_THAT(lines(shards_from_cuts(graph, std::vector<Cut>{{1, 0, 4}, {1, 3, 5}}, {})),
              ElementsAre("0 a [0, 3)x[0, 4)", "0 b [0, 1)x[0, 4)", "1 b [0, 1)x[4, 6) [1, 3)x[0, 6) [3, 4)x[0, 5)", "2 b [3, 4)x[5, 6)",
                          "2 fc [0, 24)x[0, 3)"));
}

TEST(ShardsFromCuts, TwoCutsInsideOneChannelLeaveOneBlock) {
  const Graph graph(small_model());
  EXPECT_THAT(lines(shards_from_cuts(graph, std::vector<Cut>{{1, 2, 1}, {1, 2, 4}}, {})),
              ElementsAre("0 a [0, 3)x[0, 4)", "0 b [0, 2)x[0, 6) [2, 3)x[0, 1)", "1 b [2, 3)x[1, 4)", "2 b [2, 3)x[4, 6) [3, 4)x[0, 6)",
                          "2 fc [0, 24)x[0, 3)"));
}

TEST(ShardsFromCuts, ByOutputsEveryMemberReadsTheWholeInput) {
  const Graph graph(small_model());
  const std::vector<Split> splits(3, Split::kOutputChannels);
  EXPECT_THAT(lines(shards_from_cuts(graph, std::vector<Cut>{{1, 2, 0}, {2, 1, 0}}, splits)),
              ElementsAre("0 a [0, 3)x[0, 4)", "0 b [0, 4)x[0, 2)", "1 b [0, 4)x[2, 6)", "1 fc [0, 24)x[0, 1)", "2 fc [0, 24)x[1, 3)"));
}

TEST(ShardsFromCuts, GroupedConvolutionsDivideBetweenTheirGroups) {
  const Graph graph = grouped_graph();
  EXPECT_THAT(lines(shards_from_cuts(graph, std::vector<Cut>{{1, 3, 0}}, {})),
              ElementsAre("0 a [0, 4)x[0, 4)", "0 g [0, 2)x[0, 3)", "1 g [2, 4)x[3, 6)", "1 fc [0, 96)x[0, 3)"));
  EXPECT_EQ(plan_of(graph, {{1, 3, 0}}).groups[1].split, Split::kInputChannels);
  expect_error(ErrorCode::kUsage, R"(cut at channel 2 falls inside a group of the grouped convolution "g"; cut at a multiple of 3)", [&] {
    shards_from_cuts(graph, std::vector<Cut>{{1, 2, 0}}, {});
  });
}

TEST(ShardsFromCuts, DevicesMayStayEmpty) {
  const Graph graph(small_model());
  EXPECT_THAT(lines(shards_from_cuts(graph, std::vector<Cut>{{0, 0, 0}, {2, 0, 0}, {2, 0, 0}}, {})),
              ElementsAre("1 a [0, 3)x[0, 4)", "1 b [0, 4)x[0, 6)", "3 fc [0, 24)x[0, 3)"));
  EXPECT_NO_THROW(validate(plan_of(graph, {{0, 0, 0}, {2, 0, 0}, {2, 0, 0}}), graph, "plan"));
}

TEST(ShardsFromCuts, CutsOutsideTheLayerAreRefused) {
  const Graph graph(small_model());
  const auto refused = [&](const std::string& words, const Cut& cut, Split split = Split::kInputChannels) {
    const std::vector<Split> splits(3, split);
    expect_error(ErrorCode::kUsage, words, [&] { shards_from_cuts(graph, std::vector<Cut>{cut}, splits); });
  };
  const std::string layer = R"( does not fall inside layer "b" (4 inputs, 6 outputs))";
  refused("cut at channel 4 (+0 outputs)" + layer, {1, 4, 0});
  refused("cut at channel -1 (+0 outputs)" + layer, {1, -1, 0});
  refused("cut at channel 1 (+6 outputs)" + layer, {1, 1, 6});
  refused("cut at channel 6 (+0 outputs)" + layer, {1, 6, 0}, Split::kOutputChannels);
  refused("cut at channel 2 (+1 outputs)" + layer, {1, 2, 1}, Split::kOutputChannels);
  refused("cut in group 3", {3, 1, 0});
}

TEST(AssemblePlan, FillsInWhatTheShardsImply) {
  const Graph graph(small_model());
  const Plan plan = plan_of(graph, {{1, 1, 0}, {2, 0, 0}}, Split::kOutputChannels);
  EXPECT_EQ(plan.groups[0], (Group{"a", Split::kWhole, {0}, {"a.relu", "a.pool"}}));
  EXPECT_EQ(plan.groups[1], (Group{"b", Split::kOutputChannels, {1, 2}, {"b.relu", "b.pool", "flat"}}));
  EXPECT_EQ(plan.groups[2], (Group{"fc", Split::kWhole, {3}, {"loss"}}));
  ASSERT_EQ(plan.links.size(), 2u);
  EXPECT_EQ(plan.links[1], (Link{1, 2, 100'000'000'000, 100'000'000'000, 0, 500'000}));
  // One home per user, in linear order; a divided layer's bias belongs to its last device.
  EXPECT_THAT(plan.homes, ElementsAre(ParameterHome{"a", "weight", 0, 108, 0, 0}, ParameterHome{"a", "bias", 0, 4, 0, 0},
                                      ParameterHome{"b", "weight", 0, 36, 0, 0}, ParameterHome{"b", "weight", 0, 180, 1, 1},
                                      ParameterHome{"b", "bias", 0, 6, 1, 1}, ParameterHome{"fc", "weight", 0, 72, 2, 2},
                                      ParameterHome{"fc", "bias", 0, 3, 2, 2}));
}

TEST(AssemblePlan, CutsRemoteSlicesOutOfTheirUsersParameters) {
  const Graph graph(small_model());
  const Plan plan = plan_of(graph, {{1, 0, 0}}, Split::kInputChannels, {{"b", "weight", 200, 16, 0, 1}, {"b", "weight", 20, 30, 0, 1}});
  std::vector<ParameterHome> of_b;
  for (const ParameterHome& home : plan.homes)
    if (home.layer == "b" && home.tensor == "weight") of_b.push_back(home);
  EXPECT_THAT(of_b, ElementsAre(ParameterHome{"b", "weight", 0, 20, 1, 1}, ParameterHome{"b", "weight", 20, 30, 0, 1},
                                ParameterHome{"b", "weight", 50, 150, 1, 1}, ParameterHome{"b", "weight", 200, 16, 0, 1}));
}

TEST(AssemblePlan, RefusesHomesThatFitNothing) {
  const Graph graph(small_model());
  const auto refused = [&](const std::string& words, const std::vector<ParameterHome>& homes) {
    expect_error(ErrorCode::kMalformed, words, [&] { plan_of(graph, {{1, 0, 0}}, Split::kInputChannels, homes); });
  };
  refused("home of b.weight on device 1: [210, 220) overlaps another or passes the shard's 216 elements", {{"b", "weight", 210, 10, 0, 1}});
  refused("home of b.weight on device 1: [5, 15) overlaps another", {{"b", "weight", 0, 10, 0, 1}, {"b", "weight", 5, 10, 0, 1}});
  refused("1 of 1 remote homes name a layer, tensor and user that the plan does not have", {{"a", "weight", 0, 10, 0, 1}});
}

TEST(AssemblePlan, RefusesBatchesThatDoNotDivideAndLayersWithoutDevice) {
  const Graph graph(small_model());
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 1);
  request.mini_batch = 8;
  request.micro_batch = 3;
  expect_error(ErrorCode::kUsage, "mini-batch 8 is not a multiple of micro-batch 3", [&] { single_device_plan(graph, request); });
  request.micro_batch = 0;
  expect_error(ErrorCode::kUsage, "mini-batch 8 is not a multiple of micro-batch 0", [&] { single_device_plan(graph, request); });
  request.micro_batch = 2;
  std::vector<Shard> shards = shards_from_cuts(graph, {}, {});
  shards.pop_back();
  expect_error(ErrorCode::kMalformed, R"(layer "fc" is computed by no device)", [&] { assemble_plan(graph, request, shards); });
  request.cluster = uniform_cluster("cpu", 2);
  expect_error(ErrorCode::kUsage, "a single-device plan needs a cluster of one device, not 2", [&] { single_device_plan(graph, request); });
}

}  // namespace
}  // namespace millrace
