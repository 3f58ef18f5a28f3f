#include "node/simulate/blocks.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "node/simulate/compile_context.h"

namespace millrace::simulation {
namespace {

// What a message between ranks takes with the wait for its answer, in events: found by trying cuts of VGG-16 on 400 boards.
constexpr int64_t kEventsOfCrossing = 120;

struct Costs {
  std::vector<int64_t> weights;   // of each device
  std::vector<int64_t> crossing;  // of a cut before each
};

// Events of a sample, about: a start per unit, a departure and an arrival per message.
Costs costs_of(const Plan& plan, const Graph& graph, bool fc_barrier) {
  const RowCounts rows(graph, fc_barrier);
  std::vector<int64_t> weights(to_size(plan.devices()), 1);
  std::vector<int64_t> crossing(weights.size());
  bool streams = false;
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    for (const PhaseEngine& engine : shard.phases) {
      streams = streams || engine.multipliers > 0;
      item(weights, shard.device) += engine.multipliers > 0 ? units_of_plan(node, shard.unit, engine.phase) : 1;
    }
  }
  for (const Flow& flow : plan.flows) {
    int64_t messages = 1;
    if (carries_parameters(flow))
      messages = chunks_of(flow.elements_per_pass, plan);
    else if (streams)
      messages = rows.of(tensor_of(graph, flow).node);
    const Link& link = item(plan.links, flow.link);
    item(weights, link.from) += messages;
    item(weights, link.to) += messages;
    item(crossing, std::max(link.from, link.to)) += kEventsOfCrossing * messages;
  }
  return {std::move(weights), std::move(crossing)};
}

// Blocks of at most this weight, as many as it takes; each as long as it may be, but for one device left to each that follows.
std::vector<int64_t> blocks_within(const std::vector<int64_t>& weights, int64_t blocks, int64_t most) {
  std::vector<int64_t> begins{0};
  int64_t weight = 0;
  const auto devices = static_cast<int64_t>(weights.size());
  for (int64_t d = 0; d < devices; ++d) {
    const bool runs_short = devices - d <= blocks - static_cast<int64_t>(begins.size());
    if (d > begins.back() && (weight + item(weights, d) > most || runs_short)) {
      begins.push_back(d);
      weight = 0;
    }
    weight += item(weights, d);
  }
  begins.push_back(devices);
  return begins;
}

}  // namespace

std::vector<int64_t> even_blocks(const std::vector<int64_t>& weights, int64_t blocks) {
  int64_t low = *std::max_element(weights.begin(), weights.end());
  int64_t high = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<int64_t>(blocks_within(weights, blocks, middle).size()) - 1 <= blocks)
      high = middle;
    else
      low = middle + 1;
  }
  return blocks_within(weights, blocks, low);
}

std::vector<int64_t> with_cheaper_cuts(std::vector<int64_t> begins, const std::vector<int64_t>& weights,
                                       const std::vector<int64_t>& crossing) {
  std::vector<int64_t> before(weights.size() + 1);
  std::partial_sum(weights.begin(), weights.end(), before.begin() + 1);
  const auto sum = [&](int64_t from, int64_t to) { return item(before, to) - item(before, from); };
  for (size_t cut = 1; cut + 1 < begins.size(); ++cut) {
    const int64_t from = begins[cut - 1], to = begins[cut + 1];
    const auto cost = [&](int64_t at) { return std::max(sum(from, at), sum(at, to)) + item(crossing, at); };
    for (int64_t at = from + 1; at < to; ++at)
      if (cost(at) < cost(begins[cut])) begins[cut] = at;
  }
  return begins;
}

std::vector<int64_t> blocks_of(const Plan& plan, const Graph& graph, bool fc_barrier, int64_t ranks) {
  if (ranks > plan.devices())
    fail(ErrorCode::kUsage, "{} ranks for {} devices: every rank simulates one at least; start {}", ranks, plan.devices(), plan.devices());
  const Costs costs = costs_of(plan, graph, fc_barrier);
  return with_cheaper_cuts(even_blocks(costs.weights, ranks), costs.weights, costs.crossing);
}

}  // namespace millrace::simulation
