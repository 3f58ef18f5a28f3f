#include <fmt/format.h>

#include "core/drawing/axes.h"
#include "core/drawing/chart.h"
#include "core/drawing/quantity.h"

namespace millrace {
namespace {

// In the coordinates of open_stretched; breaks where a point cannot be drawn.
std::string path_of(const Series& series, const Scale& x, const Scale& y, const LineChart& chart) {
  std::string path;
  bool down_on_paper = false;
  for (const Point& point : series.points) {
    const bool drawn = x.position(point.x) > -9 && y.position(point.y) > -9 && !(chart.x.logarithmic && point.x <= 0) &&
                       !(chart.y.logarithmic && point.y <= 0) && point.x == point.x && point.y == point.y;
    if (drawn)
      path += fmt::format("{}{} {}", down_on_paper ? "L" : "M", coordinate(1000 * x.position(point.x)),
                          coordinate(down(y, point.y, chart.height)));
    down_on_paper = drawn;
  }
  return path;
}

std::string legend_mark(const Series& series) {
  std::string mark;
  if (series.line) mark += fmt::format("<path class=\"stroke{}\" stroke-width=\"2\" d=\"M-7 0H7\"/>", series.dashed ? " dashed" : "");
  return mark + svg_of(series.mark, series.hollow);
}

}  // namespace

std::string svg_of(Mark mark, bool hollow) {
  const std::string_view style = hollow ? "class=\"hollow\"" : "fill=\"currentColor\"";
  switch (mark) {
    case Mark::kNone: return "";
    case Mark::kCircle: return fmt::format("<circle r=\"3.5\" {}/>", style);
    case Mark::kSquare: return fmt::format("<path d=\"M-3.2-3.2H3.2V3.2H-3.2z\" {}/>", style);
    case Mark::kTriangle: return fmt::format("<path d=\"M0-4.4L4.2 3.2H-4.2z\" {}/>", style);
    case Mark::kDiamond: return fmt::format("<path d=\"M0-4.7L4.7 0L0 4.7L-4.7 0z\" {}/>", style);
  }
  return "";
}

Drawing draw(const LineChart& chart) {
  std::vector<double> across, up;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      across.push_back(point.x);
      up.push_back(point.y);
    }
  }
  for (const Reference& reference : chart.references) (reference.vertical ? across : up).push_back(reference.at);
  const Scale x = Scale::of(chart.x, across), y = Scale::of(chart.y, up);

  const double height = chart.height;
  Markup out;
  Drawing drawing{
      .label = chart.label, .height = height, .margins = {.right = 10, .top = 26, .bottom = chart.x.label.empty() ? 22.0 : 38.0}};
  drawing.margins.left = draw_y_axis(out, y, chart.y, height);
  draw_x_axis(out, x, chart.x, height);
  draw_references(out, chart.references, &x, y, height);

  const bool clipped = chart.x.least || chart.x.most || chart.y.least || chart.y.most;
  out.raw(open_stretched(height, clipped));
  for (const Series& series : chart.series) {
    const std::string path = series.line ? path_of(series, x, y, chart) : "";
    if (path.empty()) continue;
    out.open("g", {{"class", series.classes}});
    out.shape("path", {{"class", series.dashed ? "stroke dashed" : "stroke"}, {"stroke-width", 2}, {"d", path}}, series.name).close();
  }
  out.raw(close_stretched());
  for (const Series& series : chart.series) {
    drawing.legend.push_back({.name = series.name, .classes = {series.classes}, .mark = legend_mark(series)});
    if (series.mark == Mark::kNone) continue;
    for (const Point& point : series.points) {
      if (!x.shows(point.x) || !y.shows(point.y)) continue;
      out.open(
          "svg",
          {{"class", series.classes}, {"x", percent_of(x.position(point.x))}, {"y", down(y, point.y, height)}, {"overflow", "visible"}});
      out.leaf("title", {},
               fmt::format("{}: {} {}, {} {}", series.name, significant(point.x), chart.x.label, significant(point.y), chart.y.label));
      out.raw(svg_of(series.mark, series.hollow)).close();
    }
  }
  drawing.body = std::move(out).str();
  return drawing;
}

}  // namespace millrace
