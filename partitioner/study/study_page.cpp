#include "partitioner/study/study_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/drawing/colour.h"
#include "core/drawing/page.h"
#include "core/drawing/quantity.h"
#include "partitioner/planning/sample_word.h"
#include "partitioner/study/study_charts.h"

namespace millrace {
namespace {

Table points_table(const StudySweep& sweep) {
  Table table;
  table.label = "Every point of the study";
  const bool several = sweep.curves.size() > 1;
  const bool simulated = simulates(sweep);
  if (several) table.columns.push_back({.name = "curve"});
  const StudyTask& task = sweep.curves.front().task;
  const std::string rate = fmt::format("{}/s", sample_word(*task.graph).many);
  for (const std::string& name : {std::string("devices"), rate, std::string("devices alone"), std::string("h/epoch"), std::string("idle"),
                                  std::string("Gb/s one way"), std::string("both"), std::string("memory")})
    table.columns.push_back({.name = name, .number = true});
  if (simulated)
    for (const char* name : {"simulated", "idle, simulated", "in flight, simulated"})
      table.columns.push_back({.name = name, .number = true});
  table.columns.push_back({.name = "limited by"});
  for (size_t c = 0; c < sweep.curves.size(); ++c) {
    for (const StudyPoint& point : sweep.curves[c].study.points) {
      Table::Row row;
      const auto add = [&](std::string text) { row.cells.push_back({.text = std::move(text)}); };
      if (several) add(curve_name(sweep, c));
      add(fmt::format("{}", point.devices));
      if (point.feasible) {
        add(significant(point.images_per_second, 4));
        add(significant(point.full_speed_images_per_second, 4));
        add(task.epoch_images > 0 ? significant(point.hours_per_epoch) : "-");
        add(percent(point.idle_fraction));
        add(significant(point.max_link_gbps));
        add(significant(point.max_link_gbps_both));
        add(percent(point.memory_fraction));
        if (simulated) {
          const SimulatedFigures figures = point.simulated.value_or(SimulatedFigures{});
          add(point.simulated ? significant(figures.images_per_second, 4) : "");
          add(point.simulated ? percent(figures.idle_fraction) : "");
          add(point.simulated ? fmt::format("{}", figures.in_flight_samples) : "");
        }
        add(fmt::format("{} {}", point.bottleneck.kind, point.bottleneck.index));
      } else {
        while (row.cells.size() + 1 < table.columns.size()) add("");
        add(point.reason);
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::string headline(const StudyCurve& curve) {
  const Study& study = curve.study;
  const auto infeasible = [](const StudyPoint& point) { return !point.feasible; };
  if (std::all_of(study.points.begin(), study.points.end(), infeasible)) return "No ring of this size holds the model.";
  const std::string links = fmt::format("the links ({})", link_text(curve.task.link));
  if (study.linear_up_to == 0) return fmt::format("Every ring studied is slowed down by {}.", links);
  if (study.first_slowed == 0)
    return fmt::format("Linear up to {} devices: {} never slow a ring of this study down.", study.linear_up_to, links);
  return fmt::format("Linear up to {} devices; with {}, {} slow the ring down.", study.linear_up_to, study.first_slowed, links);
}

std::vector<std::string> infeasible_sentences(const Study& study) {
  std::vector<std::string> sentences;
  for (const StudyPoint& point : study.points)
    if (!point.feasible && sentences.size() < 3) sentences.push_back(fmt::format("{} devices: {}.", point.devices, point.reason));
  const auto count = std::count_if(study.points.begin(), study.points.end(), [](const StudyPoint& point) { return !point.feasible; });
  if (count > 3) sentences.push_back(fmt::format("{} more {} infeasible.", count - 3, count == 4 ? "ring is" : "rings are"));
  return sentences;
}

void add_verdict(const StudySweep& sweep, Page& page) {
  if (sweep.curves.size() == 1) return page.verdict(headline(sweep.curves.front()), infeasible_sentences(sweep.curves.front().study));
  std::vector<std::string> sentences;
  for (size_t c = 0; c < sweep.curves.size(); ++c)
    sentences.push_back(fmt::format("{}: {}", curve_name(sweep, c), headline(sweep.curves[c])));
  page.verdict(fmt::format("{} curves of {} rings each.", sweep.curves.size(), sweep.curves.front().study.points.size()), sentences);
}

std::string subtitle(const StudySweep& sweep) {
  const StudyTask& task = sweep.curves.front().task;
  const std::string origin =
      fmt::format("{}, with {} accounting.", simulates(sweep) ? "What is not called simulated is modelled" : "Everything is modelled",
                  name_of(task.options.accounting));
  if (sweep.curves.size() > 1) return fmt::format("Mini-batches of {}. {}", task.options.mini_batch, origin);
  return fmt::format("{} parallelism, {} alignment, mini-batches of {}, {} elements; links of {}. {}", name_of(task.options.strategy),
                     name_of(task.options.alignment), task.options.mini_batch, name_of(task.options.arithmetic.wire), link_text(task.link),
                     origin);
}

void add_wirings(const WiringStudy& wirings, Page& page) {
  page.section("1-D against 2-D",
               fmt::format("{}, on {:.4g} ports shared equally over a board's links: closed forms, by FPDeep's rules (Fig 10).",
                           fmt::join(wirings.layers, ", "), wirings.rules.ports));
  page.figure({.title = "Slowest link", .note = "modelled; lower is better", .drawing = draw(wiring_chart(wirings))});
  Table table;
  table.label = "1-D against 2-D by number of devices";
  for (const char* name : {"devices", "1-D Mb per port", "2-D Mb per port", "2-D over 1-D"})
    table.columns.push_back({.name = name, .number = true});
  table.columns.push_back({.name = "2-D limited by"});
  for (const WiringPoint& point : wirings.points)
    table.rows.push_back({.cells = {{.text = fmt::format("{}", point.devices)},
                                    {.text = significant(1e-6 * point.comparison.one.bits_per_port)},
                                    {.text = significant(1e-6 * point.comparison.two.bits_per_port)},
                                    {.text = fmt::format("{:.2f}", point.comparison.ratio())},
                                    {.text = point.comparison.two.bottleneck}}});
  page.table(table, "All points as a table");
}

void add_failures(const FailureStudy& failures, Page& page) {
  page.section(
      "Failures",
      fmt::format("{} devices, each failing once in {} on average, so the ring once in {}: a checkpoint costs {}, a restart {}. What is "
                  "lost is the time of checkpoints, of work done again and of restarts.",
                  failures.devices, duration(failures.device_mtbf_seconds), duration(failures.ring_mtbf_seconds),
                  duration(failures.checkpoint_seconds), duration(failures.restart_seconds)));
  page.figure({.title = "Throughput lost",
               .note = fmt::format("Young's optimum {}, Daly's {} (closed forms); {} failures or more simulated for each interval",
                                   duration(failures.young_seconds), duration(failures.daly_seconds), failures.failures),
               .drawing = draw(failure_chart(failures))});
}

}  // namespace

std::string study_page(const StudySweep& sweep, std::string_view command) {
  const StudyTask& task = sweep.curves.front().task;
  Page page(fmt::format("{} on rings of {}", task.graph->model().name, task.device), subtitle(sweep));
  add_verdict(sweep, page);
  page.section(
      "Throughput",
      "How fast the ring is, how fast its devices alone would be with links that never bind, and the roof that the links' budget puts "
      "on their traffic: with the cuts of that speed, or with those that were chosen where they send less.");
  page.figure({.title = "Throughput", .note = "modelled where it does not say simulated", .drawing = draw(throughput_chart(sweep))});
  page.section(task.epoch_images > 0 ? "Epochs and idle stages" : "Idle stages");
  std::vector<Figure> over_time;
  if (task.epoch_images > 0)
    over_time.push_back(
        {.title = "Epochs per hour",
         .note = fmt::format("epochs of {} {}", separated(static_cast<int64_t>(task.epoch_images)), sample_word(*task.graph).many),
         .drawing = draw(epochs_chart(sweep))});
  over_time.push_back({.title = "Idle stages",
                       .note = "of the engines' capacity, mean over the devices (simulated: of their time, waiting)",
                       .drawing = draw(idle_chart(sweep))});
  page.figures(over_time);
  page.section("Links and memory");
  page.figures({{.title = "Fullest link", .note = "at the ring's rate", .drawing = draw(link_chart(sweep))},
                {.title = "Fullest memory", .note = "of the memory that parameters share", .drawing = draw(memory_chart(sweep))}});
  if (std::vector<Figure> figures = strategy_figures(sweep); !figures.empty()) {
    page.section("Strategies", "The four metrics of FPDeep's comparison (Fig 5), by number of devices.");
    page.figures(figures);
  }
  if (sweep.wirings) add_wirings(*sweep.wirings, page);
  if (const StudyPoint* point = ring_to_show(sweep)) {
    const std::string name = curve_name(sweep, 0);
    page.section("Devices of one ring",
                 fmt::format("{} devices{}{}: what each has in use.", point->devices, name.empty() ? "" : ", ", name));
    page.figures(device_figures(*point));
  }
  if (sweep.failures) add_failures(*sweep.failures, page);
  page.section("Points");
  page.table(points_table(sweep), "All points as a table");
  page.footer(std::string(command));
  return std::move(page).html(series_style_sheet());
}

}  // namespace millrace
