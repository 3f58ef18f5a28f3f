// Who works when: a row of bars over time for each of those that work, as in FARNN's Fig 6.
//
//   SpanChart chart{.label = "A mini-batch", .x = {.label = "ms"}, .rows = {{.name = "p100", .spans = {{.from = 0, .to = 2.5, .classes =
//   "s0"}}}}}; const Drawing drawing = draw(chart);
//
// Rows are as high as each other, from the top down. Times are in the unit that the axis names; without limits it begins at the first span
// and ends with the last. A span of no time, or outside of the limits, is left out; one that is too short to be seen is a hair's width.
#pragma once

#include <string>
#include <vector>

#include "core/drawing/chart.h"
#include "core/drawing/drawing.h"

namespace millrace {

struct BarSpan {
  double from = 0, to = 0;
  std::string classes = {};
  std::string tooltip = {};
};

struct SpanRow {
  std::string name = {};
  std::vector<BarSpan> spans = {};
};

struct SpanChart {
  std::string label = {};
  Axis x = {};
  std::vector<SpanRow> rows = {};
};
Drawing draw(const SpanChart& chart);

}  // namespace millrace
