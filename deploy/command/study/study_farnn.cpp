// `millrace study --paper farnn`: FARNN's figures by two readings of its elements, and its Figs 7 to 10 as the model draws them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/drawing/chart.h"
#include "core/drawing/colour.h"
#include "core/drawing/page.h"
#include "deploy/command/line/csv.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/command/study/study_flags.h"
#include "fpga/pe_chain/paper_rows.h"

namespace millrace {
namespace {

constexpr const char* kMissing =
    "Table 2 (elements of each unit) and the bars of the figures are not in the text at hand: the counts are inferred, seconds are "
    "modelled, and the paper prints ratios only. Deep Speech 2 is the paper's: 548 steps, 1,024 inputs a layer (the zoo's deepspeech2-lstm "
    "has 576 steps, and 2,048 inputs from its second layer on).";

std::string number_text(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : "-"; }

std::string difference_text(double model, double paper) {
  if (!std::isfinite(model) || paper == 0) return "-";
  return fmt::format("{:+.1f}%", 100 * (model / paper - 1));
}

std::string accepted_text(const FarnnRow& row) {
  if (row.least == row.most) return number_text(row.least);
  if (std::isinf(row.most)) return row.least > 0 ? fmt::format("from {}", number_text(row.least)) : "-";
  return row.least == 0 ? fmt::format("up to {}", number_text(row.most)) : fmt::format("{:.4g} to {:.4g}", row.least, row.most);
}

std::map<std::string, int> counts_of(const std::vector<FarnnRow>& rows, std::string_view FarnnRow::*verdict) {
  std::map<std::string, int> counts;
  for (const FarnnRow& row : rows) ++counts[std::string(row.*verdict)];
  return counts;
}

std::string counts_text(const std::vector<FarnnRow>& rows) {
  std::string text;
  for (const auto& [name, verdict] : {std::pair{"four", &FarnnRow::verdict_four}, std::pair{"wide", &FarnnRow::verdict_wide}}) {
    std::string line;
    for (const auto& [what, count] : counts_of(rows, verdict)) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, what);
    text += fmt::format("{}: {}, of {} rows\n", name, line, rows.size());
  }
  return text;
}

std::string rows_text(const std::vector<FarnnRow>& rows) {
  std::string text =
      "FARNN's figures and what this program models, by two readings of its elements to a unit: \"four\" 256 and 368, \"wide\" 416 and "
      "512 (LSTM on VU9P and VU13P)\n" +
      std::string(kMissing) + "\n\n";
  TextTable table({"quantity", "where", "paper", "four", "off", "verdict", "wide", "off", "verdict", "unit", "accepted"}, 2);
  for (const FarnnRow& row : rows)
    table.add({std::string(row.quantity), std::string(row.place), number_text(row.paper), number_text(row.four),
               difference_text(row.four, row.paper), std::string(row.verdict_four), number_text(row.wide),
               difference_text(row.wide, row.paper), std::string(row.verdict_wide), std::string(row.unit), accepted_text(row)});
  text += table.text() + "\n" + counts_text(rows) + "\n";
  for (const FarnnRow& row : rows)
    if (!row.note.empty()) text += fmt::format("{}: {}\n", row.quantity, row.note);
  text += "\nconstants\n";
  TextTable constants({"name", "value", "origin"}, 1);
  for (const Constant& constant : farnn_constants()) constants.add({constant.name, fmt::format("{:g}", constant.value), constant.origin});
  return text + constants.text();
}

std::string rows_json(const std::vector<FarnnRow>& rows) {
  Json json = {{"paper", "farnn"}, {"origin", "modelled"}, {"missing", kMissing}, {"rows", Json::array()}, {"curves", Json::array()}};
  for (const FarnnRow& row : rows)
    json["rows"].push_back({{"id", row.id},
                            {"quantity", row.quantity},
                            {"unit", row.unit},
                            {"source", row.place},
                            {"paper", number_or_null(row.paper)},
                            {"four", number_or_null(row.four)},
                            {"wide", number_or_null(row.wide)},
                            {"least", number_or_null(row.least)},
                            {"most", number_or_null(row.most)},
                            {"verdict", row.verdict_four},
                            {"verdict_wide", row.verdict_wide},
                            {"constants", row.constants},
                            {"note", row.note}});
  for (const FarnnCurve& curve : farnn_curves()) {
    Json series = Json::array();
    for (const FarnnSeries& line : curve.series) {
      Json points = Json::array();
      for (const auto& [x, y] : line.points) points.push_back({{"x", x}, {"model", y}});
      series.push_back({{"name", line.name}, {"points", std::move(points)}});
    }
    json["curves"].push_back(
        {{"id", curve.id}, {"title", curve.title}, {"x_label", curve.x_label}, {"y_label", curve.y_label}, {"series", std::move(series)}});
  }
  json["constants"] = Json::array();
  for (const Constant& constant : farnn_constants())
    json["constants"].push_back({{"name", constant.name}, {"value", constant.value}, {"origin", constant.origin}});
  json["counts"] = {{"four", counts_of(rows, &FarnnRow::verdict_four)}, {"wide", counts_of(rows, &FarnnRow::verdict_wide)}};
  return json_text(json);
}

std::string rows_csv(const std::vector<FarnnRow>& rows) {
  std::string text = "id,quantity,unit,source,paper,four,verdict,wide,verdict_wide,least,most,note\n";
  for (const FarnnRow& row : rows)
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", row.id, csv_text(row.quantity), row.unit, csv_text(row.place),
                        number_text(row.paper), number_text(row.four), row.verdict_four, number_text(row.wide), row.verdict_wide,
                        number_text(row.least), number_text(row.most), csv_text(row.note));
  return text;
}

