// Charts with axes: lines and points, stacked columns, grouped columns.
//
//   LineChart chart{.label = "Throughput by number of boards",
//                   .x = {.label = "boards"}, .y = {.label = "images/s", .logarithmic = true},
//                   .series = {{.name = "model", .points = {{5, 24.1}, {10, 47.9}}, .classes = "s0"},
//                              {.name = "paper", .points = {{15, 66}}, .classes = "s1", .line = false, .mark = Mark::kDiamond}},
//                   .references = {{.at = 56, .vertical = true, .label = "150 Gb/s"}}};
//   const Drawing drawing = draw(chart);
//
// Values are drawn as they are given, so scale them to the unit that the axis names. What is not finite (or not positive
// on a logarithmic axis) is left out: lines break there. An axis without limits takes those of the data; a linear one
// that starts near zero starts at zero. Colours are classes of the style sheet (colour.h, theme.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/drawing/drawing.h"

namespace millrace {

struct Axis {
  std::string label = {};  // what and in which unit, "Gb/s"
  bool logarithmic = false;
  std::optional<double> least = {}, most = {};
  std::string suffix = {};  // of every tick: "%"
};

enum class Mark { kNone, kCircle, kSquare, kTriangle, kDiamond };
// Around (0, 0), in the colour of what surrounds it.
std::string svg_of(Mark mark, bool hollow = false);

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name = {};
  std::vector<Point> points = {};  // drawn in this order
  std::string classes = "s0";
  bool line = true;
  bool dashed = false;
  bool hollow = false;  // its marks
  Mark mark = Mark::kNone;
};

struct Reference {
  double at = 0;
  bool vertical = false;  // else horizontal
  std::string label = {};
};

struct LineChart {
  std::string label = {};
  Axis x = {}, y = {};
  std::vector<Series> series = {};
  std::vector<Reference> references = {};
  double height = 240;
};
Drawing draw(const LineChart& chart);

struct BarPart {
  double amount = 0;
  std::string classes = {};
  std::string tooltip = {};
};
struct Column {
  std::string name = {};             // below the axis, where there is room
  std::vector<BarPart> parts = {};   // from zero upwards
  std::vector<BarPart> below = {};   // from zero downwards
  std::string tooltip = {};          // of the whole column
  std::optional<double> mark = {};   // a short line across the column
  std::optional<double> limit = {};  // likewise, and joined with its neighbours': a capacity
  bool absent = false;               // does not have what is drawn: a spare background
  bool emphasised = false;           // its name is drawn in the accent's colour
};
struct StackedColumns {
  std::string label = {};
  Axis y = {};               // `most` bounds both directions when columns go below
  std::string x_label = {};  // "device"
  std::vector<Column> columns = {};
  std::vector<Reference> references = {};
  std::string above = {}, under = {};  // what the two directions are called, when columns go below
  double height = 170;
};
Drawing draw(const StackedColumns& chart);

// Columns side by side in groups: strategies within cluster sizes, say.
struct GroupedColumns {
  std::string label = {};
  Axis y = {};
  std::string x_label = {};
  std::vector<std::string> groups = {};
  struct Member {
    std::string name = {};
    std::vector<double> values = {};  // one per group; not finite: none
    std::string classes = "s0";
  };
  std::vector<Member> members = {};
  std::vector<Reference> references = {};
  double height = 200;
};
Drawing draw(const GroupedColumns& chart);

}  // namespace millrace
