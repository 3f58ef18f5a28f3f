#include "partitioner/profile/cut_space.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/base/index.h"

namespace millrace {

std::vector<int64_t> CutSpace::nodes_between(int64_t earlier, int64_t later) const {
  std::vector<int64_t> between;
  if (members.empty()) {
    for (int64_t node = item(nodes, earlier); node < item(nodes, later); ++node) between.push_back(node);
    return between;
  }
  for (size_t w = 0; w < words; ++w) {
    uint64_t added = members[to_size(later) * words + w] & ~members[to_size(earlier) * words + w];
    for (; added != 0; added &= added - 1) between.push_back(static_cast<int64_t>(64 * w) + std::countr_zero(added));
  }
  return between;
}

CutSpace CutSpace::picked(const std::vector<size_t>& which) const {
  CutSpace chosen;
  chosen.kind = kind;
  chosen.words = words;
  for (const size_t cut : which) {
    chosen.seconds.push_back(seconds[cut]);
    chosen.parameter_bytes.push_back(parameter_bytes[cut]);
    chosen.activation_bytes.push_back(activation_bytes[cut]);
    chosen.nodes.push_back(nodes[cut]);
    chosen.crossing_bytes.push_back(crossing_bytes[cut]);
    if (!members.empty()) chosen.members.insert(chosen.members.end(), &members[cut * words], &members[cut * words] + words);
  }
  return chosen;
}

CutSpace CutSpace::in_order_of(const std::vector<double>& amount) const {
  std::vector<size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::pair(amount[a], nodes[a]) < std::pair(amount[b], nodes[b]); });
  return picked(order);
}

CutSpace CutSpace::only(const std::vector<bool>& kept) const {
  std::vector<size_t> which;
  for (size_t cut = 0; cut < kept.size(); ++cut)
    if (kept[cut]) which.push_back(cut);
  return picked(which);
}

}  // namespace millrace
