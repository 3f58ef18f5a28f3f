// Plans to draw: plausible ones of every kind, made without a planner, so that a report's tests do not wait for one.
//
//   for (const std::string& name : example_names()) {
//     const Example example = example_of(name);
//     write_plan_report(folder / name, example.plan, example.graph, example.summary, example.context);
//   }
//
// Work is cut evenly, engines are sized to one period, memory is counted roughly, and parameters that do not fit move
// upstream. The plans are complete and pass validate(); their figures are illustrations, not anybody's measurement.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "partitioner/report/report.h"

namespace millrace::testing_support {

struct Example {
  Graph graph;
  Plan plan;
  PlanSummary summary;
  ReportContext context;
};

// "vgg16" (15 boards with homes), "alone" (one CPU), "mixed" (FPGAs, GPUs and a CPU), "crowded" (links nearly full,
// drained), "deep" (150 layers), "hundreds", "thousand", "hostile" (names that are markup).
std::vector<std::string> example_names();
Example example_of(std::string_view name);
// The same network and kind of device on any ring.
Example example_on(std::string_view model, std::string_view cluster);

}  // namespace millrace::testing_support
