// How long an activation waits for its error, in a pipeline whose unit is a row. Internal to partitioner/hybrid.
//
//   std::vector<double> lifetimes = activation_lifetimes(graph, {});        // per group of the graph, in samples
//
// FPDeep's fine-grained pipeline begins a row as soon as the rows it depends on are there, so an input row of layer l is
// needed again, for PG, after L_l = sum over the layers j from l on of (lf_j + lb_j) samples. Where ways join, the rows of the
// shorter one wait for the longer one, there and back. A convolution lags (K-1-p)/Hin forward and p/Hin backward, a pooling (k-1)/H
// forward. What strides lags backward too: the error of a pooled row takes as long as the s rows it came from, so that of the s rows it
// becomes the first is ready with it and the others, each in its turn, (s-1)/H later; more where a map's last rows share an error row.
// Without padding the last row of an output reads the last K rows of input, that many shares of a sample after they came.
// FPDeep's formulas leave both out, as they do the latency of the links to the ring's end and back, which the solver adds for each device:
// a ring of boards as full as they say would block. The simulator, which moves row by row, shows both. Recurrent layers turn round at the
// sequence's end: errors of the first step come after the last step went forward, which adds one sample, to layers behind them that work
// step by step as well; a bidirectional layer waits for the whole sequence once more each way.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace millrace {

struct LifetimeRules {
  // A fully connected layer needs the whole map before any error exists, which adds one sample, and fully connected layers
  // work one after the other, each up to a sample there and one back, which adds two for each (the simulator, whose dense
  // layers wait for whole maps, shows as much). FPDeep's figures hold without it only.
  bool fc_barrier = false;
  // Errors pass what strides in no time, as in FPDeep's formulas.
  bool instant_unpooling = false;
  // A map that shrinks because nothing is padded: its last rows of input wait for the last error, though they came early. Without
  // strides: with them rows come slowly enough (simulated).
  bool unpadded_ends = false;
  // No layer holds fewer rows, the one being filled among them, than come before the first error that lets go of one. The lags are of rows
  // that come evenly; where a stride is wider than its kernel, or padding makes a map grow, that is a row or two too few, and no error ever
  // comes. Rows that a stride steps over wait as all do, and go when the kernel moves on.
  bool least_rows = false;
};

// Of every group: rows of its input, of one sample, that wait at once before an error lets go of them, however late. Fewer would stand
// still.
std::vector<int64_t> least_rows_held(const Graph& graph, bool fc_barrier);

std::vector<double> activation_lifetimes(const Graph& graph, const LifetimeRules& rules);

}  // namespace millrace
