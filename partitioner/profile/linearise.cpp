#include "partitioner/profile/linearise.h"

#include <algorithm>
#include <queue>

#include "core/base/index.h"
#include "partitioner/profile/profile_text.h"

namespace millrace {

std::vector<int64_t> topological_order(std::span<const ProfileNode> nodes, std::span<const ProfileEdge> edges) {
  std::vector<size_t> by_name(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) by_name[i] = i;
  std::sort(by_name.begin(), by_name.end(), [&](size_t a, size_t b) { return natural_less(nodes[a].name, nodes[b].name); });
  std::vector<size_t> rank(nodes.size());
  for (size_t r = 0; r < by_name.size(); ++r) rank[by_name[r]] = r;

  std::vector<std::vector<size_t>> takers(nodes.size());
  std::vector<int64_t> waits_for(nodes.size(), 0);
  for (const ProfileEdge& edge : edges) {
    item(takers, edge.from).push_back(to_size(edge.to));
    ++item(waits_for, edge.to);
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;  // ranks
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits_for[i] == 0) ready.push(rank[i]);
  std::vector<int64_t> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const size_t node = by_name[ready.top()];
    ready.pop();
    order.push_back(static_cast<int64_t>(node));
    for (const size_t taker : takers[node])
      if (--waits_for[taker] == 0) ready.push(rank[taker]);
  }
  return order;
}

std::vector<double> crossing_bytes(const Profile& profile) {
  const auto size = to_size(profile.size());
  std::vector<size_t> last_taker(size, 0);
  for (const ProfileEdge& edge : profile.edges) {
    size_t& last = item(last_taker, edge.from);
    last = std::max(last, to_size(edge.to));
  }
  // Summed anew at each cut rather than added to and taken from: no remainder is left of tensors long gone.
  std::vector<double> crossing(size + 1, 0);
  std::vector<size_t> alive;
  for (size_t cut = 1; cut < size; ++cut) {
    alive.push_back(cut - 1);
    std::erase_if(alive, [&](size_t node) { return last_taker[node] < cut; });
    for (const size_t node : alive) crossing[cut] += profile.nodes[node].out_bytes;
  }
  return crossing;
}

Profile linearised(const Profile& profile) {
  Profile chain = profile;
  const std::vector<double> crossing = crossing_bytes(profile);
  chain.edges.clear();
  for (size_t i = 0; i < chain.nodes.size(); ++i) {
    chain.nodes[i].out_bytes = crossing[i + 1];
    if (i > 0) chain.edges.push_back({static_cast<int64_t>(i) - 1, static_cast<int64_t>(i)});
  }
  return chain;
}

CutSpace linear_cuts(const Profile& profile) {
  CutSpace cuts;
  cuts.kind = profile.is_chain() ? CutKind::kChain : CutKind::kLinearised;
  cuts.crossing_bytes = crossing_bytes(profile);
  // Long double, so that differences of two of them are as good as sums.
  long double seconds = 0;
  double parameter_bytes = 0;
  double activation_bytes = 0;
  for (int64_t cut = 0; cut <= profile.size(); ++cut) {
    cuts.seconds.push_back(static_cast<double>(seconds));
    cuts.parameter_bytes.push_back(parameter_bytes);
    cuts.activation_bytes.push_back(activation_bytes);
    cuts.nodes.push_back(cut);
    if (cut == profile.size()) break;
    const ProfileNode& node = item(profile.nodes, cut);
    seconds += node.seconds();
    parameter_bytes += node.parameter_bytes;
    activation_bytes += node.activation_bytes;
  }
  return cuts;
}

}  // namespace millrace
