#include "core/graph/step_map.h"

#include <algorithm>

namespace millrace {

int64_t StepMap::steps(int64_t length) const {
  if (length <= 0) return 0;
  if (single) return std::min<int64_t>(1, full);
  // A window that does not fit counts as one.
  for (const SlidingWindow& window : windows) length = window.fits(length) ? window.positions(length) : 1;
  return std::clamp<int64_t>(length, 1, full);
}

StepMap step_map_of(const Graph& graph, int64_t node) {
  std::vector<int64_t> path;
  for (int64_t at = node; at != kNetworkInput; at = graph.node(at).inputs[0]) path.push_back(at);
  StepMap map;
  map.full = graph.shape_of(node).height;
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const Traits traits = traits_of(graph.node(*at).layer.operation);
    if (traits.row_window) map.windows.push_back(*traits.row_window);
    map.single = map.single || traits.rows == Rows::kAll || traits.rows == Rows::kLast;
  }
  return map;
}

}  // namespace millrace
