// What recurrent layers keep of a micro-batch from F to G beside inputs and outputs (gates, cells, states): kept for every micro-batch
// under way, or made once more right before E, in a place that the layers of a device share. The weights are the same bits.
//
//   choose_recomputation(plan, graph);                    // kUsage where it cannot be
//   if (recomputes(plan, device)) ...                     // E of a recurrent layer: F again, E, G
//   const RecomputationFigures figures = figures_of_recomputation(plan, graph);
//
// It costs those layers' F a second time. Devices whose shards have engines of their own keep as they are built to. F must have had the
// weights that E has, which fpdeep does not promise where micro-batches run ahead. Kept with the plan, among its constants.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

inline constexpr std::string_view kRecompute = "recompute";

bool recomputes(const Plan& plan);
bool recomputes(const Plan& plan, int64_t device);

// Fails with kUsage, saying what to do, where F and E may have different weights, where time is taken in chunks, or where nothing is made
// again: no layer is recurrent, or boards have all that are.
void check_recomputation(const Plan& plan, const Graph& graph);
void choose_recomputation(Plan& plan, const Graph& graph);

// Modelled, as the plan's other figures: kept_elements of core/graph/recurrent_memory.h.
struct RecomputationFigures {
  double bytes_kept = 0;          // without it, of all devices
  double bytes_shared = 0;        // with it
  double seconds_per_sample = 0;  // of F that is made again on the device with most of it, what follows its layers included
};
RecomputationFigures figures_of_recomputation(const Plan& plan, const Graph& graph);
RecomputationFigures figures_of_recomputation(const Plan& plan, const Graph& graph, int64_t device);

// Takes off a shard's memory what it shares with the shards of its device before it, of which `taken` is the largest so far.
void share_place(Shard& shard, double bytes, double& taken);

}  // namespace millrace
