#include "partitioner/study/paper_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/drawing/chart.h"
#include "core/drawing/colour.h"
#include "core/drawing/page.h"
#include "core/drawing/quantity.h"
#include "partitioner/study/study_charts.h"

namespace millrace {
namespace {

constexpr std::ptrdiff_t kSimulatedColumn = 5;

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

std::string simulated_text(const PaperRow& row) {
  if (!row.simulated) return "-";
  return figure_text(*row.simulated, row.figure.unit) + (row.simulated_verdict == Verdict::kNotReproduced ? " (outside)" : "");
}

namespace {

void add_curves(const FpdeepReport& report, Page& page) {
  if (report.networks.empty()) return;
  page.section(
      "Throughput and its roof, idle stages, epochs per hour",
      "5 to 100 boards within 150 Gb/s, both directions together, as in Figs 15 and 16; as there, for rings whose memory may not hold "
      "the model.");
  for (const StudySweep& network : report.networks) {
    const std::string name = network.curves.front().task.graph->model().name;
    const char* note = simulates(network) ? "lines modelled, diamonds simulated" : "modelled";
    page.figure({.title = name + ": throughput", .note = note, .drawing = draw(throughput_chart(network))});
    page.figures({{.title = name + ": idle stages", .note = "with the time that links cost", .drawing = draw(idle_chart(network))},
                  {.title = name + ": epochs per hour", .note = "of 1,281,167 images, modelled", .drawing = draw(epochs_chart(network))}});
  }
  page.section("15 boards", "What each board has in use, as in Fig 14; parameters where they are used, so that memory may be overfull.");
  for (const StudySweep& network : report.networks)
    for (const StudyPoint& point : network.curves.front().study.points)
      if (point.devices == 15 && point.feasible) {
        std::vector<Figure> figures = device_figures(point);
        for (Figure& figure : figures) figure.title = network.curves.front().task.graph->model().name + ": " + figure.title;
        page.figures(figures);
      }
  page.section("Strategies", "VGG-16 by the four metrics of Fig 5, in closed form.");
  page.figures(strategy_figures(report.strategies));
  page.section("1-D against 2-D",
               "conv2_1, conv2_2 and conv3_1 of VGG-16, as in Fig 10, in closed form: bits per port of the slowest link, which "
               "hold at any moment, so that there is nothing to simulate.");
  page.figure({.title = "Slowest link", .note = "modelled; lower is better", .drawing = draw(wiring_chart(report.wirings))});
}

}  // namespace

std::string paper_page(const FpdeepReport& report, std::string_view command) {
  const std::vector<PaperRow>& rows = report.rows;
  const bool simulated = std::any_of(rows.begin(), rows.end(), [](const PaperRow& row) { return row.simulated.has_value(); });
  Page page("FPDeep, reproduced",
            "Every figure of the paper's text that a plan can answer, beside what this program models with fpdeep accounting.");
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
  add_curves(report, page);
  page.section("Figures", "The same constants for all rows; where each comes from stands beside it.");
  Table table;
  table.label = "Figures of the paper and of the model";
  table.columns = {{.name = "quantity"},
                   {.name = "network"},
                   {.name = "paper", .number = true},
                   {.name = "model", .number = true},
                   {.name = "off by", .number = true},
                   {.name = "simulated", .number = true},
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
                  {.text = simulated_text(row),
                   .tooltip = row.simulated_note,
                   .bad = row.simulated && row.simulated_verdict == Verdict::kNotReproduced},
                  {.text = accepted_text(row.figure)},
                  {.text = std::string(name_of(row.verdict)),
                   .tooltip = std::string(row.figure.contradiction.empty() ? row.figure.otherwise : row.figure.contradiction),
                   .bad = row.verdict == Verdict::kNotReproduced},
                  {.text = line.starts ? row.origin : ""}};
    if (!simulated) line.cells.erase(line.cells.begin() + kSimulatedColumn);
    table.rows.push_back(std::move(line));
  }
  if (!simulated) table.columns.erase(table.columns.begin() + kSimulatedColumn);
  page.table(table);
  page.section("Constants and rules", fmt::format("In rows of memory {}.", kFpdeepMemoryModel));
  Table constants;
  constants.label = "What the figures rest on";
  constants.columns = {{.name = "name", .unbroken = true}, {.name = "value", .number = true}, {.name = "origin"}, {.name = "where from"}};
  for (const CatalogueValue& value : report.constants)
    constants.rows.push_back({.cells = {{.text = value.name},
                                        {.text = fmt::format("{:.6g}{}", value.value, value.unit == "1" ? "" : " " + value.unit)},
                                        {.text = value.origin},
                                        {.text = value.note}}});
  page.table(constants);
  page.section("Where the paper contradicts itself");
  std::vector<std::pair<std::string, std::string>> contradictions;
  for (const PaperRow& row : rows)
    if (row.verdict == Verdict::kPaperContradictsItself &&
        (contradictions.empty() || contradictions.back().second != row.figure.contradiction))
      contradictions.emplace_back(row.figure.quantity, row.figure.contradiction);
  page.facts(contradictions);
  std::vector<std::pair<std::string, std::string>> otherwise;
  for (const PaperRow& row : rows)
    if (row.verdict == Verdict::kNotReproduced && !row.figure.otherwise.empty())
      otherwise.emplace_back(row.figure.quantity, row.figure.otherwise);
  if (!otherwise.empty()) {
    page.section("Where the model disagrees with the paper");
    page.facts(otherwise);
  }
  page.footer(std::string(command));
  return std::move(page).html(series_style_sheet());
}

}  // namespace millrace
