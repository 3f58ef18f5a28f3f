// The charts of a study's page: what FPDeep draws in its Figs 5, 10, 14, 15 and 16, and what lies beyond it.
//
//   page.figure({.title = "Throughput", .drawing = draw(throughput_chart(sweep))});
//
// Internal to partitioner/study. One line per curve of the sweep; what was simulated is drawn as marks.
#pragma once

#include <vector>

#include "core/drawing/chart.h"
#include "core/drawing/page.h"
#include "partitioner/study/study_sweep.h"

namespace millrace {

// With what the devices alone would do, and the roof that links put on it: Fig 15 (A).
LineChart throughput_chart(const StudySweep& sweep);
// Fig 15 (B).
LineChart idle_chart(const StudySweep& sweep);
// Fig 16.
LineChart epochs_chart(const StudySweep& sweep);
LineChart link_chart(const StudySweep& sweep);
LineChart memory_chart(const StudySweep& sweep);
// The four metrics of Fig 5, a chart each; empty where one strategy is studied alone.
std::vector<Figure> strategy_figures(const StudySweep& sweep);
// Fig 10.
LineChart wiring_chart(const WiringStudy& wirings);
// Fig 14: devices of one ring.
std::vector<Figure> device_figures(const StudyPoint& point);
LineChart failure_chart(const FailureStudy& failures);

}  // namespace millrace
