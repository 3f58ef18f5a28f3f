// Where pieces lie, against a walk through the whole plan.
#include "core/plan/placement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/plan/assemble.h"
#include "tests/core/random_plans.h"

namespace millrace {
namespace {

using namespace testing_support;

ChannelRange needed_by_walking(const Plan& plan, const Graph& graph, int64_t node, int64_t device) {
  ChannelRange needed;
  for (size_t u = 0; u < graph.nodes().size(); ++u) {
    const Node& user = graph.nodes()[u];
    if (std::find(user.inputs.begin(), user.inputs.end(), node) == user.inputs.end()) continue;
    const bool divided = graph.groups()[static_cast<size_t>(user.group)].head == static_cast<int64_t>(u) && user.computes;
    const std::vector<int64_t>& shards = plan.groups[static_cast<size_t>(user.group)].shards;
    for (const int64_t s : shards) {
      const Shard& shard = plan.shards[static_cast<size_t>(s)];
      // What is not divided happens on the group's last device.
      if (shard.device < device || (!divided && s != shards.back())) continue;
      if (!divided) needed = hull(needed, {0, graph.shape_of(node).channels});
      if (divided)
        for (const Block& block : shard.blocks) needed = hull(needed, block.inputs);
    }
  }
  return needed;
}

ChannelRange summed_by_walking(const Plan& plan, size_t group, int64_t device) {
  ChannelRange summed;
  for (const int64_t s : plan.groups[group].shards)
    for (const Block& block : plan.shards[static_cast<size_t>(s)].blocks)
      if (plan.shards[static_cast<size_t>(s)].device <= device) summed = hull(summed, block.outputs);
  return summed;
}

TEST(Placement, KnowsWhatAWalkThroughThePlanFinds) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomPlans random(seed + 400);
    const Graph graph(random.model());
    const int64_t devices = random.between(1, 6);
    const Plan plan =
        assemble_plan(graph, random.request(devices, Alignment::kFpdeep, std::max<int64_t>(1, devices)), random.shards(graph, devices));
    const Placement placement(plan, graph);
    for (int64_t device = 0; device < devices; ++device) {
      for (int64_t node = kNetworkInput; node < static_cast<int64_t>(graph.nodes().size()); ++node)
        EXPECT_EQ(placement.needed_from(node, device), needed_by_walking(plan, graph, node, device)) << "node " << node;
      std::vector<int64_t> here;
      for (size_t g = 0; g < plan.groups.size(); ++g) {
        const auto group = static_cast<int64_t>(g);
        EXPECT_EQ(placement.summed_until(group, device), summed_by_walking(plan, g, device)) << "group " << g;
        int64_t found = -1;
        for (const int64_t s : plan.groups[g].shards)
          if (plan.shards[static_cast<size_t>(s)].device == device) found = s;
        EXPECT_EQ(placement.shard_on(group, device), found) << "group " << g;
        if (found >= 0) here.push_back(found);
      }
      std::vector<int64_t> told;
      for (const auto& [group, shard] : placement.on(device)) {
        EXPECT_EQ(plan.shards[static_cast<size_t>(shard)].layer, plan.groups[static_cast<size_t>(group)].layer);
        told.push_back(shard);
      }
      EXPECT_EQ(told, here);
    }
  }
}

}  // namespace
}  // namespace millrace
