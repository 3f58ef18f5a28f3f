// A device of the ring whose convolutions, dense and recurrent layers are computed by the generated RTL under Verilator.
//
//   std::unique_ptr<EmulatedFpga> device = make_cosim_device(plan, graph, /*device=*/0, {});
//
// FP, EB and PG run on the engine modules with the parameters that `millrace rtl` gives them for this device of the plan, in
// one harness per shard (harness/engine_harness.sv) with its LPRAM, LGB and special-function unit; the trainer calls phase
// by phase, which the device's stitched top level, a pipeline of a whole mini-batch, cannot answer. That top level has its
// own testbench. The update is the host's, as in the generated design: it reads gradients and writes LPRAM.
// In a plan for inference recurrent layers have the plan's engines of blocked columns (simulated_recurrence.h); no device of such a plan
// is generated whole yet, so that its other layers are computed by engines of two by two lanes.
// Where the plan has a board make the steps of recurrent layers, they have engines of chained elements (simulated_steps.h).
// All numbers are those of emulated-fpga, bit by bit, and checked against it as they come (simulated_phases.h).
// build_cosim_engines brings every engine of a plan into the cache, so that opening devices takes no time; `first` is the
// device to begin with, so that ranks that build side by side begin with different ones. Of devices of several kinds `simulated` says,
// by the names that the plan's cluster has for them, which are.
// Fails with kUnavailable, naming layer and reason, on what no hardware is generated for, and without Verilator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/cosim/engine_builder.h"
#include "fpga/cosim/simulated_phases.h"
#include "fpga/cosim/simulated_recurrence.h"
#include "fpga/emulated/emulated_fpga.h"

namespace millrace {

std::unique_ptr<EmulatedFpga> make_cosim_device(const Plan& plan, const Graph& graph, int64_t device, const EngineBuildOptions& options);

// Of one device of the plan; none where it computes no convolution, or no recurrence.
std::vector<PlannedEngine> engines_of(const Plan& plan, const Graph& graph, int64_t device);
std::vector<PlannedRecurrence> recurrences_of(const Plan& plan, const Graph& graph, int64_t device, TanhForm smooth = TanhForm::kPlan);

void build_cosim_engines(const Plan& plan, const Graph& graph, int64_t first, const EngineBuildOptions& options,
                         TanhForm smooth = TanhForm::kPlan, const std::function<bool(std::string_view)>& simulated = {});

}  // namespace millrace
