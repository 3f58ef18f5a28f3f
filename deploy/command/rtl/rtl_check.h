// `millrace rtl --check`: every device of a plan, generated or why not, and what the generated ring's pace is beside the planned one.
//
//   return tell_check(plan, graph, /*json=*/true);    // 0: every board is generated; 3: one is not
//
// The JSON's keys are a contract: devices[{index, device, generated, reason, planned_multipliers{fp, eb, pg}, built_multipliers{fp, eb,
// pg}, planned_seconds, built_seconds, slowest, dsp, bram36, uram, lut, fits, lacks, planned{dsp, bram36, uram, lut}, capacity{dsp, bram36,
// uram, lut}, weights_off_chip{layers, planned_bytes, generated_bram36, streamed, streamed_bytes_per_sample}, waits_off_chip{memories,
// bytes_per_sample, bytes}}], pace_ratio, waiting_pace_ratio, no_waiting_pace_ratio, waits{device, layer, memory, room_samples,
// enough_samples}, origin. dsp, bram36, uram and lut are the generated hardware's. pace_ratio is null where a board is not generated, or
// there is none; waiting_pace_ratio likewise, and no_waiting_pace_ratio says why.
#pragma once

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

// Devices that are no FPGAs have a row and no part in the pace.
int tell_check(const Plan& plan, const Graph& graph, bool json);

}  // namespace millrace
