#include "partitioner/study/topology.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/base/error.h"
#include "core/graph/zoo.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Fig9 : public testing::Test {
 protected:
  TopologyComparison at(int64_t boards) const { return compare_topologies(layers_, boards, {.ports = 10, .element_bits = 16}); }

  const Graph graph_{zoo_model("vgg16")};
  const std::vector<TopologyLayer> layers_ = topology_layers(graph_, {"conv2_1", "conv2_2", "conv3_1"});
};

TEST_F(Fig9, DealsBoardsOutAsThePaperDoes) {
  EXPECT_THAT(at(4).boards, ElementsAre(1, 2, 1));
  EXPECT_THAT(at(5).boards, ElementsAre(1, 3, 1));
  EXPECT_THAT(at(8).boards, ElementsAre(2, 4, 2));
}

// In units of 64 channels of 112 x 112: conv2_2 takes 2 in and sums 2 up, so a quarter in, 1.5 and 2 pass, on five ports.
TEST_F(Fig9, OneDimensionByHand) {
  const double unit = 64.0 * 112 * 112 * 16;
  EXPECT_DOUBLE_EQ(at(8).one.bits_per_port, 3.5 * unit / 5);
  EXPECT_DOUBLE_EQ(at(4).one.bits_per_port, 3 * unit / 5);
  EXPECT_EQ(at(8).one.degree, 2);
}

// The root of conv2_1 has five links, two ports each.
TEST_F(Fig9, TwoDimensionsByHand) {
  const double unit = 64.0 * 112 * 112 * 16;
  EXPECT_DOUBLE_EQ(at(8).two.bits_per_port, 2 * unit / 2);
  EXPECT_EQ(at(8).two.degree, 5);
  EXPECT_THAT(at(8).two.bottleneck, HasSubstr("board 0 to board 1: partial sums of conv2_1"));
  EXPECT_DOUBLE_EQ(at(4).two.bits_per_port, 2 * unit / 5);
  EXPECT_EQ(at(4).two.degree, 2);
}

TEST_F(Fig9, RatiosOfTheFourSizes) {
  EXPECT_NEAR(at(4).ratio(), 0.67, 0.005);
  EXPECT_NEAR(at(5).ratio(), 0.90, 0.005);
  EXPECT_NEAR(at(6).ratio(), 1.20, 0.005);
  EXPECT_NEAR(at(8).ratio(), 1.43, 0.005);
}

TEST_F(Fig9, PortsScaleBothAlike) {
  EXPECT_DOUBLE_EQ(compare_topologies(layers_, 8, {.ports = 20}).ratio(), at(8).ratio());
  EXPECT_DOUBLE_EQ(compare_topologies(layers_, 8, {.ports = 20}).one.bits_per_port, at(8).one.bits_per_port / 2);
  EXPECT_DOUBLE_EQ(compare_topologies(layers_, 8, {.ports = 10, .element_bits = 32}).one.bits_per_port, 2 * at(8).one.bits_per_port);
}

TEST(TopologyLayers, TakeWhatTheModelSays) {
  const Graph graph(zoo_model("vgg16"));
  const std::vector<TopologyLayer> layers = topology_layers(graph, {"conv1_1", "conv1_2"});
  EXPECT_TRUE(layers[0].by_outputs);  // three channels of the image
  EXPECT_FALSE(layers[1].by_outputs);
  EXPECT_EQ(layers[1].input, 64 * 224 * 224);
  EXPECT_EQ(layers[1].sum, 64 * 224 * 224);
  EXPECT_EQ(layers[1].output, 64 * 112 * 112);  // pooled
}

TEST(TopologyLayers, MustFollowOneAnother) {
  const Graph graph(zoo_model("vgg16"));
  EXPECT_THROW(topology_layers(graph, {}), Error);
  EXPECT_THROW(topology_layers(graph, {"conv2_1", "conv3_1"}), Error);
  EXPECT_THROW(topology_layers(graph, {"conv2_2", "conv2_1"}), Error);
  EXPECT_THROW(topology_layers(graph, {"no such layer"}), Error);
  EXPECT_THROW(topology_layers(graph, {"pool1"}), Error);
}

TEST(Topologies, AreRefusedWhereTheyMakeNoSense) {
  const std::vector<TopologyLayer> three(3, {.name = "l", .input = 1, .sum = 1, .output = 1, .work = 1});
  EXPECT_THROW(compare_topologies(three, 2, {}), Error);
  EXPECT_THROW(compare_topologies(three, 4, {.ports = 0}), Error);
  EXPECT_THROW(compare_topologies(three, 4, {.ports = std::nan("")}), Error);
  EXPECT_THROW(compare_topologies(std::vector<TopologyLayer>(13, three[0]), 20, {}), Error);
  std::vector<TopologyLayer> idle = three;
  idle[1].work = 0;
  EXPECT_THROW(compare_topologies(idle, 4, {}), Error);
}

