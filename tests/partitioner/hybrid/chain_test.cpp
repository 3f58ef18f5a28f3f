#include "partitioner/hybrid/chain.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/graph/zoo.h"
#include "core/plan/flows.h"
#include "partitioner/hybrid/cut_loads.h"
#include "tests/partitioner/hybrid/tiny_models.h"

namespace millrace {
namespace {

using testing_support::TinyInstances;

TEST(Chain, EveryPositionIsACutAndBack) {
  TinyInstances random(1);
  for (int i = 0; i < 100; ++i) {
    const Graph graph(random.model());
    const Chain chain(graph);
    Cut last{-1, 0, 0};
    for (int64_t position = 0; position <= chain.end(); ++position) {
      const Cut cut = chain.cut_at(position);
      EXPECT_GT(cut, last);
      EXPECT_EQ(chain.position_of(cut), position);
      last = cut;
    }
  }
}

TEST(Chain, PositionsOfTheZooAreCutsAndBack) {
  std::mt19937_64 generator(2);
  for (const std::string& name : zoo_names()) {
    const Graph graph(zoo_model(name));
    const Chain chain(graph);
    for (int i = 0; i < 50; ++i) {
      const int64_t position = std::uniform_int_distribution<int64_t>(0, chain.end())(generator);
      EXPECT_EQ(chain.position_of(chain.cut_at(position)), position) << name;
    }
  }
}

TEST(Chain, WholeChannelsEndWhereACutLeavesNoneInPart) {
  TinyInstances random(4);
  for (int i = 0; i < 100; ++i) {
    const Graph graph(random.model());
    const Chain chain(graph);
    int64_t last = -1;
    for (int64_t position = 0; position <= chain.end(); ++position) {
      EXPECT_EQ(chain.channel_end_before(position), last);
      const Cut cut = chain.cut_at(position);
      if (cut.outputs == 0 || chain.split_of(chain.group_at(position)) != Split::kInputChannels) last = position;
    }
  }
}

TEST(Chain, DividesTheImageByOutputsAndTheRestByInputs) {
  const Graph graph(zoo_model("vgg16"));
  const Chain chain(graph);
  EXPECT_EQ(chain.split_of(0), Split::kOutputChannels);
  EXPECT_EQ(chain.end_of(0), 64);
  for (int64_t g = 1; g < chain.groups(); ++g) EXPECT_EQ(chain.split_of(g), Split::kInputChannels);
  EXPECT_EQ(chain.end_of(1) - chain.begin_of(1), 64 * 64);
}

TEST(Chain, KeepsRecurrentLayersWhole) {
  const Graph graph(zoo_model("char-rnn"));
  const Chain chain(graph);
  for (int64_t g = 0; g < chain.groups(); ++g)
    EXPECT_FALSE(std::holds_alternative<Recurrent>(chain.head_of(g).layer.operation) && chain.divisible(g));
}

TEST(Chain, NamesTheLayerWhereACutCannotFall) {
  const Graph graph(zoo_model("vgg16"));
  const Chain chain(graph);
  EXPECT_THROW(chain.position_of({0, 64, 0}), Error);
  EXPECT_THROW(chain.position_of({0, 3, 1}), Error);
  EXPECT_THROW(chain.position_of({1, 3, 64}), Error);
  EXPECT_THROW(chain.position_of({1, -1, 0}), Error);
  EXPECT_EQ(chain.position_of({chain.groups(), 0, 0}), chain.end());
}

// The bits a plan of two devices moves over its link, cut at a position.
LinkBits bits_of_plan(const Graph& graph, const Chain& chain, int64_t position) {
  PlanRequest request{.cluster = uniform_cluster("cpu", 2)};
  const Cut cut = chain.cut_at(position);
  const Plan plan = assemble_plan(graph, request, shards_from_cuts(graph, std::span(&cut, 1), chain.splits()));
  LinkBits bits;
  for (const Flow& flow : plan.flows)
    (flow.direction == Direction::kForward ? bits.forward : bits.backward) += flow.elements_per_sample * bits_of(flow.wire);
  return bits;
}

TEST(CutLoads, AreWhatThePlanMoves) {
  TinyInstances random(3);
  for (int i = 0; i < 150; ++i) {
    const Graph graph(random.model());
    const Chain chain(graph);
    const CutLoads loads(chain, 32);
    for (int64_t position = 1; position < chain.end(); ++position) {
      const LinkBits expected = bits_of_plan(graph, chain, position);
      EXPECT_EQ(loads.at(position).forward, expected.forward) << "position " << position;
      EXPECT_EQ(loads.at(position).backward, expected.backward) << "position " << position;
    }
  }
}

TEST(CutLoads, AreWhatPlansOfTheZooMove) {
  std::mt19937_64 generator(4);
  for (const char* name : {"alexnet", "vgg16", "resnet18", "resnet50", "googlenet", "char-rnn", "deepspeech2-lstm"}) {
    const Graph graph(zoo_model(name));
    const Chain chain(graph);
    const CutLoads loads(chain, 32);
    for (int i = 0; i < 12; ++i) {
      const int64_t group = std::uniform_int_distribution<int64_t>(0, chain.groups() - 1)(generator);
      const int64_t position = std::uniform_int_distribution<int64_t>(
          std::max<int64_t>(chain.begin_of(group), 1), chain.end_of(group) - 1 + (chain.divisible(group) ? 0 : 1))(generator);
      if (position == chain.end()) continue;
      const LinkBits expected = bits_of_plan(graph, chain, position);
      EXPECT_EQ(loads.at(position).forward, expected.forward) << name << " position " << position;
      EXPECT_EQ(loads.at(position).backward, expected.backward) << name << " position " << position;
    }
  }
}

TEST(CutLoads, AllowWhatALookAtEveryPositionAllows) {
  TinyInstances random(5);
  for (int i = 0; i < 400; ++i) {
    const Graph graph(random.model());
    const Chain chain(graph);
    const CutLoads loads(chain, 16);
    const Link link{.forward_bits_per_second = random.between(1000, 20000),
                    .backward_bits_per_second = random.between(1000, 20000),
                    .shared_bits_per_second = random.chance(0.5) ? random.between(1000, 30000) : 0};
    const double seconds = random.real(0.05, 1);
    const int64_t quantum = random.between(1, 2);
    const int64_t first = random.between(0, chain.end());
    const int64_t last = random.between(first, chain.end());
    std::vector<int64_t> found;
    for (const Progression& run : loads.allowed(link, seconds, quantum, first, last))
      for (int64_t position = run.begin; position <= run.end; position += run.step) found.push_back(position);
    std::vector<int64_t> expected;
    for (int64_t position = first; position <= last; ++position) {
      if (seconds_on(link, loads.at(position)) > seconds) continue;
      const Cut cut = chain.cut_at(position);
      const bool boundary = cut.channel == 0 && cut.outputs == 0;
      const bool granular = quantum == 1 || (cut.channel % quantum == 0 && cut.outputs == 0);
      if (boundary || granular) expected.push_back(position);
    }
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace millrace
