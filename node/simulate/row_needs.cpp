#include "node/simulate/row_needs.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/check.h"

namespace millrace::simulation {
namespace {

struct Window {
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};

// Layers that wait for more than their own row: true with a window, false where a row of output needs the same row of input.
bool window_of(const Node& node, Window& window) {
  if (const auto* conv = std::get_if<Conv2d>(&node.layer.operation)) {
    window = {conv->kernel_h, conv->stride_h, conv->pad_h, conv->dilation_h};
    return true;
  }
  if (const auto* pool = std::get_if<Pool2d>(&node.layer.operation)) {
    window = {pool->kernel_h, pool->stride_h, pool->pad_h, 1};
    return true;
  }
  return false;
}

bool bidirectional(const Node& node) {
  const auto* recurrent = std::get_if<Recurrent>(&node.layer.operation);
  return recurrent != nullptr && recurrent->bidirectional;
}

int32_t height_of(const Graph& graph, int64_t node) { return static_cast<int32_t>(graph.shape_of(node).height); }

// The rows are those of the tensor itself, so that kernels act on them.
bool real_rows(const RowCounts& rows, int64_t node) { return rows.of(node) == height_of(rows.graph(), node); }

bool acts_on_rows(const RowCounts& rows, int64_t node, size_t input, Window& window) {
  const Node& layer = rows.graph().node(node);
  return window_of(layer, window) && real_rows(rows, node) && real_rows(rows, layer.inputs[input]);
}

}  // namespace

RowCounts::RowCounts(const Graph& graph, bool fc_barrier) : graph_(&graph), input_(height_of(graph, kNetworkInput)) {
  rows_.resize(graph.nodes().size(), 1);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const int64_t from = node.inputs.empty() ? kNetworkInput : node.inputs.front();
    const auto height = static_cast<int32_t>(node.output.height);
    const Operation& operation = node.layer.operation;
    // What ends a feature map, and what follows it; a kernel that covers a map's whole height waits for it as kernels do.
    const bool ends_map = std::holds_alternative<Flatten>(operation) || std::holds_alternative<GlobalPool>(operation);
    const bool follows = of(from) != height_of(graph, from) && !std::holds_alternative<LastStep>(operation);
    const bool collapses = height == 1 && (ends_map || follows);
    rows_[i] = collapses && !fc_barrier ? of(from) : height;
    errors_descend_ = errors_descend_ || std::holds_alternative<Recurrent>(node.layer.operation);
  }
}

RowTable identity_rows(int32_t rows) {
  RowTable table(static_cast<size_t>(rows));
  std::iota(table.begin(), table.end(), 1);
  return table;
}

RowTable forward_needs(const RowCounts& rows, int64_t node, size_t input) {
  const Node& layer = rows.graph().node(node);
  const int32_t above = rows.of(layer.inputs[input]);
  const int32_t here = rows.of(node);
  Window window;
  if (acts_on_rows(rows, node, input, window)) {
    RowTable table(static_cast<size_t>(here));
    for (int64_t r = 0; r < here; ++r)
      table[static_cast<size_t>(r)] = static_cast<int32_t>(std::clamp<int64_t>(r * window.stride - window.pad + window.reach(), 1, above));
    return table;
  }
  if (above == here && !bidirectional(layer)) return identity_rows(here);
  return RowTable(static_cast<size_t>(here), above);
}

RowTable backward_needs(const RowCounts& rows, int64_t node, size_t input) {
  const Node& layer = rows.graph().node(node);
  const int32_t above = rows.of(layer.inputs[input]);
  const int32_t here = rows.of(node);
  Window window;
  if (acts_on_rows(rows, node, input, window)) {
    RowTable table(static_cast<size_t>(above));
    for (int64_t j = 0; j < above; ++j) {
      int64_t need = 0;
      if (rows.errors_descend()) {
        const int64_t row = above - 1 - j;
        const int64_t first = (std::max<int64_t>(0, row + window.pad - window.reach() + 1) + window.stride - 1) / window.stride;
        need = here - std::min<int64_t>(first, here - 1);
      } else {
        need = (j + window.pad) / window.stride + 1;
      }
      table[static_cast<size_t>(j)] = static_cast<int32_t>(std::clamp<int64_t>(need, 1, here));
    }
    return table;
  }
  if (above == here && !bidirectional(layer)) return identity_rows(here);
  return RowTable(static_cast<size_t>(above), here);
}

RowTable turning_needs(const RowCounts& rows, int64_t node) {
  const int32_t here = rows.of(node);
  return rows.errors_descend() ? RowTable(static_cast<size_t>(here), here) : identity_rows(here);
}

RowTable released_rows(const RowCounts& rows, int64_t node, bool descending) {
  const Node& layer = rows.graph().node(node);
  const int32_t above = rows.of(layer.inputs.front());
  const int32_t here = rows.of(node);
  RowTable table(static_cast<size_t>(here), 0);
  Window window;
  const bool acts = acts_on_rows(rows, node, 0, window);
  for (int64_t j = 0; j < here; ++j) {
    int64_t released = 0;
    if (acts && descending) {
      released = above - std::max<int64_t>(0, (here - 1 - j) * window.stride - window.pad);
    } else if (acts) {
      released = (j + 1) * window.stride - window.pad;
    } else if (above == here && !bidirectional(layer)) {
      released = j + 1;
    }
    table[static_cast<size_t>(j)] = static_cast<int32_t>(std::clamp<int64_t>(released, 0, above));
  }
  table.back() = above;
  return table;
}

int32_t reach_of(const Node& node) {
  Window window;
  return window_of(node, window) ? static_cast<int32_t>(window.reach()) : 1;
}

int64_t unevenness_of(const RowTable& table, int32_t above) {
  // In parts of a row: need - r * above / rows, least and most.
  const auto rows = static_cast<int64_t>(table.size());
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = std::numeric_limits<int64_t>::min();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t ahead = table[static_cast<size_t>(r)] * rows - r * above;
    least = std::min(least, ahead);
    most = std::max(most, ahead);
  }
  return (most - least + rows - 1) / rows;
}

RowTable compose(const RowTable& outer, const RowTable& inner) {
  RowTable table(outer.size());
  for (size_t r = 0; r < outer.size(); ++r) {
    MILLRACE_CHECK(outer[r] >= 0 && outer[r] <= static_cast<int32_t>(inner.size()), "row {} needs {} of {} rows", r, outer[r],
                   inner.size());
    table[r] = outer[r] == 0 ? 0 : inner[static_cast<size_t>(outer[r] - 1)];
  }
  return table;
}

}  // namespace millrace::simulation
