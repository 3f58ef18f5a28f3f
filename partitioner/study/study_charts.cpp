#include "partitioner/study/study_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/drawing/colour.h"
#include "core/drawing/quantity.h"
#include "partitioner/planning/sample_word.h"

namespace millrace {
namespace {

constexpr const char* kDevicesAxis = "devices";
constexpr size_t kMostMarks = 24;
// Roofs far above what any ring does would flatten everything else.
constexpr double kRoofShown = 1.4;

std::string named(const StudySweep& sweep, size_t curve, const char* what) {
  const std::string name = curve_name(sweep, curve);
  return name.empty() ? what : name;
}

// A line over the feasible points.
template <typename Value>
Series series_of(const Study& study, std::string name, size_t colour, const Value& value) {
  Series series{.name = std::move(name), .points = {}, .classes = series_class(colour)};
  for (const StudyPoint& point : study.points)
    if (point.feasible) series.points.push_back({static_cast<double>(point.devices), value(point)});
  if (series.points.size() <= kMostMarks) series.mark = Mark::kCircle;
  return series;
}

template <typename Value>
LineChart chart_of(const StudySweep& sweep, std::string label, std::string unit, const char* name, const Value& value) {
  LineChart chart{.label = std::move(label), .x = {.label = kDevicesAxis}, .y = {.label = std::move(unit), .least = 0}, .series = {}};
  for (size_t c = 0; c < sweep.curves.size(); ++c)
    chart.series.push_back(series_of(sweep.curves[c].study, named(sweep, c, name), c, value));
  return chart;
}

// Marks where the curve's rings were simulated.
template <typename Value>
void add_simulated(const StudySweep& sweep, LineChart& chart, const Value& value) {
  for (size_t c = 0; c < sweep.curves.size(); ++c) {
    const std::string name = curve_name(sweep, c);
    Series simulated{.name = name.empty() ? "simulated" : name + ", simulated",
                     .points = {},
                     .classes = series_class(sweep.curves.size() == 1 ? 2 : c),
                     .line = false,
                     .hollow = true,
                     .mark = Mark::kDiamond};
    for (const StudyPoint& point : sweep.curves[c].study.points)
      if (point.simulated) simulated.points.push_back({static_cast<double>(point.devices), value(*point.simulated)});
    if (!simulated.points.empty()) chart.series.push_back(std::move(simulated));
  }
}

double highest(const LineChart& chart) {
  double most = 0;
  for (const Series& series : chart.series)
    for (const Point& point : series.points)
      if (std::isfinite(point.y)) most = std::max(most, point.y);
  return most;
}

}  // namespace

LineChart throughput_chart(const StudySweep& sweep) {
  LineChart chart = chart_of(sweep, "Throughput by number of devices, and the roof that links put on it",
                             fmt::format("{}/s", sample_word(*sweep.curves.front().task.graph).many), "within the links' budget",
                             [](const StudyPoint& point) { return point.images_per_second; });
  if (sweep.curves.size() == 1) {
    const Study& study = sweep.curves.front().study;
    chart.series.push_back(
        series_of(study, "devices alone", 1, [](const StudyPoint& point) { return point.full_speed_images_per_second; }));
    chart.series.back().dashed = true;
    chart.series.back().mark = Mark::kNone;
    if (study.linear_up_to > 0 && study.first_slowed > 0)
      chart.references.push_back(
          {.at = static_cast<double>(study.linear_up_to), .vertical = true, .label = fmt::format("{}", study.linear_up_to)});
  }
  const double most = highest(chart);
  bool roof_shown = false;
  for (size_t c = 0; c < sweep.curves.size(); ++c) {
    const std::string name = curve_name(sweep, c);
    Series roof = series_of(sweep.curves[c].study, name.empty() ? "roof of the links" : name + ", roof of its links",
                            sweep.curves.size() == 1 ? 3 : c, [](const StudyPoint& point) { return point.link_roof_images_per_second; });
    std::erase_if(roof.points, [](const Point& point) { return !std::isfinite(point.y) || point.y <= 0; });
    const bool low = std::any_of(roof.points.begin(), roof.points.end(), [&](const Point& point) { return point.y < kRoofShown * most; });
    if (!low) continue;
    roof.dashed = true;
    roof.mark = Mark::kNone;
    chart.series.push_back(std::move(roof));
    roof_shown = true;
  }
  if (roof_shown) chart.y.most = kRoofShown * most;
  add_simulated(sweep, chart, [](const SimulatedFigures& figures) { return figures.images_per_second; });
  return chart;
}

LineChart idle_chart(const StudySweep& sweep) {
  LineChart chart =
      chart_of(sweep, "Idle stages by number of devices", "%", "idle", [](const StudyPoint& point) { return 100 * point.idle_fraction; });
  add_simulated(sweep, chart, [](const SimulatedFigures& figures) { return 100 * figures.idle_fraction; });
  return chart;
}

LineChart epochs_chart(const StudySweep& sweep) {
  return chart_of(sweep, "Epochs per hour by number of devices", "epochs/h", "epochs per hour",
                  [](const StudyPoint& point) { return 1 / point.hours_per_epoch; });
}

LineChart link_chart(const StudySweep& sweep) {
  LineChart chart = chart_of(sweep, "Load of the fullest link by number of devices", "Gb/s", "one direction",
                             [](const StudyPoint& point) { return point.max_link_gbps; });
  if (sweep.curves.size() > 1) return chart;
  const LinkEntry& link = sweep.curves.front().task.link;
  const bool both = link.shared_gbps > 0;
  chart.series.push_back(
      series_of(sweep.curves.front().study, "both directions", 1, [](const StudyPoint& point) { return point.max_link_gbps_both; }));
  chart.references.push_back({.at = both ? link.shared_gbps : std::min(link.forward_gbps, link.backward_gbps),
                              .label = both ? "budget, both" : "budget, one direction"});
  return chart;
}

LineChart memory_chart(const StudySweep& sweep) {
  LineChart chart = chart_of(sweep, "Fullest memory by number of devices", "%", "fullest memory",
                             [](const StudyPoint& point) { return 100 * point.memory_fraction; });
  chart.references.push_back({.at = 100, .label = "full"});
  return chart;
}

std::vector<Figure> strategy_figures(const StudySweep& sweep) {
  std::set<Strategy> strategies;
  for (const StudyCurve& curve : sweep.curves) strategies.insert(curve.task.options.strategy);
  if (strategies.size() < 2) return {};
  struct Metric {
    const char* title;
    const char* unit;
    double scale;
    double StudyPoint::*value;
  };
  constexpr Metric kMetrics[] = {{"FLOP utilisation", "%", 100, &StudyPoint::flop_utilisation},
                                 {"Storage", "Mb", 1e-6, &StudyPoint::storage_bits},
                                 {"Communication of a mini-batch", "Gb", 1e-9, &StudyPoint::communication_bits},
                                 {"Mean bandwidth", "Gb/s", 1, &StudyPoint::communication_gbps}};
  std::vector<Figure> figures;
  const bool peaks_known = std::ranges::any_of(sweep.curves, [](const StudyCurve& curve) {
    return std::ranges::any_of(curve.study.points, [](const StudyPoint& point) { return point.flop_utilisation > 0; });
  });
  for (const Metric& metric : kMetrics) {
    if (metric.value == &StudyPoint::flop_utilisation && !peaks_known) continue;
    LineChart chart = chart_of(sweep, fmt::format("{} by number of devices and strategy", metric.title), metric.unit, metric.title,
                               [&](const StudyPoint& point) { return metric.scale * (point.*metric.value); });
    if (metric.scale != 100) {
      chart.y.logarithmic = true;
      chart.y.least.reset();
    }
    figures.push_back({.title = metric.title, .note = "modelled", .drawing = draw(chart)});
  }
  return figures;
}

LineChart wiring_chart(const WiringStudy& wirings) {
  LineChart chart{.label = "Bits per image and port on the slowest link, in a row and in stars",
                  .x = {.label = kDevicesAxis},
                  .y = {.label = "Mb per image and port", .least = 0},
                  .series = {{.name = "1-D", .points = {}, .classes = series_class(0), .mark = Mark::kCircle},
                             {.name = "2-D", .points = {}, .classes = series_class(1), .mark = Mark::kSquare}}};
  for (const WiringPoint& point : wirings.points) {
    chart.series[0].points.push_back({static_cast<double>(point.devices), 1e-6 * point.comparison.one.bits_per_port});
    chart.series[1].points.push_back({static_cast<double>(point.devices), 1e-6 * point.comparison.two.bits_per_port});
  }
  return chart;
}

std::vector<Figure> device_figures(const StudyPoint& point) {
  std::vector<Figure> figures;
  const auto add = [&](const char* title, const char* note, const std::vector<double>& shares, size_t colour) {
    if (shares.empty()) return;
    StackedColumns chart{.label = fmt::format("{} by device", title), .y = {.label = "%", .least = 0}, .x_label = "device", .columns = {}};
    for (size_t d = 0; d < shares.size(); ++d)
      chart.columns.push_back({.name = fmt::format("{}", d),
                               .parts = {{.amount = 100 * shares[d], .classes = series_class(colour)}},
                               .tooltip = fmt::format("device {}: {}", d, percent(shares[d]))});
    chart.references.push_back({.at = 100, .label = "all"});
    figures.push_back({.title = title, .note = note, .drawing = draw(chart)});
  };
  add("Multipliers in use", "of the device's DSP slices", point.device_dsp, 0);
  add("Memory in use", "of the memory that parameters share", point.device_memory, 1);
  add("Engines at work", "of their capacity, at the ring's rate", point.device_busy, 2);
  return figures;
}

LineChart failure_chart(const FailureStudy& failures) {
  LineChart chart{.label = "Throughput lost to failures by checkpoint interval",
                  .x = {.label = "seconds of work between two checkpoints", .logarithmic = true},
                  .y = {.label = "% lost", .least = 0},
                  .series = {{.name = "expected (closed form)", .points = {}, .classes = series_class(0)},
                             {.name = "simulated", .points = {}, .classes = series_class(2), .line = false, .mark = Mark::kDiamond}}};
  for (const FailurePoint& point : failures.points) {
    chart.series[0].points.push_back({point.interval_seconds, 100 * point.lost_modelled});
    chart.series[1].points.push_back({point.interval_seconds, 100 * point.lost_simulated});
  }
  chart.references.push_back({.at = failures.young_seconds, .vertical = true, .label = "Young"});
  chart.references.push_back({.at = failures.daly_seconds, .vertical = true, .label = "Daly"});
  return chart;
}

}  // namespace millrace
