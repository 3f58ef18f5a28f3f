#include "node/simulate/simulation_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/drawing/chart.h"
#include "core/drawing/page.h"
#include "core/drawing/quantity.h"
#include "core/plan/seats.h"
#include "node/simulate/schedule_figure.h"

namespace millrace {
namespace {

constexpr const char* kSimulated = "simulated";

struct Waiting {
  const char* name;
  const char* column;
  const char* classes;
  double IdleShares::*share;
};
constexpr Waiting kWaiting[] = {{"rows or errors", "for rows", "activation", &IdleShares::input},
                                {"room downstream", "room", "error", &IdleShares::output},
                                {"parameters from elsewhere", "parameters", "parameter", &IdleShares::parameters},
                                {"the update", "update", "busy", &IdleShares::update}};

// One of each few neighbours where there are more than a chart shows: the one for which `value` is largest.
template <typename Value>
std::vector<size_t> columns_of(size_t count, const Value& value) {
  const size_t together = (count + kMostSimulatedColumns - 1) / kMostSimulatedColumns;
  std::vector<size_t> columns;
  for (size_t begin = 0; begin < count; begin += std::max<size_t>(1, together)) {
    size_t best = begin;
    for (size_t i = begin; i < std::min(count, begin + together); ++i)
      if (value(i) > value(best)) best = i;
    columns.push_back(best);
  }
  return columns;
}

std::string neighbours_note(size_t count) {
  if (count <= kMostSimulatedColumns) return "";
  return fmt::format(". Of every {} neighbours the one with the most is shown.",
                     (count + kMostSimulatedColumns - 1) / kMostSimulatedColumns);
}

void add_tiles(Page& page, const Plan& plan, const SimulationResult& result, const SimulationForecast& forecast) {
  std::vector<Tile> tiles;
  const double pace = compared_pace(result, forecast);
  const double difference = forecast.images_per_second > 0 ? pace / forecast.images_per_second - 1 : 0;
  tiles.push_back({.name = "Throughput",
                   .value = significant(pace, 4),
                   .unit = forecast.many + "/s",
                   .note = fmt::format("over {}", part_of_pace(plan, forecast)),
                   .origin = kSimulated});
  if (forecast.images_per_second > 0)
    tiles.push_back({.name = "The plan's",
                     .value = significant(forecast.images_per_second, 4),
                     .unit = forecast.many + "/s",
                     .note = fmt::format("simulated {:+.2f}%", 100 * difference),
                     .origin = "modelled"});
  tiles.push_back({.name = "Engines waiting",
                   .value = percent(result.idle_fraction),
                   .note = fmt::format("of their time, on average over the {}", folds(plan.cluster) ? "cards" : "devices"),
                   .origin = kSimulated});
  tiles.push_back({.name = "In flight",
                   .value = fmt::format("{}", result.in_flight_samples),
                   .unit = "samples",
                   .note = forecast.in_flight_samples > 0 ? fmt::format("the plan counts with {}", forecast.in_flight_samples) : "",
                   .origin = kSimulated});
  tiles.push_back(
      {.name = "First " + forecast.one,
       .value = duration(1e-12 * static_cast<double>(result.fill_picoseconds)),
       .note = plan.purpose == Purpose::kInference ? "from its first row to its last" : "from its first row to its last gradient",
       .origin = kSimulated});
  tiles.push_back({.name = "Virtual time",
                   .value = duration(1e-12 * static_cast<double>(result.picoseconds)),
                   .note = fmt::format("for {} {}{}", result.samples, forecast.many,
                                       plan.purpose == Purpose::kInference ? "" : fmt::format(", mini-batches of {}", plan.mini_batch)),
                   .origin = kSimulated});
  tiles.push_back({.name = "Simulated in",
                   .value = duration(result.wall_seconds),
                   .note = fmt::format("{} events", separated(result.events)),
                   .origin = "measured"});
  page.tiles(tiles);
}

void add_verdict(Page& page, const Plan& plan, const SimulationResult& result, const SimulationForecast& forecast) {
  const double pace = compared_pace(result, forecast);
  const double difference = forecast.images_per_second > 0 ? pace / forecast.images_per_second - 1 : 0;
  std::string headline = "The ring keeps the plan's pace.";
  if (forecast.images_per_second <= 0) headline = fmt::format("The ring does {} {}/s.", significant(pace, 4), forecast.many);
  if (difference < -0.01) headline = fmt::format("The ring is {} slower than its plan.", percent(-difference));
  if (difference > 0.01) headline = fmt::format("The ring is {} faster than its plan.", percent(difference));
  std::vector<std::string> sentences;
  for (const SimulationFinding& finding : findings(plan, result, forecast)) sentences.push_back(finding.text + ".");
  page.section("Against the plan");
  page.verdict(headline, sentences);
}

void add_progress(Page& page, const SimulationResult& result, const SimulationForecast& forecast) {
  std::string samples = forecast.many;
  LineChart chart{.label = samples + " done by virtual time", .x = {.label = "ms"}, .y = {.label = samples, .least = 0}};
  Series begun{.name = "begun", .points = {}, .classes = "s1", .dashed = true};
  Series done{.name = "done", .points = {}, .classes = "s0"};
  const size_t step = std::max<size_t>(1, result.finished.size() / 500);
  for (size_t s = 0; s < result.finished.size(); s += step) {
    begun.points.push_back({1e-9 * static_cast<double>(result.begun[s]), static_cast<double>(s + 1)});
    done.points.push_back({1e-9 * static_cast<double>(result.finished[s]), static_cast<double>(s + 1)});
  }
  chart.series = {done, begun};
  samples.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(samples.front())));
  page.section(samples + " over time", "What lies between the two lines at one moment is in flight.");
  page.figure({.title = "Begun and done", .note = "simulated", .drawing = draw(chart)});
}

