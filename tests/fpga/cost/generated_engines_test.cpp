#include "fpga/cost/generated_engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/cuts.h"
#include "core/plan/off_chip.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "fpga/cost/fpga_cost_model.h"
#include "tests/fpga/cost/amounts.h"
#include "tests/fpga/cost/boards.h"

namespace millrace {
namespace {

constexpr double kClock = 200e6;

// Of the zoo, and a network whose dense layer takes its map flat: as wide as streams are, its channels fill their lanes or not.
Model model_of(std::string_view name) {
  if (name != "flat map") return find_model(name);
  ModelBuilder net("flat map", {3, 12, 12});
  net.conv("conv1", 21, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.flatten("flat");
  net.dense("fc1", 30);
  net.relu("relu2");
  net.dense("fc2", 10);
  return net.finish();
}

int64_t tiles(const std::optional<GeneratedEngine>& engine) { return engine->keeps_up ? engine->engine.tiles() : INT64_MAX; }

// The search over cuts stands on it: more channels, or less time, never take a smaller engine.
TEST(GeneratedEngines, AreMonotone) {
  std::mt19937_64 random(5);
  for (const char* model : {"alexnet", "vgg11-cifar", "lenet5", "flat map"}) {
    const Graph graph(model_of(model));
    const GeneratedEngines engines(graph, kClock);
    for (const LayerGroup& group : graph.groups()) {
      const Node& node = graph.node(group.head);
      if (!node.divides) continue;
      const LayerExtent extent = extent_of(graph, node.group);
      for (int draw = 0; draw < 40; ++draw) {
        const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
        const CutPlace from{below(extent.inputs), 0}, to{from.channel + 1 + below(extent.inputs - from.channel), 0};
        const CutPlace later{from.channel + below(to.channel - from.channel), 0};
        const double period = 1e-5 * static_cast<double>(int64_t{1} << below(12));
        const BlockList wide = blocks_between(extent, Split::kInputChannels, from, to);
        const BlockList narrow = blocks_between(extent, Split::kInputChannels, later, to);
        const auto most = engines.engine_for(node, wide, period, kClock);
        ASSERT_TRUE(most) << node.layer.name;
        EXPECT_GE(tiles(most), tiles(engines.engine_for(node, narrow, period, kClock))) << node.layer.name;
        EXPECT_GE(tiles(most), tiles(engines.engine_for(node, wide, period * 1.3, kClock))) << node.layer.name;
      }
    }
  }
}

// Cost models keep what they were asked for: answers do not depend on it.
TEST(GeneratedEngines, AnswerAlikeWhateverWasAskedBefore) {
  std::mt19937_64 random(11);
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  const Graph graph(find_model("vgg11-cifar"));
  const CatalogueDevice boards[] = {testing_support::vc709(), testing_support::with(testing_support::vc709(), "uram", 960)};
  const auto fresh = [&](int64_t board) {
    return make_fpga_cost_model(boards[board], {.wire = ElementType::kFixed16}, {},
                                std::make_shared<const GeneratedEngines>(graph, kClock));
  };
  const std::unique_ptr<CostModel> models[] = {fresh(0), fresh(1)};
  ShardQuestion question;
  question.gradient_samples = 1;
  question.lifetime = 2;
  int64_t feasible = 0, larger = 0;
  for (int draw = 0; draw < 400; ++draw) {
    const LayerGroup& group = graph.groups()[static_cast<size_t>(below(std::ssize(graph.groups())))];
    const Node& node = graph.node(group.head);
    if (!node.divides) continue;
    const LayerExtent extent = extent_of(graph, node.group);
    const CutPlace from{below(extent.inputs), 0}, to{from.channel + 1 + below(extent.inputs - from.channel), 0};
    question.node = &node;
    const BlockList blocks = blocks_between(extent, Split::kInputChannels, from, to);
    question.blocks = blocks;
    question.streamed_words = static_cast<StreamedWords>(below(4));
    question.off_chip = below(2) == 0;
    question.on_chip = !question.off_chip;
    if (below(4) == 0) question.period_seconds = 1e-4 * static_cast<double>(int64_t{1} << below(6));  // several of a period
    if (!(question.period_seconds > 0)) continue;
    const int64_t board = below(2);
    const auto unasked = fresh(board);
    const ShardDemand known = models[board]->demand_of(question), alone = unasked->demand_of(question);
    EXPECT_EQ(known.amounts, alone.amounts) << draw;
    EXPECT_EQ(known.seconds, alone.seconds) << draw;
    feasible += known.amounts[0] < 1e20 ? 1 : 0;
    const std::vector<LargerEngine> known_larger = models[board]->larger_engines(question),
                                    alone_larger = unasked->larger_engines(question);
    ASSERT_EQ(known_larger.size(), alone_larger.size()) << draw;
    for (size_t i = 0; i < alone_larger.size(); ++i) {
      EXPECT_EQ(known_larger[i].most_tiles, alone_larger[i].most_tiles) << draw;
      EXPECT_EQ(known_larger[i].demand.amounts, alone_larger[i].demand.amounts) << draw;
    }
    larger += std::ssize(alone_larger);
  }
  EXPECT_GT(feasible, 50);
  EXPECT_GT(larger, 50);
}

// What no pass over gradients can do: of the most samples the time, of the fewest the memory. None demands less, whatever its engine.
TEST(GeneratedEngines, OfTheBestOfSeveralPassesDemandNoMoreThanOfAny) {
  std::mt19937_64 random(13);
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  const Graph graph(find_model("alexnet"));
  const auto model = make_fpga_cost_model(testing_support::vc709(), {.wire = ElementType::kFixed16}, {},
                                          std::make_shared<const GeneratedEngines>(graph, kClock, 3600));
  const std::span<const NamedAmount> capacities = model->capacities();
  int64_t feasible = 0, less = 0;
  for (const LayerGroup& group : graph.groups()) {
    const Node& node = graph.node(group.head);
    if (!node.divides) continue;
    const LayerExtent extent = extent_of(graph, node.group);
    for (int draw = 0; draw < 12; ++draw) {
      const CutPlace from{below(extent.inputs), 0}, to{from.channel + 1 + below(extent.inputs - from.channel), 0};
      const BlockList blocks = blocks_between(extent, Split::kInputChannels, from, to);
      ShardQuestion question;
      question.node = &node;
      question.blocks = blocks;
      question.off_chip = true;
      question.streamed_words = StreamedWords::kLeast;
      question.lifetime = 2;
      question.period_seconds = 1e-3 * static_cast<double>(int64_t{1} << below(7));
      question.gradient_samples = 128;
      question.gradient_samples_held = 1;
      const ShardDemand best = model->demand_of(question);
      const std::vector<LargerEngine> larger = model->larger_engines(question);
      const auto covers = [&](const ShardDemand& one, const ShardDemand& other) {
        if (one.seconds > other.seconds) return false;
        for (size_t i = 0; i < capacities.size(); ++i)
          if (one.amounts[i] > other.amounts[i] * (1 + 1e-12)) return false;
        return true;
      };
      question.gradient_samples_held = 0;
      for (const int64_t samples : {1, 4, 8, 16, 32, 64, 128}) {
        question.gradient_samples = samples;
        const ShardDemand of_samples = model->demand_of(question);
        EXPECT_TRUE(covers(best, of_samples)) << node.layer.name << " " << samples;
        feasible += of_samples.amounts[0] < 1e20 ? 1 : 0;
        less +=
            best.seconds < of_samples.seconds || best.amounts[model->parameter_memory()] < of_samples.amounts[model->parameter_memory()];
        for (const LargerEngine& engine : model->larger_engines(question))
          EXPECT_TRUE(covers(best, engine.demand) ||
                      std::ranges::any_of(larger, [&](const LargerEngine& other) { return covers(other.demand, engine.demand); }))
              << node.layer.name << " " << samples << " " << engine.most_tiles;
      }
    }
  }
  EXPECT_GT(feasible, 100);
  EXPECT_GT(less, 50);
}

// The memory that a search reserves never falls either, where weights lie on chip and where they are streamed.
TEST(GeneratedEngines, ReserveMemoryMonotonously) {
  std::mt19937_64 random(7);
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  for (const char* name : {"vgg16", "alexnet-grouped", "resnet18-cifar", "flat map"}) {
    const Graph graph(model_of(name));
    const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock);
    for (const CatalogueDevice& board : {testing_support::vc709(), testing_support::with(testing_support::vc709(), "uram", 960)}) {
      const auto model = make_fpga_cost_model(board, {.wire = ElementType::kFixed16}, {}, engines);
      const size_t memory = model->parameter_memory();
      for (const LayerGroup& group : graph.groups()) {
        const Node& node = graph.node(group.head);
        if (!node.divides) continue;
        const LayerExtent extent = extent_of(graph, node.group);
        if (extent.conv_groups > 1) continue;
        const Split split = extent.inputs < 16 && node.inputs[0] == kNetworkInput ? Split::kOutputChannels : Split::kInputChannels;
        const int64_t channels = split == Split::kInputChannels ? extent.inputs : extent.outputs;
        for (int draw = 0; draw < 300; ++draw) {
          const CutPlace from{below(channels), 0}, to{from.channel + 1 + below(channels - from.channel), 0};
          const CutPlace later{from.channel + below(to.channel - from.channel), 0};
          const CutPlace sooner{later.channel + 1 + below(to.channel - later.channel), 0};
          const BlockList wide = blocks_between(extent, split, from, to), narrow = blocks_between(extent, split, later, sooner);
          ShardQuestion question;
          question.node = &node;
          question.blocks = wide;
          question.period_seconds = 1e-4 * static_cast<double>(1 + below(100));
          question.lifetime = 0.1 * static_cast<double>(below(40));
          question.off_chip = draw % 2 == 0;
          question.gradient_samples = 4;
          question.act_ram_outside = draw % 3 == 0;
          const ShardDemand all = model->demand_of(question);
          question.blocks = narrow;
          question.owner = draw % 3 == 0;
          const ShardDemand part = model->demand_of(question);
          ASSERT_LE(part.amounts[0], all.amounts[0]) << node.layer.name;
          if (all.amounts[0] > 1e20) continue;
          ASSERT_LE(part.amounts[memory], all.amounts[memory])
              << board.name << " " << node.layer.name << " [" << later.channel << ", " << sooner.channel << ") of [" << from.channel << ", "
              << to.channel << ") period " << question.period_seconds << " lifetime " << question.lifetime << " " << question.off_chip;
          ASSERT_LE(part.seconds, all.seconds) << node.layer.name;
          EXPECT_EQ(all.parameters, 0);
        }
      }
    }
  }
}

// Of every part of a shard the engine that moves the fewest.
TEST(GeneratedEngines, ReserveTheFewestBytesThatAPartNeeds) {
  const WeightsAt weights{.off_chip = true, .gradient_samples = 4};
  const WeightStreams streams{.gradient_samples = weights.gradient_samples};
  for (const char* model : {"lenet5", "flat map", "fashion-cnn"}) {
    const Graph graph(model_of(model));
    for (const LayerGroup& group : graph.groups()) {
      const Node& node = graph.node(group.head);
      if (!node.divides) continue;
      const LayerExtent extent = extent_of(graph, node.group);
      // Of many channels only some numbers are looked at, and the first layer is divided by outputs.
      if (extent.inputs > 96 || node.inputs.front() == kNetworkInput) continue;
      const GeneratedEngines engines(graph, kClock);
      for (const double period : {1e-3, 2e-5, 1e-4}) {
        double most = 0;
        int64_t held = 0;
        for (int64_t inputs = 1; inputs <= extent.inputs; ++inputs) {
          const BlockList blocks = blocks_between(extent, Split::kInputChannels, {0, 0}, {inputs, 0});
          const auto engine = engines.engine_for(node, blocks, period, kClock);
          if (!engine->passes || !engine->keeps_up || engine->held.inputs == held) continue;
          held = engine->held.inputs;
          double fewest = std::numeric_limits<double>::infinity();
          EngineFront front(engine->held, engine->error_back);
          for (const EngineFront::Choice& choice : front.choices())
            if (choice.slowest <= engine->cycles_given)
              fewest = std::min(fewest, bytes_per_sample(streams, front.engine(choice), engine->held, engine->error_back));
          most = std::max(most, fewest);
          EXPECT_EQ(engines.reserved_bytes(*engine, weights, true), most) << model << " " << node.layer.name << " " << inputs;
        }
      }
    }
  }
}

// Where weights are streamed, too: a search that takes a shard for fast enough finds it so when it is built.
TEST(GeneratedEngines, KeepThePeriodThatStreamedShardsWereFoundFor) {
  std::mt19937_64 random(9);
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  const Graph graph(find_model("resnet18-cifar"));
  const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock);
  const auto model = make_fpga_cost_model(testing_support::vc709(), {.wire = ElementType::kFixed16}, {}, engines);
  int close = 0;  // of shards whose ports take most of the period
  for (const LayerGroup& group : graph.groups()) {
    const Node& node = graph.node(group.head);
    if (!node.divides || node.inputs[0] == kNetworkInput) continue;
    const LayerExtent extent = extent_of(graph, node.group);
    for (int draw = 0; draw < 100; ++draw) {
      const CutPlace from{below(extent.inputs), 0}, to{from.channel + 1 + below(extent.inputs - from.channel), 0};
      const BlockList blocks = blocks_between(extent, Split::kInputChannels, from, to);
      ShardQuestion question;
      question.node = &node;
      question.blocks = blocks;
      question.period_seconds = 1e-5 * static_cast<double>(10 + below(90));
      question.off_chip = true;
      question.gradient_samples = 1;
      if (model->demand_of(question).amounts[0] > 1e20) continue;
      const double seconds = model->cost_of(question).seconds_per_sample;
      EXPECT_LE(seconds, question.period_seconds * (1 + 1e-6)) << node.layer.name << " [" << from.channel << ", " << to.channel << ")";
      close += seconds > 0.9 * question.period_seconds ? 1 : 0;
    }
  }
  EXPECT_GT(close, 20);
}

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
TEST(GeneratedEngines, LeastBuiltAreNoMoreThanWhatIsBuilt) {
  std::mt19937_64 random(41);
  int64_t ways_seen = 0, exact = 0, draws = 0;
  for (const char* name : {"vgg11-cifar", "resnet18-cifar", "alexnet"}) {
    const Graph graph(model_of(name));
    const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock, 900);
    const auto model = make_fpga_cost_model(testing_support::vc709(), {.wire = ElementType::kFixed16}, {}, engines);
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
        easier.streamed_words = StreamedWords::kLeastBuilt;
        const std::vector<ShardDemand> same = ways_of(*model, easier);
        const auto least_memory = [](const std::vector<ShardDemand>& ways) {
          return std::ranges::min(ways, {}, [](const ShardDemand& way) { return way.amounts[3]; }).amounts[3];
        };
        exact += least_memory(same) >= 0.99 * least_memory(built) ? 1 : 0;
        easier.period_seconds *= 1 + 0.002 * static_cast<double>(random() % 200);
        const auto streams = [&](double period) { return engines->engine_for(node, part.wide, period, kClock)->lanes; };
        if (streams(asked.period_seconds) != streams(easier.period_seconds)) easier.period_seconds = asked.period_seconds;
        if (draw % 2 == 0) easier.blocks = part.narrow;
        const std::vector<ShardDemand> least = ways_of(*model, easier);
        for (const ShardDemand& way : built) {
          ++ways_seen;
          EXPECT_TRUE(std::ranges::any_of(least, [&](const ShardDemand& other) { return none_above(other, way); }))
              << name << " " << node.layer.name << " draw " << draw;
        }
      }
    }
  }
  EXPECT_GT(ways_seen, 500);
  EXPECT_GT(exact, draws / 2) << "of " << draws;
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
      const std::optional<std::vector<EngineMemory>> found = engines.least_built(*smallest, {.off_chip = draw % 2 == 0});
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

