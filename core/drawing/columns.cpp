#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/drawing/axes.h"
#include "core/drawing/chart.h"
#include "core/drawing/quantity.h"

namespace millrace {
namespace {

constexpr double kWidestBar = .12;       // of the plot
constexpr size_t kCrispFrom = 60;        // columns so thin that soft edges would blur them
constexpr double kLeastDrawn = 1.0 / 8;  // pixels

double bar_share(size_t columns) { return columns <= 60 ? .74 : columns <= 150 ? .86 : 1; }

double drawable(double amount) { return std::isfinite(amount) && amount > 0 ? amount : 0; }

double sum(const std::vector<BarPart>& parts) {
  double total = 0;
  for (const BarPart& part : parts) total += drawable(part.amount);
  return total;
}

// The strengths p1 and p2 would let grid lines shine through.
bool see_through(const BarPart& part) { return part.classes.ends_with(" p1") || part.classes.ends_with(" p2"); }

// What lies across all columns at one height is one line, else a step per column.
void draw_limits(Markup& out, const StackedColumns& chart, const Scale& y) {
  const auto count = static_cast<double>(chart.columns.size());
  for (size_t first = 0; first < chart.columns.size();) {
    const std::optional<double>& limit = chart.columns[first].limit;
    size_t last = first;
    while (last + 1 < chart.columns.size() && chart.columns[last + 1].limit == limit) ++last;
    if (limit && y.shows(*limit)) {
      const std::string left = percent_of(static_cast<double>(first) / count), right = percent_of(static_cast<double>(last + 1) / count);
      const auto line = [&](double value) {
        const double at = down(y, value, chart.height);
        out.shape("line", {{"class", "limit"}, {"x1", left}, {"x2", right}, {"y1", at}, {"y2", at}});
      };
      line(*limit);
      if (y.least() < 0) line(-*limit);
    }
    first = last + 1;
  }
}

}  // namespace

Drawing draw(const StackedColumns& chart) {
  const bool mirrored = std::any_of(chart.columns.begin(), chart.columns.end(), [](const Column& c) { return !c.below.empty(); });
  std::vector<double> ends = {0};
  for (const Column& column : chart.columns) {
    ends.push_back(sum(column.parts));
    if (mirrored) ends.push_back(sum(column.below));
    if (column.mark) ends.push_back(*column.mark);
    if (column.limit) ends.push_back(*column.limit);
  }
  for (const Reference& reference : chart.references) ends.push_back(reference.at);
  Axis axis = chart.y;
  if (mirrored) {
    const double most = axis.most.value_or(Scale::of(axis, ends).most());
    axis.least = -most;
    axis.most = most;
  }
  const Scale y = Scale::of(axis, ends);

  const double height = chart.height;
  Markup out;
  Drawing drawing{
      .label = chart.label, .height = height, .margins = {.right = 6, .top = 26, .bottom = chart.x_label.empty() ? 22.0 : 38.0}};
  drawing.margins.left = draw_y_axis(out, y, axis, height, mirrored);

  const auto count = static_cast<double>(chart.columns.size());
  const double width = std::min(kWidestBar, bar_share(chart.columns.size()) / std::max(1.0, count));
  out.open("g", {{"class", chart.columns.size() > kCrispFrom ? "crisp" : ""}});
  std::vector<std::string> names;
  for (size_t i = 0; i < chart.columns.size(); ++i) {
    const Column& column = chart.columns[i];
    names.push_back(column.name);
    const double left = (static_cast<double>(i) + .5) / count - width / 2;
    const std::string x = percent_of(left), w = percent_of(width);
    out.open("g");
    if (!column.tooltip.empty()) out.leaf("title", {}, column.tooltip);
    if (column.absent) out.shape("rect", {{"class", "spare"}, {"x", x}, {"y", 0}, {"width", w}, {"height", height}});
    const auto stack = [&](const std::vector<BarPart>& parts, double sign) {
      double from = 0;
      if (std::any_of(parts.begin(), parts.end(), see_through)) {
        const double end = down(y, sign * sum(parts), height), base = down(y, 0, height);
        out.shape("rect", {{"class", "paper"}, {"x", x}, {"y", std::min(end, base)}, {"width", w}, {"height", std::abs(end - base)}});
      }
      for (const BarPart& part : parts) {
        const double to = from + drawable(part.amount);
        const double a = down(y, sign * from, height), b = down(y, sign * to, height);
        from = to;
        if (std::abs(a - b) < kLeastDrawn) continue;
        out.shape("rect", {{"class", part.classes}, {"x", x}, {"y", std::min(a, b)}, {"width", w}, {"height", std::abs(a - b)}},
                  part.tooltip);
      }
    };
    stack(column.parts, 1);
    stack(column.below, -1);
    if (column.mark && y.shows(*column.mark)) {
      const double at = down(y, *column.mark, height);
      out.shape("line", {{"class", "tick"}, {"x1", x}, {"x2", percent_of(left + width)}, {"y1", at}, {"y2", at}});
    }
    out.close();
    if (column.emphasised) {
      out.open("svg",
               {{"class", "accent"}, {"x", percent_of((static_cast<double>(i) + .5) / count)}, {"y", height}, {"overflow", "visible"}});
      out.shape("path", {{"d", "M0 1L-4 7H4z"}}).close();
    }
  }
  out.close();
  draw_limits(out, chart, y);
  draw_references(out, chart.references, nullptr, y, height);
  draw_slot_names(out, names, chart.x_label, height + 3);
  if (mirrored) {
    out.shape("line", {{"class", "axis"}, {"x1", 0}, {"x2", "100%"}, {"y1", height / 2}, {"y2", height / 2}});
    out.leaf("text", {{"class", "reference end"}, {"x", "100%"}, {"y", 12}}, chart.above);
    out.leaf("text", {{"class", "reference end"}, {"x", "100%"}, {"y", height - 5}}, chart.under);
  }
  drawing.body = std::move(out).str();
  return drawing;
}

Drawing draw(const GroupedColumns& chart) {
  std::vector<double> ends;
  if (!chart.y.logarithmic) ends.push_back(0);
  for (const auto& member : chart.members) ends.insert(ends.end(), member.values.begin(), member.values.end());
  for (const Reference& reference : chart.references) ends.push_back(reference.at);
  const Scale y = Scale::of(chart.y, ends);

  const double height = chart.height;
  Markup out;
  Drawing drawing{
      .label = chart.label, .height = height, .margins = {.right = 6, .top = 26, .bottom = chart.x_label.empty() ? 22.0 : 38.0}};
  drawing.margins.left = draw_y_axis(out, y, chart.y, height);
  out.shape("line", {{"class", "axis"}, {"x1", 0}, {"x2", "100%"}, {"y1", height}, {"y2", height}});

  const double slot = 1 / std::max(1.0, static_cast<double>(chart.groups.size()));
  const double width = std::min(kWidestBar, slot * .8 / std::max(1.0, static_cast<double>(chart.members.size())));
  const double floor = y.shows(0) ? down(y, 0, height) : height;
  for (size_t m = 0; m < chart.members.size(); ++m) {
    const auto& member = chart.members[m];
    drawing.legend.push_back({.name = member.name, .classes = {member.classes}, .mark = ""});
    for (size_t g = 0; g < chart.groups.size() && g < member.values.size(); ++g) {
      const double value = member.values[g];
      if (!std::isfinite(value) || y.position(value) < -1) continue;
      const double at = down(y, value, height);
      const double left =
          slot * (static_cast<double>(g) + .5) + width * (static_cast<double>(m) - static_cast<double>(chart.members.size()) / 2);
      out.shape(
          "rect",
          {{"class", member.classes},
           {"x", percent_of(left)},
           {"y", std::min(at, floor)},
           {"width", percent_of(width * .92)},
           {"height", std::abs(floor - at)}},
          fmt::format("{}, {}: {}{}", chart.groups[g], member.name, significant(value), chart.y.label.empty() ? "" : " " + chart.y.label));
    }
  }
  draw_references(out, chart.references, nullptr, y, height);
  draw_slot_names(out, chart.groups, chart.x_label, height);
  drawing.body = std::move(out).str();
  return drawing;
}

}  // namespace millrace
