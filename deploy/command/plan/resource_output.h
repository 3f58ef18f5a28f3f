// `millrace plan --resources`: what every FPGA of a plan takes, by layer and module, as the planner's cost model has it.
//
//   fmt::print("{}", resource_table(plan, summary));
//   json["resources"] = resource_json(plan, summary);
//
// Modules of a layer: an engine per phase (its DSP slices), "logic" (LUTs and flip-flops of the engines, what follows the sum, and
// memories in LUTs), "buffers" (activations, lines, partial sums) and "parameters" (weights, gradients and the optimizer's state), in
// blocks. Parameters count where the homes say that they are stored: slices that a device keeps for another stand as rows of their own.
// The generated hardware's own modules are what `millrace rtl --resources` tells. Devices that are no FPGAs have no rows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "partitioner/planning/summary.h"

namespace millrace {

std::string resource_table(const Plan& plan, const PlanSummary& summary);
nlohmann::ordered_json resource_json(const Plan& plan, const PlanSummary& summary);

}  // namespace millrace
