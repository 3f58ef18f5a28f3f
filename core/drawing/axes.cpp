#include "core/drawing/axes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/drawing/quantity.h"

namespace millrace {
namespace {

// Plot widths that labels must fit into: on a phone, and where "wide" ones appear.
constexpr double kNarrow = 250;
constexpr double kWide = 420;

// Every how many slots a name is drawn, so that those of `width` pixels fit.
size_t stride_for(size_t count, double width, double room, size_t multiple_of) {
  constexpr std::array<size_t, 4> kFactors = {1, 2, 5, 10};
  for (size_t power = 1;; power *= 10) {
    for (const size_t factor : kFactors) {
      const size_t stride = factor * power;
      if (stride % multiple_of != 0) continue;
      if (stride >= count || static_cast<double>(count) * width <= room * static_cast<double>(stride)) return stride;
    }
  }
}

}  // namespace

double draw_y_axis(Markup& out, const Scale& scale, const Axis& axis, double height, bool mirrored) {
  double widest = 0;
  for (const Tick& tick : scale.ticks()) {
    const double y = down(scale, tick.value, height);
    const bool zero = std::abs(tick.value) < 1e-12 * std::max(1.0, scale.most());
    out.shape("line", {{"class", zero ? "axis" : "grid"}, {"x1", 0}, {"x2", "100%"}, {"y1", y}, {"y2", y}});
    const std::string text = mirrored && tick.value < 0 ? tick.text.substr(1) : tick.text;
    if (tick.minor && scale.ticks().size() > 7) continue;
    out.leaf("text", {{"class", "end"}, {"x", -7}, {"y", y + 4}}, text);
    widest = std::max(widest, text_width(text, kTickFont));
  }
  const double margin = std::ceil(widest) + 10;
  if (!axis.label.empty()) out.leaf("text", {{"x", -margin}, {"y", -11}}, axis.label);
  return margin;
}

void draw_x_axis(Markup& out, const Scale& scale, const Axis& axis, double height) {
  const bool crowded = scale.ticks().size() > 6;
  out.shape("line", {{"class", "axis"}, {"x1", 0}, {"x2", "100%"}, {"y1", height}, {"y2", height}});
  for (size_t i = 0; i < scale.ticks().size(); ++i) {
    const Tick& tick = scale.ticks()[i];
    const std::string x = percent_of(scale.position(tick.value));
    out.shape("line", {{"class", "axis"}, {"x1", x}, {"x2", x}, {"y1", height}, {"y2", height + 4}});
    const bool wide = crowded && (axis.logarithmic ? tick.minor : i % 2 == 1);
    out.leaf("text", {{"class", wide ? "middle wide" : "middle"}, {"x", x}, {"y", height + 16}}, tick.text);
  }
  if (!axis.label.empty()) out.leaf("text", {{"class", "end"}, {"x", "100%"}, {"y", height + 31}}, axis.label);
}

void draw_slot_names(Markup& out, const std::vector<std::string>& names, const std::string& label, double height) {
  double width = 0;
  for (const std::string& name : names) width = std::max(width, text_width(name, kTickFont) + 6);
  const size_t wide = stride_for(names.size(), width, kWide, 1), narrow = stride_for(names.size(), width, kNarrow, wide);
  for (size_t i = 0; i < names.size(); i += wide) {
    const double middle = (static_cast<double>(i) + .5) / static_cast<double>(names.size());
    out.leaf("text", {{"class", i % narrow == 0 ? "middle" : "middle wide"}, {"x", percent_of(middle)}, {"y", height + 16}}, names[i]);
  }
  if (!label.empty()) out.leaf("text", {{"class", "end"}, {"x", "100%"}, {"y", height + 31}}, label);
}

void draw_references(Markup& out, const std::vector<Reference>& references, const Scale* x, const Scale& y, double height) {
  for (const Reference& reference : references) {
    if (reference.vertical) {
      if (x == nullptr || !x->shows(reference.at)) continue;
      const std::string at = percent_of(x->position(reference.at));
      out.shape("line", {{"class", "reference"}, {"x1", at}, {"x2", at}, {"y1", 0}, {"y2", height}});
      const bool left = x->position(reference.at) > .5;
      out.open("svg", {{"x", at}, {"y", 0}, {"overflow", "visible"}});
      out.leaf("text", {{"class", left ? "reference end" : "reference"}, {"x", left ? -5 : 5}, {"y", height - 6}}, reference.label).close();
    } else if (y.shows(reference.at)) {
      const double at = down(y, reference.at, height);
      out.shape("line", {{"class", "reference"}, {"x1", 0}, {"x2", "100%"}, {"y1", at}, {"y2", at}});
      out.leaf("text", {{"class", "reference end"}, {"x", "100%"}, {"y", at - 5}}, reference.label);
    }
  }
}

}  // namespace millrace
