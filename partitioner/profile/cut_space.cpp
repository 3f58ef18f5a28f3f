#include "partitioner/profile/cut_space.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace millrace {

std::vector<int64_t> CutSpace::nodes_between(int64_t earlier, int64_t later) const {
  std::vector<int64_t> between;
  if (members.empty()) {
    for (int64_t node = nodes[static_cast<size_t>(earlier)]; node < nodes[static_cast<size_t>(later)]; ++node) between.push_back(node);
    return between;
  }
  for (size_t w = 0; w < words; ++w) {
    uint64_t added = members[static_cast<size_t>(later) * words + w] & ~members[static_cast<size_t>(earlier) * words + w];
    for (; added != 0; added &= added - 1) between.push_back(static_cast<int64_t>(64 * w) + std::countr_zero(added));
  }
  return between;
}

CutSpace CutSpace::in_order_of(const std::vector<double>& amount) const {
  std::vector<size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::pair(amount[a], nodes[a]) < std::pair(amount[b], nodes[b]); });
  CutSpace sorted;
  sorted.kind = kind;
  sorted.words = words;
  for (const size_t cut : order) {
    sorted.seconds.push_back(seconds[cut]);
    sorted.parameter_bytes.push_back(parameter_bytes[cut]);
    sorted.activation_bytes.push_back(activation_bytes[cut]);
    sorted.nodes.push_back(nodes[cut]);
    sorted.crossing_bytes.push_back(crossing_bytes[cut]);
    if (!members.empty()) sorted.members.insert(sorted.members.end(), &members[cut * words], &members[cut * words] + words);
  }
  return sorted;
}

}  // namespace millrace