// Without training there are no errors, no parameters come from elsewhere and nothing is updated.
bool comes_about(const Waiting& waiting, const Plan& plan) {
  return plan.purpose == Purpose::kTraining || (waiting.share != &IdleShares::parameters && waiting.share != &IdleShares::update);
}
const char* name_of(const Waiting& waiting, const Plan& plan) {
  return plan.purpose == Purpose::kInference && waiting.share == &IdleShares::input ? "rows" : waiting.name;
}

void add_waiting(Page& page, const Plan& plan, const SimulationResult& result) {
  page.section("Waiting", "What engines wait for when they do not work, as shares of their time in the steady half.");
  StackedColumns chart{.label = "Waiting by device", .y = {.label = "% of the engines' time", .suffix = "%"}, .x_label = "device"};
  for (const size_t d : columns_of(result.devices.size(), [&](size_t i) { return result.devices[i].idle.all(); })) {
    const SimulatedDevice& device = result.devices[d];
    Column column{.name = fmt::format("{}", device.index), .parts = {}};
    std::string all;
    for (const Waiting& waiting : kWaiting) {
      if (!comes_about(waiting, plan)) continue;
      const double share = device.idle.*waiting.share;
      column.parts.push_back({.amount = 100 * share,
                              .classes = waiting.classes,
                              .tooltip = fmt::format("device {}: {} for {}", device.index, percent(share), name_of(waiting, plan))});
      all += fmt::format("{}{} for {}", all.empty() ? "" : ", ", percent(share), name_of(waiting, plan));
    }
    column.tooltip = fmt::format("device {}: {}", device.index, all);
    chart.columns.push_back(std::move(column));
  }
  Drawing drawing = draw(chart);
  drawing.legend.clear();
  for (const Waiting& waiting : kWaiting)
    if (comes_about(waiting, plan))
      drawing.legend.push_back({.name = fmt::format("for {}", name_of(waiting, plan)), .classes = {waiting.classes}});
  page.figure(
      {.title = "Waiting time by cause", .note = "simulated" + neighbours_note(result.devices.size()), .drawing = std::move(drawing)});
}

void add_links(Page& page, const SimulationResult& result) {
  if (result.links.empty()) return;
  page.section("Links", "What crosses each link, at the simulated rate.");
  StackedColumns chart{.label = "Load of every link",
                       .y = {.label = "Gb/s"},
                       .x_label = "link, by the device before it",
                       .above = "forward",
                       .under = "back"};
  for (const size_t l : columns_of(result.links.size(), [&](size_t i) { return result.links[i].utilisation; })) {
    const SimulatedLink& link = result.links[l];
    const double forward = 1e-9 * link.forward_bits_per_image * result.images_per_second;
    const double backward = 1e-9 * link.backward_bits_per_image * result.images_per_second;
    const char* classes = link.utilisation > 0.95 ? "full" : link.utilisation > 0.7 ? "busy" : "calm";
    Column column{.name = fmt::format("{}", link.from),
                  .parts = {{.amount = forward, .classes = classes}},
                  .below = {{.amount = backward, .classes = classes}}};
    column.tooltip = fmt::format("link {} to {}: {} Gb/s forward, {} back, {} used", link.from, link.to, significant(forward),
                                 significant(backward), percent(link.utilisation));
    chart.columns.push_back(std::move(column));
  }
  Drawing drawing = draw(chart);
  drawing.legend.clear();
  drawing.legend.push_back({.name = "below 70% of the link", .classes = {"calm"}});
  drawing.legend.push_back({.name = "below 95%", .classes = {"busy"}});
  drawing.legend.push_back({.name = "full", .classes = {"full"}});
  page.figure({.title = "Load by link", .note = "simulated" + neighbours_note(result.links.size()), .drawing = std::move(drawing)});
}

