// How long an activation waits for its error, in a pipeline whose unit is a row.
//
//   std::vector<double> lifetimes = activation_lifetimes(graph, false);     // per group of the graph, in samples
//
// FPDeep's fine-grained pipeline begins a row as soon as the rows it depends on are there, so an input row of layer l is
// needed again, for PG, after L_l = sum over the layers j from l on of (lf_j + lb_j) samples, along the longest way to
// the network's end. A convolution lags (K-1-p)/Hin forward and p/Hin backward, a pooling (k-1)/H forward.
// Recurrent layers turn round at the sequence's end: errors of the first step come after the last step went forward,
// which adds one sample; a bidirectional layer waits for the whole sequence once more each way.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace millrace {

// `fc_barrier`: a fully connected layer needs the whole map before any error exists, which adds one sample, and fully connected
// layers work one after the other, each up to a sample there and one back, which adds two for each (the simulator, whose dense layers wait
// for whole maps, shows as much). FPDeep's figures hold without it only.
std::vector<double> activation_lifetimes(const Graph& graph, bool fc_barrier);

}  // namespace millrace
