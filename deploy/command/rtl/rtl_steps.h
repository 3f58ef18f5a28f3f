// `millrace rtl` for boards that make the steps of a recurrent layer with weights that they load (strategy kind): the engine of chained
// elements of each direction in a folder of its own, and what is built beside what is planned.
//
//   write_steps_engines(plan, graph, /*device=*/1, weights, formats, "rtl/device_1", /*seed=*/1);     // rtl/device_1/lstm1, ...
//   return tell_steps_check(plan, graph, /*json=*/false);
//
// One direction has an engine; both share it on a board, one behind the other, so their folders differ in images and vectors alone. Of a
// card that fills several places, whichever of them is asked for, there is one engine for all that want the same elements, in one folder.
// What is not built is refused by name (deploy/session/steps_check.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

// Folders written, below `folder`.
std::vector<std::string> write_steps_engines(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights,
                                             const LayerFormats& formats, const std::filesystem::path& folder, uint64_t seed);
int tell_steps_check(const Plan& plan, const Graph& graph, bool json);

}  // namespace millrace