// No more words are counted than move, of layers whose stride leaves fewer steps to errors than there are rows among them.
TEST(GeneratedEngines, CountTheWordsThatMove) {
  const Graph graph(find_model("resnet18-cifar"));
  const auto engines = std::make_shared<const GeneratedEngines>(graph, kClock, 900);
  const auto board = testing_support::vc709();
  const auto model = make_fpga_cost_model(board, {.wire = ElementType::kFixed16}, {}, engines);
  const double bandwidth = off_chip_bandwidth(model->inventory());
  int64_t strided = 0;
  for (const LayerGroup& group : graph.groups()) {
    const Node& node = graph.node(group.head);
    const auto* conv = std::get_if<Conv2d>(&node.layer.operation);
    if (conv == nullptr || !node.divides || node.inputs[0] == kNetworkInput) continue;
    strided += conv->stride_h > 1 ? 1 : 0;
    const LayerExtent extent = extent_of(graph, node.group);
    const BlockList all = blocks_between(extent, Split::kInputChannels, {0, 0}, {extent.inputs, 0});
    ShardQuestion question;
    question.node = &node;
    question.blocks = all;
    question.period_seconds = 5e-3;
    question.lifetime = 1;
    question.off_chip = true;
    question.gradient_samples = 1;
    question.streamed_words = StreamedWords::kBuilt;
    const ShardCost cost = model->cost_of(question);
    const double bytes = amount(cost.resources, kOffChipBytesPerSample);
    ASSERT_GT(bytes, 0) << node.layer.name;
    EXPECT_NEAR(model->demand_of(question).seconds, bytes / bandwidth, 1e-9 * bytes / bandwidth) << node.layer.name;
  }
  EXPECT_GT(strided, 2);
}

