// Axes, grids and references around a plot. Internal to core/drawing.
#pragma once

#include <string>
#include <vector>

#include "core/drawing/chart.h"
#include "core/drawing/markup.h"
#include "core/drawing/scale.h"

namespace millrace {

inline constexpr double kTickFont = 11;

// Grid lines, tick labels to the left and the axis's name above. Returns the left margin that they need.
// `mirrored`: ticks below zero read as those above.
double draw_y_axis(Markup& out, const Scale& scale, const Axis& axis, double height, bool mirrored = false);
void draw_x_axis(Markup& out, const Scale& scale, const Axis& axis, double height);
// Names below equal slots, as many as fit; the others are left out, evenly.
void draw_slot_names(Markup& out, const std::vector<std::string>& names, const std::string& label, double height);
void draw_references(Markup& out, const std::vector<Reference>& references, const Scale* x, const Scale& y, double height);

// How many pixels down a value lies.
inline double down(const Scale& scale, double value, double height) { return height * (1 - scale.position(value)); }

}  // namespace millrace
