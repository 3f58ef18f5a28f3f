// How many rows of a layer's tensor belong to a sample that does not fill the network's input: sequences of unequal
// length are padded to the model's height, and what lies behind their last row is to be left out.
//
//   const StepMap map = step_map_of(graph, node);
//   const int64_t steps = map.steps(length);                   // length: valid rows of the network's input
//
// Convolutions and poolings shorten a sample of `length` rows to what they would make of it alone; flatten, global
// pooling and last_step leave one row. 0 rows stay 0. Where a layer has several inputs the first one counts.
// Plain values, copied freely.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/graph/graph.h"

namespace millrace {

struct StepMap {
  std::vector<SlidingWindow> windows;                  // in the order the data passes them
  int64_t full = std::numeric_limits<int32_t>::max();  // rows of a sample that fills the input
  bool single = false;                                 // the rows have ended in one

  // Between 1 and `full`; 0 for 0.
  int64_t steps(int64_t length) const;
  bool operator==(const StepMap&) const = default;
};

// Of the node's output; of the network's input itself for kNetworkInput.
StepMap step_map_of(const Graph& graph, int64_t node);

}  // namespace millrace
