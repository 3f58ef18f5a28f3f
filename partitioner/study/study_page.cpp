#include "partitioner/study/study_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/drawing/chart.h"
#include "core/drawing/colour.h"
#include "core/drawing/page.h"
#include "core/drawing/quantity.h"

namespace millrace {
namespace {

constexpr const char* kDevicesAxis = "devices";

// A line over the feasible points.
template <typename Value>
Series series_of(const Study& study, std::string name, size_t colour, const Value& value) {
  Series series{.name = std::move(name), .points = {}, .classes = series_class(colour)};
  for (const StudyPoint& point : study.points)
    if (point.feasible) series.points.push_back({static_cast<double>(point.devices), value(point)});
  if (series.points.size() <= 24) series.mark = Mark::kCircle;
  return series;
}

template <typename Value>
LineChart chart_of(const Study& study, std::string label, std::string unit, std::string name, const Value& value) {
  LineChart chart{.label = std::move(label), .x = {.label = kDevicesAxis}, .y = {.label = std::move(unit), .least = 0}, .series = {}};
  chart.series.push_back(series_of(study, std::move(name), 0, value));
  return chart;
}

LineChart throughput_chart(const Study& study) {
  LineChart chart = chart_of(study, "Throughput by number of devices", "images/s", "within the links' budget",
                             [](const StudyPoint& point) { return point.images_per_second; });
  chart.series.push_back(series_of(study, "devices alone", 1, [](const StudyPoint& point) { return point.full_speed_images_per_second; }));
  chart.series.back().dashed = true;
  chart.series.back().mark = Mark::kNone;
  Series simulated{.name = "simulated", .points = {}, .classes = series_class(2), .line = false, .mark = Mark::kDiamond};
  for (const StudyPoint& point : study.points)
    if (point.simulated) simulated.points.push_back({static_cast<double>(point.devices), point.simulated->images_per_second});
  if (!simulated.points.empty()) chart.series.push_back(std::move(simulated));
  if (study.linear_up_to > 0 && study.first_slowed > 0)
    chart.references.push_back(
        {.at = static_cast<double>(study.linear_up_to), .vertical = true, .label = fmt::format("{}", study.linear_up_to)});
  return chart;
}

LineChart link_chart(const StudyTask& task, const Study& study) {
  const bool both = task.link.shared_gbps > 0;
  LineChart chart = chart_of(study, "Load of the fullest link by number of devices", "Gb/s", "one direction",
                             [](const StudyPoint& point) { return point.max_link_gbps; });
  chart.series.push_back(series_of(study, "both directions", 1, [](const StudyPoint& point) { return point.max_link_gbps_both; }));
  chart.references.push_back({.at = both ? task.link.shared_gbps : std::min(task.link.forward_gbps, task.link.backward_gbps),
                              .label = both ? "budget, both" : "budget, one direction"});
  return chart;
}

Table points_table(const Study& study) {
  Table table;
  table.label = "Every point of the study";
  for (const char* name : {"devices", "images/s", "devices alone", "h/epoch", "idle", "Gb/s one way", "both", "memory"})
    table.columns.push_back({.name = name, .number = true});
  table.columns.push_back({.name = "limited by"});
  for (const StudyPoint& point : study.points) {
    Table::Row row;
    const auto add = [&](std::string text) { row.cells.push_back({.text = std::move(text)}); };
    add(fmt::format("{}", point.devices));
    if (point.feasible) {
      add(significant(point.images_per_second, 4));
      add(significant(point.full_speed_images_per_second, 4));
      add(significant(point.hours_per_epoch));
      add(percent(point.idle_fraction));
      add(significant(point.max_link_gbps));
      add(significant(point.max_link_gbps_both));
      add(percent(point.memory_fraction));
      add(fmt::format("{} {}", point.bottleneck.kind, point.bottleneck.index));
    } else {
      for (size_t i = 1; i + 1 < table.columns.size(); ++i) add("");
      add(point.reason);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string headline(const StudyTask& task, const Study& study) {
  const auto infeasible = [](const StudyPoint& point) { return !point.feasible; };
  if (std::all_of(study.points.begin(), study.points.end(), infeasible)) return "No ring of this size holds the model.";
  const std::string links = fmt::format("the links ({})", link_text(task.link));
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
  if (count > 3) sentences.push_back(fmt::format("{} rings more are infeasible.", count - 3));
  return sentences;
}

int64_t count_of(const std::vector<PaperRow>& rows, Verdict verdict) {
  return std::count_if(rows.begin(), rows.end(), [&](const PaperRow& row) { return row.verdict == verdict; });
}

// One line per network where a figure has several: the paper's number and the model's.
GroupedColumns agreement_chart(const std::vector<PaperRow>& rows) {
  GroupedColumns chart{.label =
                           "Model over paper: GOPS, GOPS per joule, hours per epoch at 0.82 of the rate, linear limit at 150 Gb/s, the "
                           "same with inputs bypassed whole",
                       .y = {.label = "model over paper, %", .least = 0},
                       .x_label = "",
                       .groups = {"GOPS", "GOPS/J", "hours", "150 Gb/s", "bypass"},
                       .members = {}};
  constexpr std::array<std::string_view, 5> kIds = {"gops", "gops_per_joule", "hours_scaled", "linear_150", "bypass_150"};
  size_t colour = 0;
  for (const std::string_view network : {"alexnet", "vgg16", "vgg19"}) {
    GroupedColumns::Member member{.name = std::string(network), .values = {}, .classes = series_class(colour++)};
    for (const std::string_view id : kIds) {
      double value = std::nan("");
      for (const PaperRow& row : rows)
        if (row.figure.id == id && row.figure.network == network && row.difference()) value = 100 * (1 + *row.difference());
      member.values.push_back(value);
    }
    chart.members.push_back(std::move(member));
  }
  chart.references.push_back({.at = 100, .label = "as the paper"});
  return chart;
}

}  // namespace

std::string link_text(const LinkEntry& link) {
  if (link.shared_gbps > 0) return fmt::format("{:.6g} Gb/s, both directions together", link.shared_gbps);
  if (link.forward_gbps == link.backward_gbps) return fmt::format("{:.6g} Gb/s each way", link.forward_gbps);
  return fmt::format("{:.6g} Gb/s forward and {:.6g} back", link.forward_gbps, link.backward_gbps);
}

std::string study_page(const StudyTask& task, const Study& study, std::string_view command) {
  const std::string& model = task.graph->model().name;
  Page page(fmt::format("{} on rings of {}", model, task.device),
            fmt::format("{} parallelism, {} alignment, mini-batches of {}, {} elements; links of {}. Everything is modelled.",
                        name_of(task.options.strategy), name_of(task.options.alignment), task.options.mini_batch,
                        name_of(task.options.arithmetic.wire), link_text(task.link)));
  page.verdict(headline(task, study), infeasible_sentences(study));
  page.section("Throughput", "How fast the ring is, and how fast its devices alone would be, with links that never bind.");
  page.figure({.title = "Throughput", .note = "modelled", .drawing = draw(throughput_chart(study))});
  page.section("Epochs and idle stages");
  page.figures({{.title = "Epochs per hour",
                 .note = fmt::format("epochs of {} images", separated(static_cast<int64_t>(task.epoch_images))),
                 .drawing = draw(chart_of(study, "Epochs per hour by number of devices", "epochs/h", "epochs per hour",
                                          [](const StudyPoint& point) { return 1 / point.hours_per_epoch; }))},
                {.title = "Idle stages",
                 .note = "of the engines' time, mean over the devices",
                 .drawing = draw(chart_of(study, "Idle stages by number of devices", "%", "idle",
                                          [](const StudyPoint& point) { return 100 * point.idle_fraction; }))}});
  page.section("Links and memory");
  LineChart memory = chart_of(study, "Fullest memory by number of devices", "%", "fullest memory",
                              [](const StudyPoint& point) { return 100 * point.memory_fraction; });
  memory.references.push_back({.at = 100, .label = "full"});
  page.figures({{.title = "Fullest link", .note = "at the ring's rate", .drawing = draw(link_chart(task, study))},
                {.title = "Fullest memory", .note = "of the memory that parameters share", .drawing = draw(memory)}});
  page.section("Points");
  page.table(points_table(study), "All points as a table");
  page.footer(std::string(command));
  return std::move(page).html(series_style_sheet());
}

std::string figure_text(double value, std::string_view unit) {
  if (std::isnan(value)) return "-";
  if (unit == "yes/no") return value != 0 ? "yes" : "no";
  if (std::abs(value) >= 1000 && value == std::floor(value)) return separated(static_cast<int64_t>(value));
  return fmt::format("{:.4g}", value);
}

std::string quantity_text(const FpdeepFigure& figure) {
  const bool told = figure.unit == "%" || figure.unit == "G" || figure.unit == "Gb/s";
  return told ? fmt::format("{} ({})", figure.quantity, figure.unit) : std::string(figure.quantity);
}

std::string accepted_text(const FpdeepFigure& figure) {
  std::string least = figure_text(figure.least, figure.unit);
  std::string most = figure_text(figure.most, figure.unit);
  if (figure.least == figure.most) return least;
  if (least == most) {
    least = fmt::format("{:.6g}", figure.least);
    most = fmt::format("{:.6g}", figure.most);
  }
  if (std::isinf(figure.most)) return figure.least == 0 ? "-" : "at least " + least;
  return figure.least == 0 ? "at most " + most : fmt::format("{} to {}", least, most);
}

std::string paper_text(const FpdeepFigure& figure) {
  if (std::isnan(figure.paper)) return figure.paper_text.empty() ? "-" : std::string(figure.paper_text);
  return fmt::format("{}{}{}", figure.paper_text, figure.paper_text.empty() ? "" : " ", figure_text(figure.paper, figure.unit));
}

std::string difference_text(const PaperRow& row) {
  const std::optional<double> difference = row.difference();
  return difference ? fmt::format("{:+.1f}%", 100 * *difference) : "-";
}

std::string paper_page(const std::vector<PaperRow>& rows, std::string_view command) {
  Page page("FPDeep, reproduced", "Every figure of the paper's text that a plan can answer, beside what this program models.");
  const auto tile = [&](const char* name, Verdict verdict) {
    return Tile{.name = name, .value = fmt::format("{}", count_of(rows, verdict)), .origin = "counted"};
  };
  page.tiles({tile("hold", Verdict::kHolds), tile("paper contradicts itself", Verdict::kPaperContradictsItself),
              tile("not reproduced", Verdict::kNotReproduced), tile("reported beside", Verdict::kReported)});
  page.section(
      "Agreement",
      "Model over paper, in per cent: GOPS per FPGA, GOPS per joule, hours per epoch at 0.82 of the rate, boards that stay linear at "
      "150 Gb/s, and the same with inputs bypassed whole at the paper's rates.");
  page.figure({.title = "Model over paper", .note = "modelled over paper", .drawing = draw(agreement_chart(rows))});
  page.section("Figures", "The same constants for all rows; where each comes from stands beside it.");
  Table table;
  table.label = "Figures of the paper and of the model";
  table.columns = {{.name = "quantity"},
                   {.name = "network"},
                   {.name = "paper", .number = true},
                   {.name = "model", .number = true},
                   {.name = "off by", .number = true},
                   {.name = "accepted", .unbroken = true},
                   {.name = "verdict", .unbroken = true},
                   {.name = "rests on"}};
  std::string before;
  for (const PaperRow& row : rows) {
    Table::Row line;
    const std::string quantity = quantity_text(row.figure);
    line.starts = quantity != before;
    before = quantity;
    const std::string tooltip = fmt::format("{}{}{}", row.figure.source, row.note.empty() ? "" : "; ", row.note);
    line.cells = {{.text = line.starts ? quantity : "", .tooltip = tooltip},
                  {.text = std::string(row.figure.network)},
                  {.text = paper_text(row.figure), .tooltip = tooltip},
                  {.text = figure_text(row.model, row.figure.unit), .tooltip = tooltip},
                  {.text = difference_text(row)},
                  {.text = accepted_text(row.figure)},
                  {.text = std::string(name_of(row.verdict)),
                   .tooltip = std::string(row.figure.contradiction),
                   .bad = row.verdict == Verdict::kNotReproduced},
                  {.text = line.starts ? row.origin : ""}};
    table.rows.push_back(std::move(line));
  }
  page.table(table);
  page.section("Where the paper contradicts itself");
  std::vector<std::pair<std::string, std::string>> contradictions;
  for (const PaperRow& row : rows)
    if (row.verdict == Verdict::kPaperContradictsItself &&
        (contradictions.empty() || contradictions.back().second != row.figure.contradiction))
      contradictions.emplace_back(row.figure.quantity, row.figure.contradiction);
  page.facts(contradictions);
  page.footer(std::string(command));
  return std::move(page).html(series_style_sheet());
}

}  // namespace millrace
