#include "partitioner/study/topology.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "partitioner/hybrid/chain.h"

namespace millrace {
namespace {

// What a link carries of each stream, elements per image in the fuller direction.
struct Load {
  double elements = 0;
  std::string what;
};

// An undirected link between two boards.
using Ends = std::pair<int64_t, int64_t>;

class Wiring {
 public:
  void add(int64_t from, int64_t to, double elements, const std::string& what) {
    if (from == to) return;
    Load& load = loads_[std::minmax(from, to)];
    load.elements += elements;
    load.what += (load.what.empty() ? "" : " and ") + what;
  }

  TopologyCost cost(const TopologyRules& rules) const {
    std::map<int64_t, int64_t> degrees;
    for (const auto& [ends, load] : loads_) {
      ++degrees[ends.first];
      ++degrees[ends.second];
    }
    TopologyCost worst;
    for (const auto& [ends, load] : loads_) {
      const int64_t degree = std::max(degrees[ends.first], degrees[ends.second]);
      const double cost = load.elements * static_cast<double>(rules.element_bits) * static_cast<double>(degree) / rules.ports;
      if (cost <= worst.bits_per_port) continue;
      worst = {cost, fmt::format("board {} to board {}: {}", ends.first, ends.second, load.what), degree};
    }
    return worst;
  }

 private:
  std::map<Ends, Load> loads_;
};

std::vector<int64_t> dealt_out(const std::vector<TopologyLayer>& layers, int64_t boards) {
  double work = 0;
  for (const TopologyLayer& layer : layers) work += layer.work;
  std::vector<int64_t> counts;
  std::vector<double> remainders;
  for (const TopologyLayer& layer : layers) {
    const double share = layer.work / work * static_cast<double>(boards);
    counts.push_back(std::max<int64_t>(1, static_cast<int64_t>(std::floor(share + 1e-9))));
    remainders.push_back(share - static_cast<double>(counts.back()));
  }
  int64_t left = boards - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (; left > 0; --left) {
    const auto most = std::max_element(remainders.begin(), remainders.end(), [](double a, double b) { return a < b - 1e-9; });
    ++item(counts, most - remainders.begin());
    *most -= 1;
  }
  for (; left < 0; ++left) {  // layers too small for a board got one at others' cost
    size_t least = counts.size();
    for (size_t l = 0; l < counts.size(); ++l)
      if (counts[l] > 1 && (least == counts.size() || remainders[l] < remainders[least])) least = l;
    --counts[least];
    remainders[least] += 1;
  }
  return counts;
}

class Comparison {
 public:
  Comparison(const std::vector<TopologyLayer>& layers, std::vector<int64_t> counts, const TopologyRules& rules)
      : layers_(layers), counts_(std::move(counts)), rules_(rules) {
    int64_t first = 0;
    for (const int64_t count : counts_) {
      first_.push_back(first);
      first += count;
    }
  }

  TopologyCost in_a_row() const {
    Wiring wiring;
    for (size_t l = 0; l < layers_.size(); ++l) {
      const TopologyLayer& layer = layers_[l];
      for (int64_t board = 1; board < counts_[l]; ++board) {
        const double done = static_cast<double>(board) / static_cast<double>(counts_[l]);
        const double passing = layer.by_outputs ? layer.input : (1 - done) * layer.input;
        const double sums = layer.by_outputs ? done * layer.sum : layer.sum;
        wiring.add(first_[l] + board - 1, first_[l] + board, passing + sums,
                   fmt::format("inputs and {} of {}", layer.by_outputs ? "outputs" : "partial sums", layer.name));
      }
      if (l + 1 < layers_.size()) wiring.add(first_[l + 1] - 1, first_[l + 1], layer.output, "outputs of " + layer.name);
    }
    return wiring.cost(rules_);
  }

