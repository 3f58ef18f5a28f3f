// A simulation as a Chrome trace, which ui.perfetto.dev and chrome://tracing show: a process per device, a track per engine, a
// slice per sample, from its first row to its last.
//
//   SimulationResult result = simulate(plan, graph, {.samples = 16, .trace = true});
//   write_atomically("trace.json", trace_json(plan, result));
//
// Times are virtual, in microseconds.
#pragma once

#include <string>

#include "core/documents/plan.h"
#include "node/simulate/simulate.h"

namespace millrace {

std::string trace_json(const Plan& plan, const SimulationResult& result);

}  // namespace millrace
