// The look that pages and drawings share: paper, ink, lines and the colours with a meaning, light and dark. Internal to core/drawing.
//
//   <style> + drawing_style_sheet() + page_style_sheet() + LayerColours::style_sheet() + </style>
//
// Classes with a meaning, for fills, strokes ("stroke") and legends alike:
//   activation partial error parameter gradient   streams over links
//   calm busy full                                how near a limit
//   idle spare accent ink muted                   no work; no use; what to look at; text
//   p0 p1 p2                                      FP, EB, PG: three strengths of whatever colour comes with them
// Dark rules hold on screens alone, so that prints are light.
#pragma once

#include <string>

namespace millrace {

// Needs no CSS variables: other programs than browsers draw SVG files too.
std::string drawing_style_sheet();
std::string page_style_sheet();

}  // namespace millrace
