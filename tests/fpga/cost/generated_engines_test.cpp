#include "fpga/cost/generated_engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/graph/zoo.h"
#include "core/plan/cuts.h"
#include "core/plan/off_chip.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "fpga/cost/fpga_cost_model.h"
#include "tests/fpga/cost/amounts.h"
#include "tests/fpga/cost/boards.h"
#include "tests/fpga/cost/engine_models.h"

namespace millrace {
namespace {

using testing_support::kClock;
using testing_support::model_of;

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