LineChart chart_of(const FarnnCurve& curve) {
  LineChart chart{.label = curve.title, .x = {.label = std::string(curve.x_label)}, .y = {.label = std::string(curve.y_label), .least = 0}};
  constexpr Mark kMarks[] = {Mark::kCircle, Mark::kSquare, Mark::kTriangle, Mark::kDiamond};
  for (const FarnnSeries& line : curve.series) {
    const size_t index = chart.series.size();
    Series series{.name = std::string(line.name), .classes = series_class(index), .mark = kMarks[index % 4]};
    for (const auto& [x, y] : line.points) series.points.push_back({x, y});
    chart.series.push_back(std::move(series));
  }
  if (curve.y_label == "times faster") chart.references.push_back({.at = 1, .label = "as fast as cuDNN-Std"});
  return chart;
}

std::string rows_page(const std::vector<FarnnRow>& rows, const std::string& command) {
  Page page("FARNN", "a GPU and a board train recurrent layers together (modelled)");
  page.paragraph(kMissing);
  page.section("Figures", "What the paper's text says, and what this program gives by two readings of the elements to a unit.");
  Table table{.columns = {{.name = "quantity"},
                          {.name = "where"},
                          {.name = "paper", .number = true},
                          {.name = "four", .number = true},
                          {.name = "verdict"},
                          {.name = "wide", .number = true},
                          {.name = "verdict"},
                          {.name = "unit"},
                          {.name = "note"}}};
  table.label = "the paper's figures";
  for (const FarnnRow& row : rows)
    table.rows.push_back({.cells = {{.text = std::string(row.quantity)},
                                    {.text = std::string(row.place)},
                                    {.text = number_text(row.paper)},
                                    {.text = number_text(row.four)},
                                    {.text = std::string(row.verdict_four), .bad = row.verdict_four == "not reproduced"},
                                    {.text = number_text(row.wide)},
                                    {.text = std::string(row.verdict_wide), .bad = row.verdict_wide == "not reproduced"},
                                    {.text = std::string(row.unit)},
                                    {.text = row.note}}});
  page.table(table);
  page.preformatted(counts_text(rows));
  page.section("Curves",
               "Modelled: the bars of the paper's figures are not in the text. cuDNN-Std is calibrated at one point, 1,600 steps.");
  std::vector<Figure> figures;
  for (const FarnnCurve& curve : farnn_curves())
    figures.push_back({.title = curve.title, .note = "modelled", .drawing = draw(chart_of(curve))});
  page.figures(figures);
  page.section("Constants", "And where each comes from.");
  Table constants{.columns = {{.name = "name"}, {"value", true}, {.name = "origin"}}};
  constants.label = "constants of the model";
  for (const Constant& constant : farnn_constants())
    constants.rows.push_back(
        {.cells = {{.text = constant.name}, {.text = fmt::format("{:g}", constant.value)}, {.text = constant.origin}}});
  page.table(constants);
  page.footer(command);
  return std::move(page).html(series_style_sheet());
}

}  // namespace

int run_study_farnn(const StudyFlags& flags) {
  for (const char* name : {"--simulate", "--threads", "--catalogue"})
    if (std::ranges::find(flags.given, name) != flags.given.end())
      fail(ErrorCode::kUsage,
           "{} has no effect with --paper farnn, a performance model of the paper's own machines; leave one of the two out", name);
  const std::vector<FarnnRow> rows = farnn_rows();
  const std::string json = rows_json(rows);
  write_out(flags.json ? json : rows_text(rows));
  if (!flags.out.empty()) {
    make_folders(flags.out);
    std::vector<std::pair<std::string, std::string>> drawings;
    for (const FarnnCurve& curve : farnn_curves())
      drawings.emplace_back(
          curve.id + ".svg",
          standalone_svg(draw(chart_of(curve)), {.title = curve.title, .note = "modelled", .style_sheet = series_style_sheet()}));
    std::vector<std::pair<const char*, std::string>> files = {
        {"rows.csv", rows_csv(rows)}, {"study.json", json}, {"index.html", rows_page(rows, flags.command)}};
    for (const auto& [name, text] : drawings) files.emplace_back(name.c_str(), text);
    write_study(flags.out, files);
  }
  // That the GPU's time does not come out of its bandwidth is known; what fails besides is news. The reading "wide" is there to be
  // compared.
  const auto news =
      std::ranges::count_if(rows, [](const FarnnRow& row) { return row.verdict_four == "not reproduced" && row.expected_to_hold; });
  if (news == 0) return 0;
  fmt::print(stderr, "millrace: {} of {} figures are not reproduced\n", news, rows.size());
  return 1;
}

}  // namespace millrace
