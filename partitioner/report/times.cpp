#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "partitioner/report/sections.h"

namespace millrace {
namespace {

constexpr const char* kPhaseColours[3] = {"s0", "s3", "s4"};

Figure busy_and_idle(const PlanView& view) {
  const size_t count = view.summary.devices.size();
  StackedColumns chart{.y = {.label = "% of a device's capacity", .least = 0, .most = 100, .suffix = "%"}, .x_label = "device"};
  size_t idlest = 0;
  for (size_t i = 0; i < count; ++i)
    if (view.time(i).idle > view.time(idlest).idle) idlest = i;
  for (const size_t i : view.columns(count, [&](size_t d) { return view.time(d).idle; })) {
    const TimeShares& time = view.time(i);
    Column column{.name = PlanView::column_name(count, i)};
    column.tooltip = fmt::format("{}: ", view.device_text(i));
    for (size_t phase = 0; phase < view.phases(); ++phase) {
      column.tooltip += fmt::format("{} {}, ", kPhaseNames[phase], percent(time.phases[phase]));
      column.parts.push_back({.amount = 100 * time.phases[phase], .classes = kPhaseColours[phase]});
    }
    column.tooltip += fmt::format("idle {}", percent(time.idle));
    column.parts.push_back({.amount = 100 * time.idle, .classes = "idle"});
    column.emphasised = view.summary.bottleneck.kind == "device" && view.summary.bottleneck.index == static_cast<int64_t>(i);
    chart.columns.push_back(std::move(column));
  }
  std::string note = fmt::format("Of its engines' capacity {} is idle on average; most on device {}: {}.",
                                 percent(view.summary.idle_fraction), idlest, percent(view.time(idlest).idle));
  note += view.grouping_note(count, "the one that idles most");
  chart.label = "Busy and idle capacity by device. " + note;
  Figure figure{.title = "Busy and idle", .note = std::move(note), .drawing = draw(chart)};
  for (size_t phase = 0; phase < view.phases(); ++phase)
    figure.drawing.legend.push_back({.name = std::string(kPhaseWords[phase]), .classes = {kPhaseColours[phase]}});
  figure.drawing.legend.push_back({.name = "idle", .classes = {"idle"}});
  return figure;
}

// Of cards that fill several places each: what all of a card's places take of its time, one behind the other.
Figure busy_and_idle_cards(const PlanView& view) {
  StackedColumns chart{.y = {.label = "% of a card's time", .least = 0, .most = 100, .suffix = "%"}, .x_label = "card"};
  std::string note;
  for (const SeatFigures& card : view.summary.seats) {
    double phases[3] = {0, 0, 0}, idle = 1;
    for (const int64_t place : card.places)
      for (size_t phase = 0; phase < view.phases(); ++phase) {
        const double share = view.time(to_size(place)).phases[phase];
        phases[phase] += share;
        idle -= share;
      }
    idle = std::clamp(idle, 0.0, 1.0);
    Column column{.name = card.name};
    column.tooltip = fmt::format("card {} ({}), {} places: ", card.name, card.device, card.places.size());
    for (size_t phase = 0; phase < view.phases(); ++phase) {
      column.tooltip += fmt::format("{} {}, ", kPhaseNames[phase], percent(phases[phase]));
      column.parts.push_back({.amount = 100 * phases[phase], .classes = kPhaseColours[phase]});
    }
    column.tooltip += fmt::format("idle {}", percent(idle));
    column.parts.push_back({.amount = 100 * idle, .classes = "idle"});
    column.emphasised = card.idle_fraction <= std::ranges::min(view.summary.seats, {}, &SeatFigures::idle_fraction).idle_fraction;
    chart.columns.push_back(std::move(column));
    note += fmt::format("{}card {} ({}) is idle {}", note.empty() ? "All places of a card together: " : ", ", card.name, card.device,
                        percent(idle));
  }
  note += ".";
  chart.label = "Busy and idle time by card. " + note;
  Figure figure{.title = "Busy and idle, by card", .note = std::move(note), .drawing = draw(chart)};
  for (size_t phase = 0; phase < view.phases(); ++phase)
    figure.drawing.legend.push_back({.name = std::string(kPhaseWords[phase]), .classes = {kPhaseColours[phase]}});
  figure.drawing.legend.push_back({.name = "idle", .classes = {"idle"}});
  return figure;
}

std::pair<double, std::string> unit_of(const PlanView& view, double seconds) {
  const auto [divisor, unit] = seconds >= 1 ? std::pair(1.0, "s") : seconds >= 1e-3 ? std::pair(1e-3, "ms") : std::pair(1e-6, "\xC2\xB5s");
  return {divisor, fmt::format("{} per {}", unit, view.sample())};
}

Figure least_periods(const PlanView& view) {
  const PlanSummary& summary = view.summary;
  const size_t count = summary.devices.size();
  const double period = summary.seconds_per_image;
  const auto [divisor, unit] = unit_of(view, period);
  StackedColumns chart{.y = {.label = unit, .least = 0}, .x_label = "device"};
  const auto link_seconds = [&](size_t i) { return i < summary.links.size() ? summary.links[i].seconds_per_image : 0; };
  for (const size_t i : view.columns(count, [&](size_t d) { return std::max(summary.devices[d].seconds_per_image, link_seconds(d)); })) {
    const double seconds = summary.devices[i].seconds_per_image;
    Column column{.name = PlanView::column_name(count, i)};
    const bool slowest = summary.bottleneck.kind == "device" && summary.bottleneck.index == static_cast<int64_t>(i);
    column.parts.push_back({.amount = seconds / divisor, .classes = slowest ? "accent" : "calm"});
    column.tooltip = fmt::format("{}: {} per {}", view.device_text(i), duration(seconds), view.sample());
    if (i < summary.links.size()) {
      column.mark = link_seconds(i) / divisor;
      column.tooltip += fmt::format("; its link to device {}: {}", i + 1, duration(link_seconds(i)));
    }
    column.emphasised = slowest;
    chart.columns.push_back(std::move(column));
  }
  chart.references.push_back({.at = period / divisor, .label = fmt::format("the plan's pace, {}", duration(period))});
  std::string note = "The least time each device (column) and its link to the next (short line) could hold alone.";
  note += view.grouping_note(count, "the slowest");
  chart.label = fmt::format("Least time per {} by device and link. {}", view.sample(), note);
  Figure figure{.title = "Who could go faster", .note = std::move(note), .drawing = draw(chart)};
  figure.drawing.legend = {{.name = "device", .classes = {"calm"}}};
  if (summary.bottleneck.kind == "device") figure.drawing.legend.push_back({.name = "sets the pace", .classes = {"accent"}});
  if (!summary.links.empty())
    figure.drawing.legend.push_back({.name = "link to the next device", .classes = {}, .mark = "<path class=\"tick\" d=\"M-7 0H7\"/>"});
  return figure;
}

// What is generated of every board, beside what is planned.
Figure as_built(const PlanView& view) {
  const std::vector<BuiltTime>& built = view.context.built;
  const size_t count = built.size();
  double slowest = 0;
  for (const BuiltTime& device : built) slowest = std::max({slowest, device.planned_seconds, device.built_seconds});
  const auto [divisor, unit] = unit_of(view, slowest);
  StackedColumns chart{.y = {.label = unit, .least = 0}, .x_label = "device"};
  int64_t too_large = 0, missing = 0;
  for (const BuiltTime& device : built) {
    if (device.counts && !device.generated) ++missing;
    if (device.generated && !device.fits) ++too_large;
  }
  for (const size_t i : view.columns(count, [&](size_t d) { return std::max(built[d].planned_seconds, built[d].built_seconds); })) {
    const BuiltTime& device = built[i];
    Column column{.name = PlanView::column_name(count, i)};
    column.parts.push_back({.amount = device.generated ? device.built_seconds / divisor : 0, .classes = device.fits ? "calm" : "accent"});
    column.mark = device.planned_seconds / divisor;
    column.tooltip = device.generated
                         ? fmt::format("{}: built {} per {}, planned {}{}", view.device_text(i), duration(device.built_seconds),
                                       view.sample(), duration(device.planned_seconds), device.fits ? "" : "; more than the board has")
                         : fmt::format("{}: {}", view.device_text(i), device.counts ? "not generated" : "nothing to generate");
    chart.columns.push_back(std::move(column));
  }
  std::string note = view.context.built_text + ".";
  if (missing > 0) note += fmt::format(" Without a column: {} not generated.", missing);
  note += view.grouping_note(count, "the slowest");
  chart.label = fmt::format("Time per {} of every board's hardware as it is generated. {}", view.sample(), note);
  Figure figure{.title = "As built", .note = std::move(note), .drawing = draw(chart)};
  figure.drawing.legend = {{.name = "generated hardware", .classes = {"calm"}}};
  if (too_large > 0) figure.drawing.legend.push_back({.name = "more than the board has", .classes = {"accent"}});
  figure.drawing.legend.push_back({.name = "planned", .classes = {}, .mark = "<path class=\"tick\" d=\"M-7 0H7\"/>"});
  return figure;
}

}  // namespace

void add_times(Page& page, const PlanView& view) {
  page.section("Where time goes",
               "At the plan's pace, modelled. Engines that run side by side count by their multipliers; devices whose shards take turns, "
               "by their time.");
  std::vector<Figure> figures = {busy_and_idle(view), least_periods(view)};
  if (!view.summary.seats.empty()) figures.insert(figures.begin() + 1, busy_and_idle_cards(view));
  if (std::ranges::any_of(view.context.built, &BuiltTime::generated)) figures.push_back(as_built(view));
  page.figures(figures);
}

}  // namespace millrace
