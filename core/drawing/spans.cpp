#include "core/drawing/spans.h"

#include <algorithm>
#include <cmath>

#include "core/drawing/axes.h"
#include "core/drawing/markup.h"
#include "core/drawing/scale.h"

namespace millrace {
namespace {

constexpr double kRow = 22, kBar = 14;     // pixels
constexpr double kWidestName = 120;        // pixels
constexpr double kLeastShare = 1.0 / 4e3;  // of the width

}  // namespace

Drawing draw(const SpanChart& chart) {
  std::vector<double> ends;
  for (const SpanRow& row : chart.rows)
    for (const BarSpan& span : row.spans) ends.insert(ends.end(), {span.from, span.to});
  const Scale x = Scale::of(chart.x, ends);

  const double height = kRow * static_cast<double>(std::max<size_t>(1, chart.rows.size()));
  Markup out;
  Drawing drawing{.label = chart.label, .height = height, .margins = {.right = 6, .top = 6, .bottom = chart.x.label.empty() ? 22.0 : 38.0}};
  double widest = 0;
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    const SpanRow& row = chart.rows[r];
    const double top = kRow * static_cast<double>(r);
    const std::string name = shortened(row.name, kWidestName, kTickFont);
    widest = std::max(widest, text_width(name, kTickFont));
    out.shape("line", {{"class", "grid"}, {"x1", 0}, {"x2", "100%"}, {"y1", top + kRow / 2}, {"y2", top + kRow / 2}});
    out.leaf("text", {{"class", "end"}, {"x", -7}, {"y", top + kRow / 2 + 4}}, name);
    out.open("g", {{"class", "crisp"}});
    for (const BarSpan& span : row.spans) {
      const double from = std::max(x.position(span.from), 0.0), to = std::min(x.position(span.to), 1.0);
      if (!std::isfinite(span.from) || !std::isfinite(span.to) || span.to <= span.from || to < from) continue;
      out.shape("rect",
                {{"class", span.classes},
                 {"x", percent_of(from)},
                 {"y", top + (kRow - kBar) / 2},
                 {"width", percent_of(std::max(to - from, kLeastShare))},
                 {"height", kBar}},
                span.tooltip);
    }
    out.close();
  }
  draw_x_axis(out, x, chart.x, height);
  drawing.margins.left = std::ceil(widest) + 10;
  drawing.body = std::move(out).str();
  return drawing;
}

}  // namespace millrace
