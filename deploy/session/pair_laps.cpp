#include "deploy/session/pair_laps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/documents/cluster.h"

namespace millrace {

std::string with_laps(const std::string& cluster, const std::string& laps, const Graph& graph) {
  if (laps.empty()) return cluster;
  if (laps_of(cluster).second > 0)
    fail(ErrorCode::kUsage, "cluster \"{}\" says how many laps there are; leave --laps {} out", cluster, laps);
  const auto recurrent = [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; };
  const auto layers = static_cast<int64_t>(std::ranges::count_if(graph.nodes(), recurrent));
  int64_t count = std::max<int64_t>(1, layers);
  if (laps != "auto") {
    const auto [end, error] = std::from_chars(laps.data(), laps.data() + laps.size(), count);
    if (error != std::errc{} || end != laps.data() + laps.size() || count < 1)
      fail(ErrorCode::kUsage, "--laps \"{}\": give a number of laps from 1 on, or auto", laps);
  }
  if (count > layers && layers > 0)
    fail(ErrorCode::kUsage, "--laps {}: {} has {} recurrent layer{}, and places would be left empty; give {} at most, or auto", count,
         graph.model().name, layers, layers == 1 ? "" : "s", layers);
  return fmt::format("{}~{}", cluster, count);
}

}  // namespace millrace
