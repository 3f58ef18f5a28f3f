// One-dimensional against two-dimensional interconnect, as FPDeep's section 4.2 and its Figs 9 and 10 compare them.
//
//   const std::vector<TopologyLayer> layers = topology_layers(graph, {"conv2_1", "conv2_2", "conv3_1"});
//   const TopologyComparison cost = compare_topologies(layers, /*boards=*/8, {.ports = 10, .element_bits = 16});
//   cost.ratio();                            // 1.43: the chain is better; below 1 the two-dimensional one is
//   cost.two.bottleneck;                     // "board 0 to board 1: partial sums of conv2_1"
//
// Boards are dealt out to layers in proportion to their work, each layer one at least, what is left to the largest
// remainders: 2-4-2 of eight. A layer's boards share its channels equally. A board divides its ports equally among its
// links, in fractions; a link has the smaller share of its two ends. The cost of a topology is the largest of
// bits per image and direction over ports, over all links: the time of an image on the slowest link.
//   1-D   the boards in a row. A link inside a layer carries the channels still to be used and the partial sums (flows.h);
//         between layers the pooled output; errors the same backwards.
//   2-D   between two consecutive layers a star: all boards of both around one root, a board of either, which adds up
//         the partial sums of the first layer, applies what follows the sum, and deals the channels out to the boards of the
//         second; errors go the other way. Of all choices of roots the one with the least cost is taken (for FPDeep's
//         eight boards the last of conv2_1 and one of conv3_1: five links each). The last layer's sum is gathered on its
//         first root, or its first board.
// Limits: a chain without branches; at most kMostTopologyLayers layers. Plain values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace millrace {

inline constexpr size_t kMostTopologyLayers = 12;

struct TopologyLayer {
  std::string name;
  double input = 0;   // elements that come in
  double sum = 0;     // of the raw sum, before what follows
  double output = 0;  // that go to the next layer
  double work = 0;    // any unit
  bool by_outputs = false;
};

struct TopologyRules {
  double ports = 10;
  int64_t element_bits = 16;
};

struct TopologyCost {
  double bits_per_port = 0;  // per image, on the slowest link
  std::string bottleneck;
  int64_t degree = 0;  // the larger number of links of its two ends
};

struct TopologyComparison {
  std::vector<int64_t> boards;  // per layer
  TopologyCost one;
  TopologyCost two;
  double ratio() const { return one.bits_per_port > 0 ? two.bits_per_port / one.bits_per_port : 0; }
};

// Consecutive layers that compute, by name. Fails with kUsage when they do not follow one another in a plain chain.
std::vector<TopologyLayer> topology_layers(const Graph& graph, const std::vector<std::string>& names);
// Fails with kUsage when there are fewer boards than layers, or no ports.
TopologyComparison compare_topologies(const std::vector<TopologyLayer>& layers, int64_t boards, const TopologyRules& rules);

}  // namespace millrace
