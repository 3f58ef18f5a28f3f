#include "core/graph/row_needs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {
namespace {

// Layers that wait for more than their own row; nothing where a row of output needs the same row of input.
std::optional<SlidingWindow> window_of(const Node& node) { return traits_of(node.layer.operation).row_window; }

// Every row waits for all of them, there and back.
bool waits_for_all(const Node& node) { return traits_of(node.layer.operation).rows == Rows::kEvery; }

int32_t height_of(const Graph& graph, int64_t node) { return static_cast<int32_t>(graph.shape_of(node).height); }

// The rows are those of the tensor itself, so that kernels act on them.
bool real_rows(const RowCounts& rows, int64_t node) { return rows.of(node) == height_of(rows.graph(), node); }

// The window that acts on the rows of this input.
std::optional<SlidingWindow> window_on_rows(const RowCounts& rows, int64_t node, size_t input) {
  const Node& layer = rows.graph().node(node);
  if (!real_rows(rows, node) || !real_rows(rows, layer.inputs[input])) return std::nullopt;
  return window_of(layer);
}

}  // namespace

RowCounts::RowCounts(const Graph& graph, bool fc_barrier) : graph_(&graph), input_(height_of(graph, kNetworkInput)) {
  rows_.resize(graph.nodes().size(), 1);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const int64_t from = node.inputs.empty() ? kNetworkInput : node.inputs.front();
    const auto height = static_cast<int32_t>(node.output.height);
    const Traits traits = traits_of(node.layer.operation);
    // What ends a feature map, and what follows it; a kernel that covers a map's whole height waits for it as kernels do.
    const bool ends_map = traits.rows == Rows::kAll;
    const bool follows = of(from) != height_of(graph, from) && traits.rows != Rows::kLast;
    const bool collapses = height == 1 && (ends_map || follows);
    rows_[i] = collapses && !fc_barrier ? of(from) : height;
    errors_descend_ = errors_descend_ || role_of(node.layer.operation) == Role::kRecurrence;
  }
}

RowTable identity_rows(int32_t rows) {
  RowTable table(to_size(rows));
  std::iota(table.begin(), table.end(), 1);
  return table;
}

RowTable forward_needs(const RowCounts& rows, int64_t node, size_t input) {
  const Node& layer = rows.graph().node(node);
  const int32_t above = rows.of(layer.inputs[input]);
  const int32_t here = rows.of(node);
  if (const auto window = window_on_rows(rows, node, input)) {
    RowTable table(to_size(here));
    for (int64_t r = 0; r < here; ++r) item(table, r) = static_cast<int32_t>(std::clamp<int64_t>(window->end_input(r), 1, above));
    return table;
  }
  if (above == here && !waits_for_all(layer)) return identity_rows(here);
  return RowTable(to_size(here), above);
}

RowTable backward_needs(const RowCounts& rows, int64_t node, size_t input) {
  const Node& layer = rows.graph().node(node);
  const int32_t above = rows.of(layer.inputs[input]);
  const int32_t here = rows.of(node);
  if (const auto window = window_on_rows(rows, node, input)) {
    RowTable table(to_size(above));
    for (int64_t j = 0; j < above; ++j) {
      int64_t need = 0;
      if (rows.errors_descend()) {
        const int64_t row = above - 1 - j;
        need = here - std::min<int64_t>(window->first_output(row), here - 1);
      } else {
        need = window->begun_outputs(j);
      }
      item(table, j) = static_cast<int32_t>(std::clamp<int64_t>(need, 1, here));
    }
    return table;
  }
  if (above == here && !waits_for_all(layer)) return identity_rows(here);
  return RowTable(to_size(above), here);
}

RowTable turning_needs(const RowCounts& rows, int64_t node) {
  const int32_t here = rows.of(node);
  return rows.errors_descend() ? RowTable(to_size(here), here) : identity_rows(here);
}

RowTable released_rows(const RowCounts& rows, int64_t node, bool descending) {
  const Node& layer = rows.graph().node(node);
  const int32_t above = rows.of(layer.inputs.front());
  const int32_t here = rows.of(node);
  RowTable table(to_size(here), 0);
  const auto window = window_on_rows(rows, node, 0);
  for (int64_t j = 0; j < here; ++j) {
    int64_t released = 0;
    if (window && descending) {
      released = above - std::max<int64_t>(0, window->first_input(here - 1 - j));
    } else if (window) {
      released = window->first_input(j + 1);
    } else if (above == here && !waits_for_all(layer)) {
      released = j + 1;
    }
    item(table, j) = static_cast<int32_t>(std::clamp<int64_t>(released, 0, above));
  }
  table.back() = above;
  return table;
}

int32_t reach_of(const Node& node) {
  const auto window = window_of(node);
  return window ? static_cast<int32_t>(window->reach()) : 1;
}

int64_t unevenness_of(const RowTable& table, int32_t above) {
  // In parts of a row: need - r * above / rows, least and most.
  const auto rows = static_cast<int64_t>(table.size());
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = std::numeric_limits<int64_t>::min();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t ahead = item(table, r) * rows - r * above;
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
    table[r] = outer[r] == 0 ? 0 : item(inner, outer[r] - 1);
  }
  return table;
}

}  // namespace millrace
