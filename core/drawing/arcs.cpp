#include "core/drawing/arcs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/drawing/axes.h"

namespace millrace {
namespace {

constexpr double kStrip = 16;  // height of the places
constexpr double kGap = 7;     // between arcs and places, where arrowheads are
constexpr double kThinnest = 1.2, kThickest = 7;
constexpr size_t kGapsUntil = 120;  // places beyond which nothing separates them
constexpr double kSpread = .64;     // of a slot: how far apart the ends at one place lie

// Where each arc's ends lie, so that arcs at one place neither hide nor cross each other: from left to right those that
// come from the left, near ones first, then those to the right, far ones first.
struct Ends {
  double from = 0, to = 0;
};
std::vector<Ends> spread_ends(const std::vector<const Arc*>& arcs) {
  struct End {
    double place, other;
    double* at;
  };
  std::vector<Ends> spread(arcs.size());
  std::vector<End> ends;
  for (size_t i = 0; i < arcs.size(); ++i) {
    ends.push_back({arcs[i]->from, arcs[i]->to, &spread[i].from});
    ends.push_back({arcs[i]->to, arcs[i]->from, &spread[i].to});
  }
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) {
    if (a.place != b.place) return a.place < b.place;
    const bool a_right = a.other > a.place, b_right = b.other > b.place;
    if (a_right != b_right) return b_right;
    return a.other > b.other;
  });
  for (size_t first = 0; first < ends.size();) {
    size_t last = first;
    while (last < ends.size() && ends[last].place == ends[first].place) ++last;
    const auto count = static_cast<double>(last - first);
    for (size_t i = first; i < last; ++i) *ends[i].at = ends[i].place + kSpread * ((static_cast<double>(i - first) + .5) / count - .5);
    first = last;
  }
  return spread;
}

}  // namespace

Drawing draw(const ArcDiagram& diagram) {
  const auto count = static_cast<double>(diagram.places.size());
  const double height = diagram.height;
  Markup out;
  Drawing drawing{.label = diagram.label,
                  .height = height + kGap + kStrip,
                  .margins = {.left = 6, .right = 6, .top = 12, .bottom = diagram.x_label.empty() ? 22.0 : 38.0}};

  std::vector<const Arc*> arcs;
  double farthest = 1, heaviest = 0;
  for (const Arc& arc : diagram.arcs) {
    const auto inside = [&](double place) { return place >= -.5 && place <= count - .5; };
    if (!inside(arc.from) || !inside(arc.to) || !std::isfinite(arc.weight)) continue;
    arcs.push_back(&arc);
    farthest = std::max(farthest, std::abs(arc.to - arc.from));
    heaviest = std::max(heaviest, arc.weight);
  }
  // The heaviest first, so that the thin ones lie on top.
  std::stable_sort(arcs.begin(), arcs.end(), [](const Arc* a, const Arc* b) { return a->weight > b->weight; });

  const std::vector<Ends> spread = spread_ends(arcs);
  const auto across = [&](double place) { return (place + .5) / count; };
  out.raw(open_stretched(height));
  for (size_t i = 0; i < arcs.size(); ++i) {
    const Arc* arc = arcs[i];
    const double top = height * (1 - std::sqrt(std::abs(arc->to - arc->from) / farthest) * .96);
    // A cubic with both handles at one height reaches three quarters of it.
    const double handle = height - (height - top) / .75;
    const double width = heaviest > 0 ? kThinnest + (kThickest - kThinnest) * std::sqrt(std::max(0.0, arc->weight) / heaviest) : kThinnest;
    const std::string from = coordinate(1000 * across(spread[i].from)), to = coordinate(1000 * across(spread[i].to)),
                      at = coordinate(handle);
    const std::string level = coordinate(height);
    out.open("g", {{"class", arc->classes}});
    out.shape("path",
              {{"class", "stroke through"},
               {"stroke-width", width},
               {"d", fmt::format("M{0} {4}C{0} {2} {1} {2} {1} {3}", from, to, at, level, level)}},
              arc->tooltip);
    out.close();
  }
  out.raw(close_stretched());

  for (size_t i = 0; i < arcs.size(); ++i) {
    const Arc* arc = arcs[i];
    out.open("svg", {{"class", arc->classes}, {"x", percent_of(across(spread[i].from))}, {"y", height}, {"overflow", "visible"}});
    out.shape("circle", {{"r", 3.2}}).close();
    out.open("svg", {{"class", arc->classes}, {"x", percent_of(across(spread[i].to))}, {"y", height}, {"overflow", "visible"}});
    out.shape("path", {{"d", "M-4.5-2H4.5L0 5z"}}).close();
  }

  const double slot = 1 / std::max(1.0, count), filled = slot * (diagram.places.size() <= kGapsUntil ? .9 : 1);
  std::vector<std::string> names;
  out.open("g", {{"class", "crisp"}});
  for (size_t i = 0; i < diagram.places.size(); ++i) {
    const Place& place = diagram.places[i];
    names.push_back(place.name);
    double total = 0, left = slot * static_cast<double>(i) + (slot - filled) / 2;
    for (const BarPart& part : place.parts) total += std::isfinite(part.amount) ? std::max(0.0, part.amount) : 0;
    out.open("g");
    if (!place.tooltip.empty()) out.leaf("title", {}, place.tooltip);
    if (total <= 0)
      out.shape("rect",
                {{"class", "idle"}, {"x", percent_of(left)}, {"y", height + kGap}, {"width", percent_of(filled)}, {"height", kStrip}});
    for (const BarPart& part : place.parts) {
      if (!(part.amount > 0) || total <= 0 || !std::isfinite(part.amount)) continue;
      const double width = filled * part.amount / total;
      out.shape("rect",
                {{"class", part.classes}, {"x", percent_of(left)}, {"y", height + kGap}, {"width", percent_of(width)}, {"height", kStrip}},
                part.tooltip);
      left += width;
    }
    out.close();
  }
  out.close();
  draw_slot_names(out, names, diagram.x_label, height + kGap + kStrip);
  drawing.body = std::move(out).str();
  return drawing;
}

}  // namespace millrace
