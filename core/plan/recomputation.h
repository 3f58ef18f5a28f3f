// What recurrent layers keep of a micro-batch from F to G beside inputs and outputs (gates, cells, states): kept for every micro-batch
// under way, or made once more right before E, in a place that the layers of a device share. The weights are the same bits.
//
//   choose_recomputation(plan, graph);                    // kUsage where it cannot be
//   if (recomputes(plan, device)) ...                     // E of a recurrent layer: F again, E, G
//
// It costs those layers' F a second time. Devices whose shards have engines of their own keep as they are built to. F must have had the
// weights that E has, which fpdeep does not promise where micro-batches run ahead. Kept with the plan, among its constants; what plans say
// of memory and time does not count it yet.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

inline constexpr std::string_view kRecompute = "recompute";

bool recomputes(const Plan& plan);
bool recomputes(const Plan& plan, int64_t device);

// Fails with kUsage, saying what to do, where F and E may have different weights, where time is taken in chunks, or where no layer is
// recurrent.
void check_recomputation(const Plan& plan, const Graph& graph);
void choose_recomputation(Plan& plan, const Graph& graph);

}  // namespace millrace
