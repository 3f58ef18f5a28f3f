// Which convolutions stream their weights from the boards' own memories, where what is on the chips is too little for all.
//
//   task.options.off_chip = streamed_convolutions(task, /*micro_batch=*/1);      // mostly none
//
// Of boards whose hardware is generated: a convolution's weights are needed with every row, so they lie beside its engine or come from the
// board's own memory once per row. Those of the fewest rows cost the least words, and are tried first, in the network's order; of every
// number of them the one whose ring is fastest is taken, none where that is as fast; then every layer once the other way, since a board
// that streams one layer may have room for another. Not all subsets are tried. Where no number works, all stream. Pure.
#pragma once

#include <set>
#include <string>

#include "partitioner/planning/planning.h"

namespace millrace {

// All that may, of any board.
std::set<std::string> streamable_convolutions(const PlanTask& task);
std::set<std::string> streamed_convolutions(const PlanTask& task, int64_t micro_batch);

}  // namespace millrace