  // Each boundary's root is the last board of the layer before it or the first of the layer after it, which may be the same
  // board as its other boundary's or not: all choices are tried.
  TopologyCost in_stars() const {
    TopologyCost best;
    const size_t boundaries = layers_.size() - 1;
    for (size_t choice = 0; choice < (size_t{1} << boundaries); ++choice) {
      Wiring wiring;
      int64_t gathered_on = first_.back();
      for (size_t l = 0; l < boundaries; ++l) {
        const bool after = (choice >> l & 1) != 0;
        const int64_t root = after ? first_[l + 1] : first_[l] + counts_[l] - 1;
        add_star(wiring, l, root);
        if (l + 1 == boundaries && after) gathered_on = root;
      }
      add_gathering(wiring, layers_.size() - 1, gathered_on);
      const TopologyCost cost = wiring.cost(rules_);
      if (choice == 0 || cost.bits_per_port < best.bits_per_port) best = cost;
    }
    return best;
  }

 private:
  void add_gathering(Wiring& wiring, size_t layer, int64_t root) const {
    const TopologyLayer& here = layers_[layer];
    const auto count = static_cast<double>(counts_[layer]);
    for (int64_t board = 0; board < counts_[layer]; ++board)
      wiring.add(first_[layer] + board, root, here.by_outputs ? here.sum / count : here.sum,
                 fmt::format("{} of {}", here.by_outputs ? "outputs" : "partial sums", here.name));
  }

  void add_star(Wiring& wiring, size_t layer, int64_t root) const {
    const TopologyLayer& here = layers_[layer];
    const TopologyLayer& next = layers_[layer + 1];
    if (counts_[layer] > 1) {
      add_gathering(wiring, layer, root);
    } else {
      wiring.add(first_[layer], root, here.output, "outputs of " + here.name);  // nothing to add up
    }
    const double share = next.by_outputs ? here.output : here.output / static_cast<double>(counts_[layer + 1]);
    for (int64_t board = 0; board < counts_[layer + 1]; ++board)
      wiring.add(root, first_[layer + 1] + board, share, "inputs of " + next.name);
  }

  const std::vector<TopologyLayer>& layers_;
  std::vector<int64_t> counts_;
  const TopologyRules& rules_;
  std::vector<int64_t> first_;
};

}  // namespace

std::vector<TopologyLayer> topology_layers(const Graph& graph, const std::vector<std::string>& names) {
  if (names.empty()) fail(ErrorCode::kUsage, "a topology needs a layer at least");
  const Chain chain(graph);
  std::vector<TopologyLayer> layers;
  int64_t last_group = -1;
  for (const std::string& name : names) {
    const Node& head = graph.node(graph.index_of(name));
    if (!head.computes) fail(ErrorCode::kUsage, "layer \"{}\" has no weights, so there is nothing to share among boards", name);
    if (last_group >= 0 && head.group != last_group + 1)
      fail(ErrorCode::kUsage, "layer \"{}\" does not follow \"{}\" directly; name layers with weights in the model's order", name,
           layers.back().name);
    last_group = head.group;
    const LayerGroup& group = item(graph.groups(), head.group);
    layers.push_back({.name = name,
                      .input = static_cast<double>(head.work.input_elements),
                      .sum = static_cast<double>(sum_shape(head).elements()),
                      .output = static_cast<double>((group.after.empty() ? head : graph.node(group.after.back())).output.elements()),
                      .work = static_cast<double>(head.work.forward_macs),
                      .by_outputs = chain.split_of(head.group) == Split::kOutputChannels});
  }
  return layers;
}

TopologyComparison compare_topologies(const std::vector<TopologyLayer>& layers, int64_t boards, const TopologyRules& rules) {
  if (layers.size() > kMostTopologyLayers)
    fail(ErrorCode::kUsage, "{} layers are compared at most, not {}", kMostTopologyLayers, layers.size());
  if (boards < static_cast<int64_t>(layers.size()))
    fail(ErrorCode::kUsage, "{} layers need a board each at least, and there are {}", layers.size(), boards);
  if (!(rules.ports > 0) || !std::isfinite(rules.ports)) fail(ErrorCode::kUsage, "a board with {} ports has no links", rules.ports);
  for (const TopologyLayer& layer : layers)
    if (!(layer.work > 0) || !std::isfinite(layer.work)) fail(ErrorCode::kUsage, "layer \"{}\" has no work", layer.name);
  TopologyComparison comparison;
  comparison.boards = dealt_out(layers, boards);
  const Comparison wirings(layers, comparison.boards, rules);
  comparison.one = wirings.in_a_row();
  comparison.two = wirings.in_stars();
  return comparison;
}

}  // namespace millrace
