// Of one layer's part: the engines that a plan may choose from, what a search counts of them, and what is ruled out.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <random>
#include <utility>

#include "core/graph/zoo.h"
#include "core/plan/cuts.h"
#include "fpga/cost/fpga_cost_model.h"
#include "fpga/cost/generated_engines.h"
#include "tests/fpga/cost/amounts.h"
#include "tests/fpga/cost/boards.h"
#include "tests/fpga/cost/engine_models.h"

namespace millrace {
namespace {

using testing_support::amount;
using testing_support::kClock;
using testing_support::model_of;

// Of a part of a layer on a board without UltraRAM, drawn.
struct DrawnPart {
  BlockList wide, narrow;  // one inside the other
  ShardQuestion question;
};
DrawnPart drawn_part(const Graph& graph, const Node& node, std::mt19937_64& random) {
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  const LayerExtent extent = extent_of(graph, node.group);
  const CutPlace from{below(extent.inputs), 0}, to{from.channel + 1 + below(extent.inputs - from.channel), 0};
  const CutPlace later{from.channel + below(to.channel - from.channel), 0};
  DrawnPart part{blocks_between(extent, Split::kInputChannels, from, to), blocks_between(extent, Split::kInputChannels, later, to), {}};
  part.question.node = &node;
  part.question.period_seconds = 1e-4 * static_cast<double>(10 + below(200));
  part.question.lifetime = 0.5 + static_cast<double>(below(3));
  part.question.off_chip = below(2) == 0;
  part.question.act_ram_outside = below(2) == 0;
  part.question.on_chip = !part.question.off_chip;
  part.question.gradient_samples = 1;
  return part;
}

// The smallest engine, and those after it.
std::vector<ShardDemand> ways_of(const CostModel& model, const ShardQuestion& question) {
  std::vector<ShardDemand> ways{model.demand_of(question)};
  for (const LargerEngine& larger : model.larger_engines(question)) ways.push_back(larger.demand);
  return ways;
}

bool none_above(const ShardDemand& one, const ShardDemand& other) {
  for (size_t i = 0; i < one.amounts.size(); ++i)
    if (one.amounts[i] > other.amounts[i]) return false;
  return one.seconds <= other.seconds;
}

// That a period is too short stands on it: whatever engine does for a shard, one that takes no more of anything does for a part of it, and
// for a longer period. The smallest engines alone would not do.
TEST(GeneratedEngines, LargerOnesMakeDemandsMonotone) {
  std::mt19937_64 random(31);
  int64_t by_smallest = 0, larger = 0, ways_seen = 0;
  for (const char* name : {"vgg16", "resnet18-cifar", "alexnet", "flat map"}) {
    const Graph graph(model_of(name));
    const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock, 900);
    const auto model = make_fpga_cost_model(testing_support::vc709(), {.wire = ElementType::kFixed16}, {}, engines);
    for (const LayerGroup& group : graph.groups()) {
      const Node& node = graph.node(group.head);
      if (!node.divides || node.inputs[0] == kNetworkInput) continue;
      for (int draw = 0; draw < 12; ++draw) {
        const DrawnPart part = drawn_part(graph, node, random);
        ShardQuestion asked = part.question;
        asked.blocks = part.wide;
        asked.streamed_words = StreamedWords::kLeast;
        const std::vector<ShardDemand> ways = ways_of(*model, asked);
        larger += std::ssize(ways) - 1;
        const auto covered = [&](const ShardDemand& way, const std::vector<ShardDemand>& by) {
          return std::ranges::any_of(by, [&](const ShardDemand& other) { return none_above(other, way); });
        };
        const auto check = [&](const std::vector<ShardDemand>& easier, const char* what) {
          for (const ShardDemand& way : ways) {
            if (way.amounts[0] > 1e20) continue;
            ++ways_seen;
            EXPECT_TRUE(covered(way, easier)) << node.layer.name << " draw " << draw << ": " << what;
            by_smallest += none_above(easier.front(), way) ? 1 : 0;
          }
        };
        ShardQuestion easier = asked;
        easier.period_seconds *= 1 + 0.002 * static_cast<double>(random() % 200);
        // Wider streams hold other channels.
        const auto streams = [&](double period) { return engines->engine_for(node, part.wide, period, kClock)->lanes; };
        if (streams(asked.period_seconds) == streams(easier.period_seconds)) check(ways_of(*model, easier), "longer");
        easier = asked;
        easier.blocks = part.narrow;
        check(ways_of(*model, easier), "smaller");
      }
    }
  }
  EXPECT_GT(larger, 200);
  EXPECT_LT(by_smallest, ways_seen * 9 / 10);
}

// That none keeps a period stands on it: whatever is built for a shard, something that is counted for its parts, and for a longer period,
// takes no more of anything. And it is no less than what some larger part is built with.
struct LeastBuiltOf {
  CatalogueDevice board;
  StreamedWords words;
  double exactly;  // part of the draws where it is, but for a hundredth
};
void PrintTo(const LeastBuiltOf& of, std::ostream* out) {
  const bool ultra = std::ranges::find(of.board.values, "uram", &CatalogueValue::name) != of.board.values.end();
  *out << (ultra ? "two_kinds" : "one_kind") << (of.words == StreamedWords::kLeast ? "_each_least" : "_as_built");
}
class LeastBuiltAre : public testing::TestWithParam<LeastBuiltOf> {};
INSTANTIATE_TEST_SUITE_P(
    , LeastBuiltAre,
    testing::Values(LeastBuiltOf{testing_support::vc709(), StreamedWords::kLeastBuilt, 0.5},
                    LeastBuiltOf{testing_support::with(testing_support::vc709(), "uram", 960), StreamedWords::kLeastBuilt, 0.5},
                    LeastBuiltOf{testing_support::with(testing_support::vc709(), "uram", 960), StreamedWords::kLeast, 0.3}));
TEST_P(LeastBuiltAre, NoMoreThanWhatIsBuilt) {
  std::mt19937_64 random(41);
  int64_t ways_seen = 0, exact = 0, draws = 0;
  for (const char* name : {"vgg11-cifar", "resnet18-cifar", "alexnet", "alexnet-grouped"}) {
    const Graph graph(model_of(name));
    const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock, 900);
    const auto model = make_fpga_cost_model(GetParam().board, {.wire = ElementType::kFixed16}, {}, engines);
    for (const LayerGroup& group : graph.groups()) {
      const Node& node = graph.node(group.head);
      // Of very many channels some are looked at.
      if (!node.divides || node.inputs[0] == kNetworkInput || extent_of(graph, node.group).inputs > 512) continue;
      for (int draw = 0; draw < 12; ++draw) {
        const DrawnPart part = drawn_part(graph, node, random);
        ShardQuestion asked = part.question;
        asked.blocks = part.wide;
        asked.streamed_words = StreamedWords::kBuilt;
        const std::vector<ShardDemand> built = ways_of(*model, asked);
        if (built.front().amounts[0] > 1e20) continue;
        ++draws;
        ShardQuestion easier = asked;
        easier.streamed_words = GetParam().words;
        const std::vector<ShardDemand> same = ways_of(*model, easier);
        const auto least_memory = [](const std::vector<ShardDemand>& ways) {
          return std::ranges::min(ways, {}, [](const ShardDemand& way) { return way.amounts[3]; }).amounts[3];
        };
        exact += least_memory(same) >= 0.99 * least_memory(built) ? 1 : 0;
        easier.period_seconds *= 1 + 0.002 * static_cast<double>(random() % 200);
        const auto streams = [&](double period) { return engines->engine_for(node, part.wide, period, kClock)->lanes; };
        if (streams(asked.period_seconds) != streams(easier.period_seconds)) easier.period_seconds = asked.period_seconds;
        const bool is_empty = std::ranges::any_of(part.narrow, [](const Block& block) { return block.inputs.empty(); });  // of two groups
        if (draw % 2 == 0 && !is_empty) easier.blocks = part.narrow;
        const std::vector<ShardDemand> least = ways_of(*model, easier);
        for (const ShardDemand& way : built) {
          if (way.amounts[0] > 1e20) continue;
          ++ways_seen;
          EXPECT_TRUE(std::ranges::any_of(least, [&](const ShardDemand& other) { return none_above(other, way); }))
              << name << " " << node.layer.name << " draw " << draw;
        }
      }
    }
  }
  EXPECT_GT(ways_seen, 500);
  EXPECT_GT(static_cast<double>(exact), GetParam().exactly * static_cast<double>(draws)) << "of " << draws;
}

