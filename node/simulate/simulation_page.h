// The report of a simulation: one HTML page that says whether a ring keeps its plan's pace, and what each device waits for.
//
//   write_atomically("index.html", simulation_page(plan, result, {.images_per_second = 196.6, .in_flight_samples = 3}, command));
//
// Top to bottom: key figures beside the plan's, what differs and why, images over time, one mini-batch where the result has a trace
// (schedule_figure.h), waiting, links, memory, a table of all devices. One self-contained file in the style of the plan's report. Charts
// of more than kMostSimulatedColumns devices show the worst of each few neighbours, and say so; the table has all. The same result gives
// the same page, but for the measured time.
#pragma once

#include <string>

#include "core/documents/plan.h"
#include "node/simulate/findings.h"
#include "node/simulate/simulate.h"

namespace millrace {

inline constexpr size_t kMostSimulatedColumns = 250;

std::string simulation_page(const Plan& plan, const SimulationResult& result, const SimulationForecast& forecast,
                            const std::string& command);

}  // namespace millrace