void add_memory(Page& page, const SimulationResult& result) {
  page.section("Memory", "The most that activations took at one moment, and what the plan has for them (line).");
  StackedColumns chart{.label = "Activations by device", .y = {.label = "Mb"}, .x_label = "device"};
  const auto over = [&](size_t i) { return static_cast<double>(result.devices[i].act_ram_peak_bits); };
  for (const size_t d : columns_of(result.devices.size(), over)) {
    const SimulatedDevice& device = result.devices[d];
    const bool more = device.act_ram_peak_bits > device.act_ram_plan_bits;
    Column column{.name = fmt::format("{}", device.index),
                  .parts = {{.amount = 1e-6 * static_cast<double>(device.act_ram_peak_bits), .classes = more ? "full" : "held"}}};
    column.limit = 1e-6 * static_cast<double>(device.act_ram_plan_bits);
    column.tooltip = fmt::format(
        "device {}: {} at most, the plan has {}; FIFOs {} more", device.index, quantity(static_cast<double>(device.act_ram_peak_bits), "b"),
        quantity(static_cast<double>(device.act_ram_plan_bits), "b"), quantity(static_cast<double>(device.fifo_peak_bits), "b"));
    chart.columns.push_back(std::move(column));
  }
  Drawing drawing = draw(chart);
  drawing.legend.clear();
  drawing.legend.push_back({.name = "within the plan's", .classes = {"held"}});
  drawing.legend.push_back({.name = "more than the plan has", .classes = {"full"}});
  page.figure({.title = "Act-RAM",
               .note = "simulated; the line is modelled" + neighbours_note(result.devices.size()),
               .drawing = std::move(drawing)});
}

void add_table(Page& page, const Plan& plan, const SimulationResult& result) {
  Table table;
  table.label = "Every device";
  table.columns.push_back({.name = "device", .unbroken = true});
  std::vector<const char*> names{"waiting"};
  for (const Waiting& waiting : kWaiting)
    if (comes_about(waiting, plan)) names.push_back(waiting.column);
  names.insert(names.end(), {"Act-RAM", "plan's", "FIFOs", "Gb/s forward", "back", "link used"});
  for (const char* name : names) table.columns.push_back({.name = name, .number = true});
  for (size_t d = 0; d < result.devices.size(); ++d) {
    const SimulatedDevice& device = result.devices[d];
    Table::Row row;
    const auto add = [&](std::string text) { row.cells.push_back({.text = std::move(text)}); };
    add(fmt::format("{} {}", device.index, plan.cluster.devices[d].name));
    add(percent(device.idle_fraction));
    for (const Waiting& waiting : kWaiting)
      if (comes_about(waiting, plan)) add(percent(device.idle.*waiting.share));
    add(quantity(static_cast<double>(device.act_ram_peak_bits), "b"));
    add(quantity(static_cast<double>(device.act_ram_plan_bits), "b"));
    add(quantity(static_cast<double>(device.fifo_peak_bits), "b"));
    if (d < result.links.size()) {
      add(significant(1e-9 * result.links[d].forward_bits_per_image * result.images_per_second));
      add(significant(1e-9 * result.links[d].backward_bits_per_image * result.images_per_second));
      add(percent(result.links[d].utilisation));
    } else {
      for (int i = 0; i < 3; ++i) add("");
    }
    table.rows.push_back(std::move(row));
  }
  page.section("Devices");
  page.table(table, result.devices.size() > 24 ? "all devices" : "");
}

std::string schedule_text(const Plan& plan, const SimulationForecast& forecast) {
  if (plan.purpose == Purpose::kInference)
    return fmt::format("forward passes alone, {} {} side by side", plan.micro_batch, plan.micro_batch == 1 ? forecast.one : forecast.many);
  return fmt::format("{} alignment, mini-batches of {} in micro-batches of {}", name_of(plan.alignment), plan.mini_batch, plan.micro_batch);
}

}  // namespace

std::string simulation_page(const Plan& plan, const SimulationResult& result, const SimulationForecast& forecast,
                            const std::string& command) {
  Page page(
      fmt::format("{} in virtual time", plan.model.name.empty() ? "a network" : plan.model.name),
      fmt::format("{} {} through a {} plan for {} device{}, row by row: {}; planned with {} accounting.", result.samples, forecast.many,
                  plan.strategy, plan.devices(), plan.devices() == 1 ? "" : "s", schedule_text(plan, forecast), name_of(plan.accounting)));
  add_tiles(page, plan, result, forecast);
  add_verdict(page, plan, result, forecast);
  add_progress(page, result, forecast);
  if (shows_schedule(plan, result)) {
    page.section("One mini-batch",
                 "Who works when, on what: a bar is an action on a micro-batch, or the chunks of it that follow each other.");
    page.figure(schedule_figure(plan, result));
  }
  add_waiting(page, plan, result);
  add_links(page, result);
  add_memory(page, result);
  add_table(page, plan, result);
  if (!command.empty()) {
    page.section("Made by");
    page.preformatted(command);
  }
  page.footer(
      "Simulated figures come from a model of engines, buffers and links in virtual time, with the times of the plan's cost models; "
      "nothing "
      "here was measured but the time the simulation took.");
  return std::move(page).html();
}

}  // namespace millrace
