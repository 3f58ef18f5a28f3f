// What reaches from one place in a row to another: parameter homes and their users, as in FPDeep's Fig 6.
//
//   ArcDiagram diagram{.label = "Parameter homes", .places = places, .arcs = {{.from = 3, .to = 14, .weight = 9.4e6, .classes = "l12"}}};
//   const Drawing drawing = draw(diagram);
//
// A dot marks where an arc starts, an arrowhead where it ends; the heavier, the wider. Places are equal slots with the
// parts of each side by side below the arcs. Arcs that start or end outside of the places are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/drawing/chart.h"
#include "core/drawing/drawing.h"

namespace millrace {

struct Arc {
  double from = 0, to = 0;  // places; fractions lie between two
  double weight = 1;
  std::string classes = {};
  std::string tooltip = {};
};

struct Place {
  std::string name = {};
  std::vector<BarPart> parts = {};  // amounts relative to their sum
  std::string tooltip = {};
};

struct ArcDiagram {
  std::string label = {};
  std::string x_label = {};  // "device"
  std::vector<Place> places = {};
  std::vector<Arc> arcs = {};
  double height = 150;  // of the arcs
};
Drawing draw(const ArcDiagram& diagram);

}  // namespace millrace
