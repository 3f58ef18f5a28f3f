// `millrace rtl` of a plan for inference: whether its engines keep its pace when they are built, and the engines of its recurrent layers
// as sources.
//
//   return tell_inference_check(plan, graph, flags.json);
//   write_inference_engines(plan, graph, device, weights, formats, folder, seed);      // folder/lstm1/rtl/*.sv, testbench.sv, ...
//
// Built figures: of the engine of blocked columns its chunk-by-chunk cycle model against a memory of 100 cycles of latency, of convolutions
// and dense layers the rectangle of lanes that keeps the period. No top joins a device's engines yet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

// The built engines' pace over the planned one; nothing where an engine is missing.
std::optional<double> inference_pace_ratio(const Plan& plan, const Graph& graph);
int tell_inference_check(const Plan& plan, const Graph& graph, bool json);
// The layers whose engines were written. Fails with kUnavailable where the device has none.
std::vector<std::string> write_inference_engines(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights,
                                                 const LayerFormats& formats, const std::filesystem::path& folder, uint64_t seed);

}  // namespace millrace
