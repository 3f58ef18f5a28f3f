#include "core/plan/home_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "core/plan/credits.h"
#include "core/plan/flow_load.h"
#include "core/plan/flows.h"
#include "core/plan/validate.h"
#include "tests/core/plan/small_plans.h"

namespace millrace {
namespace {

using namespace testing_support;

// 30 of fc's weights and 2 of its biases live two devices upstream of it, 5 of a's one device downstream.
Plan balanced_plan(const Graph& graph) {
  const std::vector<ParameterHome> homes = {{"fc", "weight", 10, 30, 0, 2}, {"fc", "bias", 1, 2, 0, 2}, {"a", "weight", 0, 5, 1, 0}};
  return plan_of(graph, {{group_of(graph, "b"), 0, 0}, {group_of(graph, "fc"), 0, 0}}, Split::kInputChannels, homes,
                 Alignment::kOneForwardOneBackward);
}

std::vector<int64_t> links_of(const Plan& plan, const std::vector<int64_t>& way) {
  std::vector<int64_t> links;
  for (const int64_t flow : way) links.push_back(plan.flows[static_cast<size_t>(flow)].link);
  return links;
}

TEST(HomeRoutes, LeadFromHomeToUserAndBack) {
  const Graph graph(small_model());
  const Plan plan = balanced_plan(graph);
  const std::vector<HomeRoute> routes = home_routes(plan);
  ASSERT_EQ(routes.size(), 3U);
  for (const HomeRoute& route : routes) {
    const ParameterHome& home = plan.homes[route.home];
    const bool downstream = home.home < home.user;
    const std::vector<int64_t> there = downstream ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0};
    const std::vector<int64_t> back = downstream ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0};
    EXPECT_EQ(links_of(plan, route.parameters), there) << parameter_name(home);
    EXPECT_EQ(links_of(plan, route.gradients), back) << parameter_name(home);
    for (const int64_t flow : route.parameters) {
      EXPECT_EQ(plan.flows[static_cast<size_t>(flow)].stream, Stream::kParameter);
      EXPECT_EQ(plan.flows[static_cast<size_t>(flow)].tensor, parameter_name(home));
      EXPECT_EQ(user_of(plan.flows[static_cast<size_t>(flow)], plan), home.user);
    }
    for (const int64_t link : there) {
      EXPECT_EQ(plan.flows[static_cast<size_t>(flow_across(plan, route.parameters, link))].link, link);
      EXPECT_EQ(plan.flows[static_cast<size_t>(flow_across(plan, route.gradients, link))].link, link);
    }
  }
  EXPECT_TRUE(home_routes(plan_of(graph, {})).empty());
}

// Two slices of one tensor with the same range, used on two devices: names and ranges alone would not tell them apart.
TEST(HomeRoutes, TellUsersOfADividedLayerApart) {
  const Graph graph(small_model());
  const int64_t b = group_of(graph, "b");
  const std::vector<ParameterHome> homes = {{"b", "weight", 0, 4, 1, 0}, {"b", "weight", 0, 4, 0, 1}};
  const Plan plan = plan_of(graph, {{b, 2, 0}}, Split::kInputChannels, homes);
  const std::vector<HomeRoute> routes = home_routes(plan);
  ASSERT_EQ(routes.size(), 2U);
  for (const HomeRoute& route : routes)
    for (const int64_t flow : {route.parameters.front(), route.gradients.front()})
      EXPECT_EQ(plan.flows[static_cast<size_t>(flow)].home, static_cast<int64_t>(route.home));
  EXPECT_NE(routes[0].parameters, routes[1].parameters);
}

// Version 1 of the document did not name homes in flows; reading it finds them.
TEST(HomeRoutes, AreFoundInPlansOfVersion1) {
  const Graph graph(small_model());
  const Plan plan = balanced_plan(graph);
  std::string text = text_of(plan);
  ASSERT_NE(text.find("version: 2"), std::string::npos);
  text.replace(text.find("version: 2"), 10, "version: 1");
  // Homes themselves have a home too, and a user behind it; of flows it is the last field.
  const std::string without = std::regex_replace(text, std::regex("home: [0-9]+(\\s*\\})"), "$1");
  ASSERT_NE(without, text);
  const Plan read = parse_plan(without, "old");
  EXPECT_EQ(read.flows, plan.flows);
  EXPECT_NO_THROW(validate(read, graph, "old"));
}

TEST(FlowLoads, AddUpToTheLinks) {
  const Graph graph(small_model());
  const Plan plan = balanced_plan(graph);
  const std::vector<int64_t> lanes = lane_loads(plan);
  ASSERT_EQ(lanes.size(), 4U);
  for (int64_t link = 0; link < 2; ++link) {
    EXPECT_EQ(lanes[static_cast<size_t>(2 * link)], load_of(plan, link, Direction::kForward).bits_per_mini_batch);
    EXPECT_EQ(lanes[static_cast<size_t>(2 * link + 1)], load_of(plan, link, Direction::kBackward).bits_per_mini_batch);
  }
  for (const Flow& flow : plan.flows) {
    EXPECT_EQ(bits_per_sample(flow, plan) * static_cast<double>(plan.mini_batch), static_cast<double>(bits_per_mini_batch(flow, plan)));
    EXPECT_EQ(elements_of_message(flow, plan), carries_parameters(flow) ? flow.elements_per_pass : 2 * flow.elements_per_sample);
  }
}

TEST(Credits, SufficeForTheWindows) {
  const Graph graph(small_model());
  Plan plan = balanced_plan(graph);
  plan.windows = {9, 4, 3};
  for (const Flow& flow : plan.flows) {
    const bool ahead = flow.direction == Direction::kForward && !carries_parameters(flow) && flow.link == 0;
    EXPECT_EQ(messages_ahead(plan, flow), ahead ? 9 - 4 : 2) << flow.tensor;
  }
}

TEST(FlowTensors, AreOutputsAndRawSums) {
  const Graph graph(small_model());
  const auto of = [&](std::string name) {
    Flow flow;
    flow.tensor = std::move(name);
    return tensor_of(graph, flow);
  };
  EXPECT_EQ(of(sum_name("b")).node, graph.index_of("b"));
  EXPECT_TRUE(of(sum_name("b")).sum);
  EXPECT_EQ(of("a.pool").node, graph.index_of("a.pool"));
  EXPECT_FALSE(of("a.pool").sum);
  EXPECT_EQ(of(std::string(kInputName)).node, kNetworkInput);
}

}  // namespace
}  // namespace millrace
