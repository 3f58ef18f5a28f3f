#include "core/graph/step_map.h"

#include <algorithm>

namespace millrace {

namespace {

// The window of an operation that slides over rows.
struct WindowOf {
  StepMap& map;

  void operator()(const Conv2d& conv) const { map.windows.push_back({conv.kernel_h, conv.stride_h, conv.pad_h, conv.dilation_h}); }
  void operator()(const Pool2d& pool) const { map.windows.push_back({pool.kernel_h, pool.stride_h, pool.pad_h, 1, pool.ceil_mode}); }
  void operator()(const Flatten&) const { map.single = true; }
  void operator()(const GlobalPool&) const { map.single = true; }
  void operator()(const LastStep&) const { map.single = true; }
  template <typename Other>
  void operator()(const Other&) const {}
};

// As core/graph/shapes.cpp counts positions; a window that does not fit counts as one.
int64_t positions(const StepWindow& window, int64_t rows) {
  const int64_t reach = window.dilation * (window.kernel - 1) + 1;
  const int64_t beyond = rows + 2 * window.pad - reach;
  if (beyond < 0) return 1;
  if (!window.rounds_up) return beyond / window.stride + 1;
  const int64_t count = (beyond + window.stride - 1) / window.stride + 1;
  return (count - 1) * window.stride >= rows + window.pad ? count - 1 : count;
}

}  // namespace

int64_t StepMap::steps(int64_t length) const {
  if (length <= 0) return 0;
  if (single) return std::min<int64_t>(1, full);
  for (const StepWindow& window : windows) length = positions(window, length);
  return std::clamp<int64_t>(length, 1, full);
}

StepMap step_map_of(const Graph& graph, int64_t node) {
  std::vector<int64_t> path;
  for (int64_t at = node; at != kNetworkInput; at = graph.node(at).inputs[0]) path.push_back(at);
  StepMap map;
  map.full = graph.shape_of(node).height;
  for (auto at = path.rbegin(); at != path.rend(); ++at) std::visit(WindowOf{map}, graph.node(*at).layer.operation);
  return map;
}

}  // namespace millrace
