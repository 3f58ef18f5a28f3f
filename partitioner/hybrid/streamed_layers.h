// Which convolutions boards may stream from their own memories, where what is on their chips is too little for all weights.
//
//   task.options.off_chip = streamable_convolutions(task);      // none where no board has such a memory
//
// Of boards whose hardware is generated: a convolution's weights are needed with every row, so they lie beside its engine or come from the
// board's own memory once per row. Each board chooses for itself (stretch_load.h). Pure. Internal to partitioner/hybrid.
#pragma once

#include <set>
#include <string>

#include "partitioner/planning/planning.h"

namespace millrace {

std::set<std::string> streamable_convolutions(const PlanTask& task);

}  // namespace millrace