// What a larger part may be built with comes with the Act-RAM of that part.
TEST(GeneratedEngines, OfLargerPartsHoldMore) {
  std::mt19937_64 random(47);
  const Graph graph(find_model("vgg11-cifar"));
  const GeneratedEngines engines(graph, kClock, 900);
  int64_t of_larger = 0;
  for (const LayerGroup& group : graph.groups()) {
    const Node& node = graph.node(group.head);
    if (!node.divides || node.inputs[0] == kNetworkInput) continue;
    for (int draw = 0; draw < 12; ++draw) {
      const DrawnPart part = drawn_part(graph, node, random);
      const std::optional<GeneratedEngine> smallest = engines.engine_for(node, part.wide, part.question.period_seconds, kClock);
      if (!smallest || !smallest->keeps_up) continue;
      const std::optional<std::vector<EngineMemory>> found =
          engines.least_built(*smallest, {.off_chip = draw % 2 == 0}, /*two_kinds=*/false);
      const auto held = static_cast<double>(smallest->held.inputs), all = static_cast<double>(extent_of(graph, node.group).inputs);
      for (const EngineMemory& memory : found.value_or(std::vector<EngineMemory>())) {
        EXPECT_GE(memory.act_ram_times, 1) << node.layer.name;
        EXPECT_LE(memory.act_ram_times * held, std::max(all, held)) << node.layer.name;
        of_larger += memory.act_ram_times > 1 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(of_larger, 40);
}

// What is kept of other periods, a little longer or shorter, and of Act-RAMs elsewhere, changes nothing.
TEST(GeneratedEngines, AnswersDoNotDependOnWhatWasAskedBefore) {
  std::mt19937_64 random(53);
  int64_t answers = 0, changes = 0;
  for (const char* name : {"vgg11-cifar", "alexnet"}) {
    const Graph graph(model_of(name));
    const GeneratedEngines engines(graph, kClock, 900);
    for (const LayerGroup& group : graph.groups()) {
      const Node& node = graph.node(group.head);
      if (!node.divides || node.inputs[0] == kNetworkInput || extent_of(graph, node.group).inputs > 512) continue;
      const double about = drawn_part(graph, node, random).question.period_seconds;
      std::optional<std::vector<EngineMemory>> before;
      for (int draw = 0; draw < 10; ++draw) {
        const DrawnPart part = drawn_part(graph, node, random);
        const WeightsAt weights{.off_chip = draw % 2 == 0, .act_ram_outside = part.question.act_ram_outside};
        const double period = about * (1 + 1e-4 * static_cast<double>(random() % 100) * (draw % 3 == 0 ? 10 : 1));
        const GeneratedEngines fresh(graph, kClock, 900);
        const std::optional<GeneratedEngine> engine = engines.engine_for(node, part.wide, period, kClock);
        if (!engine || !engine->keeps_up) continue;
        ++answers;
        const auto least = engines.least_built(*engine, weights, /*two_kinds=*/false);
        EXPECT_EQ(least, fresh.least_built(*engine, weights, /*two_kinds=*/false)) << name << " " << node.layer.name << " draw " << draw;
        EXPECT_EQ(engines.least_built(*engine, weights, /*two_kinds=*/true), fresh.least_built(*engine, weights, /*two_kinds=*/true));
        EXPECT_EQ(engines.least_of_any(*engine, weights), fresh.least_of_any(*engine, weights));
        changes += least != std::exchange(before, least) ? 1 : 0;
        for (const bool rounded_down : {false, true}) {
          EXPECT_EQ(engines.reserved_for_period(*engine, weights, rounded_down), fresh.reserved_for_period(*engine, weights, rounded_down));
          EXPECT_EQ(engines.larger_engines(*engine, weights, rounded_down), fresh.larger_engines(*engine, weights, rounded_down));
          EXPECT_EQ(engines.reserved_bytes(*engine, weights, rounded_down), fresh.reserved_bytes(*engine, weights, rounded_down));
        }
        EXPECT_EQ(engines.least_for_period(*engine, weights), fresh.least_for_period(*engine, weights));
      }
    }
  }
  EXPECT_GT(answers, 60);
  EXPECT_GT(changes, answers / 2);
}

// What is chosen as it is built costs what was said, and no engine moves fewer words than a search counts.
TEST(GeneratedEngines, AreBuiltInTheSizeThatWasChosen) {
  std::mt19937_64 random(37);
  const Graph graph(find_model("vgg11-cifar"));
  const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock, 900);
  const auto model = make_fpga_cost_model(testing_support::vc709(), {.wire = ElementType::kFixed16}, {}, engines);
  int64_t larger = 0, streamed = 0;
  for (const LayerGroup& group : graph.groups()) {
    const Node& node = graph.node(group.head);
    if (!node.divides || node.inputs[0] == kNetworkInput) continue;
    for (int draw = 0; draw < 20; ++draw) {
      const DrawnPart part = drawn_part(graph, node, random);
      ShardQuestion question = part.question;
      question.blocks = part.wide;
      question.streamed_words = StreamedWords::kFull;
      const ShardDemand searched = model->demand_of(question);
      if (searched.amounts[0] > 1e20) continue;
      question.streamed_words = StreamedWords::kBuilt;
      const int64_t smallest = model->cost_of(question).phases.front().multipliers;
      for (const LargerEngine& engine : model->larger_engines(question)) {
        ++larger;
        question.most_tiles = engine.most_tiles;
        const ShardCost cost = model->cost_of(question);
        EXPECT_GT(cost.phases.front().multipliers, smallest) << node.layer.name;
        EXPECT_DOUBLE_EQ(engine.demand.amounts[0], amount(cost.resources, "dsp")) << node.layer.name;
        EXPECT_DOUBLE_EQ(engine.demand.amounts[model->parameter_memory()],
                         amount(cost.resources, "bram_bits") + amount(cost.resources, "parameter_bram_bits"));
        EXPECT_LE(cost.seconds_per_sample, question.period_seconds * (1 + 1e-6));
        if (!question.off_chip) continue;
        ++streamed;
        EXPECT_LE(searched.seconds, engine.demand.seconds * (1 + 1e-12)) << node.layer.name;
      }
      question.most_tiles = 0;
    }
  }
  EXPECT_GT(larger, 100);
  EXPECT_GT(streamed, 40);
}

// What waits for errors crosses the board's memory once there and once back, in whole beats, and leaves all blocks but those of its bursts.
TEST(GeneratedEngines, OfActRamsOutsideTakeSecondsInsteadOfBlocks) {
  const Graph graph(find_model("vgg16"));
  const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock, 900);
  const auto model = make_fpga_cost_model(testing_support::vc709(), {.wire = ElementType::kFixed16}, {}, engines);
  const double bandwidth = amount(model->inventory(), "dram_bytes_per_second");
  ASSERT_TRUE(model->may_wait_outside());
  for (const char* layer : {"conv2_1", "conv3_2", "conv5_3"}) {
    const Node& node = graph.node(graph.index_of(layer));
    ShardQuestion question;
    question.node = &node;
    question.period_seconds = 0.05;
    question.gradient_samples = 1;
    question.streamed_words = StreamedWords::kBuilt;
    const ShardDemand on_chip = model->demand_of(question);
    question.act_ram_outside = true;
    const ShardDemand outside = model->demand_of(question);
    const auto map = static_cast<double>(node.input_shapes[0].elements());
    const double bytes = amount(model->cost_of(question).resources, "act_ram_bytes_per_sample");
    EXPECT_GE(bytes, 2 * 2 * map) << layer;
    EXPECT_LE(bytes, 2 * 2 * map * 1.07) << "what lanes leave empty is little";
    EXPECT_EQ(on_chip.seconds, 0) << layer;
    EXPECT_NEAR(outside.seconds, bytes / bandwidth, 1e-12) << layer;
    const size_t memory = model->parameter_memory();
    EXPECT_GT(on_chip.amounts[memory] - outside.amounts[memory], 16 * map * 0.9) << layer;
    EXPECT_GT(outside.amounts[1], on_chip.amounts[1]) << "its port";
    EXPECT_EQ(outside.amounts[0], on_chip.amounts[0]) << layer;
  }
}

// Of engines that are built all are looked at that take less of something than every smaller one.
TEST(GeneratedEngines, NoneThatIsBuiltIsLeftOut) {
  std::mt19937_64 random(43);
  const Graph graph(find_model("resnet18-cifar"));
  const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock, 900);
  const auto model = make_fpga_cost_model(testing_support::vc709(), {.wire = ElementType::kFixed16}, {}, engines);
  int64_t between = 0;
  for (const LayerGroup& group : graph.groups()) {
    const Node& node = graph.node(group.head);
    if (!node.divides || node.inputs[0] == kNetworkInput) continue;
    for (int draw = 0; draw < 6; ++draw) {
      const DrawnPart part = drawn_part(graph, node, random);
      ShardQuestion question = part.question;
      question.blocks = part.wide;
      question.streamed_words = StreamedWords::kBuilt;
      const std::vector<ShardDemand> ways = ways_of(*model, question);
      if (ways.front().amounts[0] > 1e20) continue;
      const double least = std::ranges::min(ways, {}, [](const ShardDemand& way) { return way.amounts[3]; }).amounts[3];
      const double fewest = std::ranges::min(ways, {}, &ShardDemand::seconds).seconds;
      const GeneratedEngine smallest = *engines->engine_for(node, part.wide, question.period_seconds, kClock);
      for (const GeneratedEngine& engine : engines->that_keep_up(smallest, 300)) {
        question.most_tiles = engine.engine.tiles();
        ShardDemand built = model->demand_of(question);
        if (built.amounts[0] > 3060) continue;
        // Fewer lanes pack words for outside in fewer LUTs, which a search does not look for.
        if (question.act_ram_outside) built.amounts[1] = built.amounts[2] = std::numeric_limits<double>::max();
        EXPECT_TRUE(std::ranges::any_of(ways, [&](const ShardDemand& way) { return none_above(way, built); }))
            << node.layer.name << " draw " << draw << " tiles " << question.most_tiles;
      }
      between += std::ranges::count_if(ways, [&](const ShardDemand& way) { return way.amounts[3] > least && way.seconds > fewest; });
    }
  }
  EXPECT_GT(between, 10);
}

}  // namespace
}  // namespace millrace
