// Which rows of what a layer reads must be there before a row of what it makes can be made: kernels, strides, padding
// and pooling as tables of counts: what the simulator moves by, and the planner reckons Act-RAM with.
//
//   const RowCounts rows(graph, /*fc_barrier=*/false);
//   const RowTable needs = forward_needs(rows, node, 0);             // needs[r]: input rows before output row r
//   const RowTable both = compose(needs_of_pool, needs_of_conv);     // through a layer that takes no time
//
// A need is a count: row r needs the first needs[r] rows of a sample. Tables never fall.
// Errors walk from the last layer to the first. Where a recurrent layer is in the network they walk each sample's rows from
// the last to the first; position j then is row height - 1 - j, and tables count positions.
//
// Without the barrier, what follows a feature map that is flattened or pooled to one pixel streams on in that map's rows, as
// FPDeep's formulas assume; with it, such layers wait for the whole map. Pure functions of the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/index.h"
#include "core/graph/graph.h"

namespace millrace {

using RowTable = std::vector<int32_t>;

class RowCounts {
 public:
  RowCounts(const Graph& graph, bool fc_barrier);

  const Graph& graph() const { return *graph_; }
  // Rows that one sample of the node's output streams in; of the network's input for kNetworkInput.
  int32_t of(int64_t node) const { return node == kNetworkInput ? input_ : item(rows_, node); }
  bool errors_descend() const { return errors_descend_; }

 private:
  const Graph* graph_;
  int32_t input_ = 1;
  std::vector<int32_t> rows_;
  bool errors_descend_ = false;
};

// Rows of input number `input` before each row of the node's output.
RowTable forward_needs(const RowCounts& rows, int64_t node, size_t input);
// Positions of the output's error before each position of the error of input number `input`.
RowTable backward_needs(const RowCounts& rows, int64_t node, size_t input);
// At the loss: rows of the scores before each position of their error.
RowTable turning_needs(const RowCounts& rows, int64_t node);
// Rows of the first input that nobody needs any more once each row of the output has been walked past, from the first to the
// last or the other way.
RowTable released_rows(const RowCounts& rows, int64_t node, bool descending);
// Rows of one output row that reach into the input at once.
int32_t reach_of(const Node& node);

// Rows that lie ready before they are needed when `above` rows come evenly while the table's rows are made evenly.
int64_t unevenness_of(const RowTable& table, int32_t above);

// outer: in rows of something between; inner: what those need.
RowTable compose(const RowTable& outer, const RowTable& inner);
RowTable identity_rows(int32_t rows);

}  // namespace millrace