TEST(GeneratedEngines, KeepThePeriodOrSayThatTheyDoNot) {
  const Graph graph(find_model("alexnet"));
  const GeneratedEngines engines(graph, kClock);
  const Node& conv1 = graph.node(0);
  const auto slow = engines.engine_for(conv1, {}, 1e-3, kClock);
  ASSERT_TRUE(slow && slow->keeps_up);
  EXPECT_FALSE(slow->error_back);
  EXPECT_LE(std::max(slow->cycles.forward, slow->cycles.gradient), 200'000);
  EXPECT_LE(slow->stream_seconds, 1e-3);
  // A pixel of the image a cycle is the fastest that streams are.
  EXPECT_FALSE(engines.engine_for(conv1, {}, 227 * 227 / kClock / 2, kClock)->keeps_up);
}

// The mask of a large flattened map is drawn block by block.
TEST(GeneratedEngines, KeepStepWithDropoutBehindTheSum) {
  const Graph graph(find_model("alexnet-torch"));
  const GeneratedEngines engines(graph, kClock);
  const Node& conv5 = graph.node(graph.groups()[4].head);  // whose map is dropped from when it is flattened
  ASSERT_EQ(conv5.output.channels, 256);
  const auto slow = engines.engine_for(conv5, {}, 2e-3, kClock);
  ASSERT_TRUE(slow && slow->keeps_up);
  EXPECT_GT(slow->stream_seconds, 2e-4) << "9,216 elements, four to a block of the generator";
  EXPECT_FALSE(engines.engine_for(conv5, {}, 2e-4, kClock)->keeps_up);
}

// As the generator has it: the inputs of its groups, and sums of all outputs.
TEST(GeneratedEngines, OfAPartWithChannelGroupsHoldItsInputs) {
  const Graph graph(find_model("alexnet-grouped"));
  const GeneratedEngines engines(graph, kClock);
  const Node& conv5 = graph.node(graph.groups()[4].head);
  const BlockList half = blocks_between(extent_of(graph, conv5.group), Split::kOutputChannels, {0, 0}, {128, 0});
  const auto built = engines.engine_for(conv5, half, 1.152e-3, kClock);
  ASSERT_TRUE(built && built->keeps_up);
  EXPECT_EQ(built->held.inputs, 192);
  EXPECT_EQ(built->held.outputs, 256);
  EXPECT_EQ(built->held.groups, 1);
}

// Those that no board has the multipliers for are none.
TEST(GeneratedEngines, AreNoLargerThanBoards) {
  const Graph graph(find_model("vgg16"));
  const GeneratedEngines any(graph, kClock), small(graph, kClock, /*most_multipliers=*/300);
  const Node& conv2_2 = graph.node(graph.groups()[3].head);
  for (const double period : {1e-2, 3e-2, 0.1, 0.5}) {
    const auto wanted = any.engine_for(conv2_2, {}, period, kClock), found = small.engine_for(conv2_2, {}, period, kClock);
    ASSERT_TRUE(wanted && found && wanted->keeps_up);
    EXPECT_EQ(found->keeps_up, wanted->engine.tiles() * 9 <= 100) << period;
    if (found->keeps_up) {
      EXPECT_EQ(found->engine.tiles(), wanted->engine.tiles());
    }
  }
}

TEST(GeneratedEngines, AreThereForLayersThatHardwareIsGeneratedFor) {
  const Graph graph(find_model("resnet18"));
  const GeneratedEngines engines(graph, kClock);
  for (const Node& node : graph.nodes()) {
    const bool computes = std::holds_alternative<Conv2d>(node.layer.operation) || std::holds_alternative<Dense>(node.layer.operation);
    EXPECT_EQ(engines.engine_for(node, {}, 1, kClock).has_value(), computes) << node.layer.name;
  }
}

}  // namespace
}  // namespace millrace