TEST(Topologies, OneBoardHasNoLinks) {
  const std::vector<TopologyLayer> one(1, {.name = "l", .input = 1, .sum = 1, .output = 1, .work = 1});
  EXPECT_EQ(compare_topologies(one, 1, {}).one.bits_per_port, 0);
  EXPECT_EQ(compare_topologies(one, 1, {}).ratio(), 0);
}

// Every board of the two layers as the root of every boundary, written down anew.
double least_star_cost(const std::vector<TopologyLayer>& layers, const std::vector<int64_t>& counts, double ports, double bits) {
  std::vector<int64_t> first{0};
  for (const int64_t count : counts) first.push_back(first.back() + count);
  double best = std::numeric_limits<double>::infinity();
  std::vector<int64_t> roots(layers.size());
  const auto cost = [&] {
    std::map<std::pair<int64_t, int64_t>, double> loads;
    const auto add = [&](int64_t a, int64_t b, double elements) {
      if (a != b) loads[{std::min(a, b), std::max(a, b)}] += elements;
    };
    for (size_t l = 0; l < layers.size(); ++l) {
      for (int64_t board = first[l]; board < first[l + 1]; ++board) {
        const double sums = layers[l].by_outputs ? layers[l].sum / static_cast<double>(counts[l]) : layers[l].sum;
        if (l + 1 < layers.size()) {
          add(board, roots[l], counts[l] == 1 ? layers[l].output : sums);
        } else {
          add(board, roots[l], sums);
        }
        if (l > 0)
          add(board, roots[l - 1], layers[l].by_outputs ? layers[l - 1].output : layers[l - 1].output / static_cast<double>(counts[l]));
      }
    }
    std::map<int64_t, double> degrees;
    for (const auto& [ends, elements] : loads) {
      ++degrees[ends.first];
      ++degrees[ends.second];
    }
    double worst = 0;
    for (const auto& [ends, elements] : loads)
      worst = std::max(worst, elements * bits * std::max(degrees[ends.first], degrees[ends.second]) / ports);
    return worst;
  };
  const std::function<void(size_t)> choose = [&](size_t l) {
    if (l + 1 == layers.size()) {  // the last sum is gathered on any board of its layer
      for (roots[l] = first[l]; roots[l] < first[l + 1]; ++roots[l]) best = std::min(best, cost());
      return;
    }
    for (int64_t root = first[l]; root < first[l + 2]; ++root) {
      roots[l] = root;
      choose(l + 1);
    }
  };
  choose(0);
  return best;
}

TEST(Topologies, NoOtherRootsAreBetterForTheFiguresOfThePaper) {
  const Graph graph(zoo_model("vgg16"));
  const std::vector<TopologyLayer> layers = topology_layers(graph, {"conv2_1", "conv2_2", "conv3_1"});
  for (int64_t boards = 3; boards <= 12; ++boards) {
    const TopologyComparison comparison = compare_topologies(layers, boards, {});
    EXPECT_DOUBLE_EQ(comparison.two.bits_per_port, least_star_cost(layers, comparison.boards, 10, 16)) << boards;
  }
}

TEST(Topologies, RootsOfDrawnChains) {
  std::mt19937_64 generator(9);
  const auto draw = [&](int64_t low, int64_t high) {
    return static_cast<double>(std::uniform_int_distribution<int64_t>(low, high)(generator));
  };
  int optimal = 0;
  constexpr int kChains = 60;
  for (int trial = 0; trial < kChains; ++trial) {
    std::vector<TopologyLayer> layers;
    for (int l = 0; l < 3; ++l)
      layers.push_back(
          {.name = "l", .input = draw(1, 20), .sum = draw(1, 20), .output = draw(1, 20), .work = draw(1, 9), .by_outputs = trial % 5 == l});
    const TopologyComparison comparison = compare_topologies(layers, 3 + trial % 6, {});
    const double least = least_star_cost(layers, comparison.boards, 10, 16);
    EXPECT_GE(comparison.two.bits_per_port, least * (1 - 1e-12));
    if (comparison.two.bits_per_port <= least * (1 + 1e-12)) ++optimal;
    int64_t boards = 0;
    for (const int64_t count : comparison.boards) {
      EXPECT_GE(count, 1);
      boards += count;
    }
    EXPECT_EQ(boards, 3 + trial % 6);
  }
  EXPECT_EQ(optimal, kChains);
}

}  // namespace
}  // namespace millrace
