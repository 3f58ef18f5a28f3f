// One drawing, in a page or as a file of its own. Charts (chart.h), arcs (arcs.h) and rings (ring.h) make them.
//
//   const Drawing drawing = draw(chart);
//   page.figure({.title = "Link loads", .drawing = drawing});                        // as wide as the page
//   write_atomically("loads.svg", standalone_svg(drawing, {.width = 640, .title = "Link loads"}));
//
// Inside a page a drawing takes the width it finds without stretching its text: everything horizontal is a share of the
// width, everything vertical is in pixels, and tick labels of the class "wide" appear where there is room for them.
// A Drawing is its plot; axis labels lie in the margins around it. Colours are classes (colour.h, theme.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/drawing/markup.h"

namespace millrace {

struct Margins {
  double left = 0, right = 0, top = 0, bottom = 0;  // pixels
};

struct LegendEntry {
  std::string name = {};
  std::vector<std::string> classes = {};  // colours; several for a name that stands for a range
  std::string mark = {};                  // "": a filled square; else SVG around (0, 0), within 6 pixels
};

struct Drawing {
  std::string label = {};  // what it shows, for those who do not see it
  std::string body = {};   // SVG
  double height = 0;       // of the plot
  Margins margins = {};
  std::vector<LegendEntry> legend = {};
};

// <svg> for a page whose style sheet holds drawing_style_sheet().
std::string inline_svg(const Drawing& drawing);

struct Standalone {
  double width = 640;            // of everything, in pixels
  std::string title = {};        // drawn above
  std::string note = {};         // drawn below: where the numbers come from
  std::string style_sheet = {};  // of further classes (LayerColours::style_sheet)
};
std::string standalone_svg(const Drawing& drawing, const Standalone& options);

// How wide a text will be, at most, in the fonts that drawings ask for.
double text_width(std::string_view text, double font_pixels);
// Cut so that it fits, with an ellipsis.
std::string shortened(std::string_view text, double width, double font_pixels);
// Characters of UTF-8 text.
size_t characters_in(std::string_view text);

// Curves, which know no shares of the width: coordinates from 0 to 1000 across and 0 to `height` down. Wrap the
// elements between these two; strokes keep their width with class "stroke".
std::string open_stretched(double height, bool clipped = false);
std::string close_stretched();

}  // namespace millrace
