// Engines as they are built are ruled out before they are counted: against all sizes, asked about one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "core/graph/zoo.h"
#include "core/plan/cuts.h"
#include "fpga/cost/fpga_cost_model.h"
#include "fpga/cost/generated_engines.h"
#include "tests/fpga/cost/amounts.h"
#include "tests/fpga/cost/boards.h"

namespace millrace {
namespace {

using testing_support::amount;

// Those that take less memory, however it is counted, than every smaller one that takes no more seconds.
std::vector<ShardDemand> larger_by_size(const CostModel& model, ShardQuestion question, int64_t most_tiles) {
  std::vector<ShardDemand> smaller{model.demand_of(question)};
  for (question.most_tiles = 1; question.most_tiles <= most_tiles; ++question.most_tiles) {
    const ShardDemand demand = model.demand_of(question);
    const bool is_undercut = std::ranges::any_of(smaller, [&](const ShardDemand& known) {
      for (size_t i = 0; i < model.capacities().size(); ++i)
        if (model.holds_parameters(i) && known.amounts[i] > demand.amounts[i]) return false;
      return known.seconds <= demand.seconds;
    });
    if (demand.amounts[0] < 1e20 && !is_undercut) smaller.push_back(demand);
  }
  return {smaller.begin() + 1, smaller.end()};
}

TEST(LargerBuilt, AreAllThatNoSmallerOneUndercuts) {
  std::mt19937_64 random(43);
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  int64_t larger = 0, streamed = 0;
  for (const bool ultra : {false, true}) {
    const Graph graph(find_model("vgg11-cifar"));
    const CatalogueDevice board = ultra ? testing_support::with(testing_support::vc709(), "uram", 960) : testing_support::vc709();
    const auto model =
        make_fpga_cost_model(board, {.wire = ElementType::kFixed16}, {}, std::make_shared<const GeneratedEngines>(graph, 200e6));
    const auto multipliers = static_cast<int64_t>(amount(model->inventory(), "multipliers"));
    for (const LayerGroup& group : graph.groups()) {
      const Node& node = graph.node(group.head);
      if (!node.divides || node.inputs[0] == kNetworkInput || role_of(node.layer.operation) != Role::kConvolution) continue;
      const LayerExtent extent = extent_of(graph, node.group);
      for (int draw = 0; draw < 6; ++draw) {
        const CutPlace from{below(extent.inputs), 0}, to{from.channel + 1 + below(extent.inputs - from.channel), 0};
        const BlockList blocks = blocks_between(extent, Split::kInputChannels, from, to);
        ShardQuestion question;
        question.node = &node;
        question.blocks = blocks;
        question.gradient_samples = 1;
        question.lifetime = 0.5 + 0.25 * static_cast<double>(below(8));
        question.streamed_words = StreamedWords::kBuilt;
        question.off_chip = below(2) == 0;
        question.act_ram_outside = below(2) == 0;
        question.on_chip = !question.off_chip;
        question.period_seconds = 1e-4 * static_cast<double>(1 + below(40));
        const std::vector<LargerEngine> found = model->larger_engines(question);
        if (model->demand_of(question).amounts[0] > 1e20) continue;
        const std::vector<ShardDemand> by_size = larger_by_size(*model, question, multipliers / (3 * 9));
        ASSERT_EQ(found.size(), by_size.size()) << node.layer.name << " draw " << draw;
        for (size_t i = 0; i < found.size(); ++i) {
          for (size_t resource = 0; resource < model->capacities().size(); ++resource) {
            if (resource > 0 && !model->holds_parameters(resource)) continue;
            EXPECT_EQ(found[i].demand.amounts[resource], by_size[i].amounts[resource]) << node.layer.name;
          }
          EXPECT_EQ(found[i].demand.seconds, by_size[i].seconds) << node.layer.name;
        }
        larger += std::ssize(found);
        streamed += question.off_chip ? std::ssize(found) : 0;
      }
    }
  }
  EXPECT_GT(larger, 50);
  EXPECT_GT(streamed, 10);
}

}  // namespace
}  // namespace millrace
