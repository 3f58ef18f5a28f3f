// Measures which algorithm each convolution of a network should use on this machine.
//
//   KernelTable table = tune(graph, /*micro_batch=*/32, /*threads=*/1, [](const TuneProgress& p) { ... });
//   table.save("mine.csv");                       // CpuOptions::kernel_table, or merged into core/cpu/kernel_table.csv
//
// The alternatives of one pass run in turns and each is judged by its fastest run, on one thread by processor time, so that a disturbance
// of the machine meets all of them; another algorithm has to beat the direct one by a tenth. Each run counts what new weights cost, as
// where every micro-batch ends in an update. Nothing here is used by training itself: results follow the table, which a run records, and
// never a timing. Takes seconds to minutes, mostly for large maps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/cpu/kernel_table.h"
#include "core/graph/graph.h"

namespace millrace {

struct TuneProgress {
  int64_t done = 0;  // passes of distinct convolutions
  int64_t total = 0;
  std::string finding;  // "conv1_2 EB: direct 5.1 ms, winograd 2.0 ms"
};

// Fails with kUsage on a micro-batch or threads below one.
KernelTable tune(const Graph& graph, int64_t micro_batch, int threads, const std::function<void(const TuneProgress&)>& progress = {});

}  // namespace millrace
