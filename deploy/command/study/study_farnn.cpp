// `millrace study --paper farnn`: FARNN's figures by two readings of its elements, and its Figs 7 to 10 as the model draws them; with
// --simulate once more from training steps that are simulated.
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
#include "deploy/command/study/farnn_simulated.h"
#include "deploy/command/study/study_flags.h"
#include "fpga/pe_chain/paper_rows.h"

namespace millrace {
namespace {

constexpr const char* kMissing =
    "Table 2 (elements of each unit) and the bars of the figures are not in the text at hand: the counts are inferred, seconds are "
    "modelled, and the paper prints ratios only. Deep Speech 2 is the paper's: 548 steps, 1,024 inputs a layer (the zoo's deepspeech2-lstm "
    "has 576 steps, and 2,048 inputs from its second layer on).";

constexpr const char* kSimulated =
    "Simulated: the pair as a plan with the same times of a layer's parts, run event by event: 16 chunks in time, which the board fetches "
    "two "
    "ahead, one memory of weights, links as fast as loads; directions are layers one behind the other. Training here takes the products "
    "in chunks, too, but weights arrive beside the steps before, so no training runs that schedule.";
constexpr double kExplained = 0.01;  // of a difference: what is larger has a remark

// What both ways of answering gave; the second empty without --simulate.
struct FarnnStudy {
  std::vector<FarnnRow> rows, simulated;
  std::vector<FarnnCurve> curves, simulated_curves;

  bool has_simulated() const { return !simulated.empty(); }
  // Of a row that is made of training steps, else null.
  const FarnnRow* simulated_of(size_t row) const { return has_simulated() && simulated[row].timed ? &simulated[row] : nullptr; }
};

double relative(double simulated, double model) { return simulated / model - 1; }
std::string relative_text(double simulated, double model) { return fmt::format("{:+.2f}%", 100 * relative(simulated, model)); }

// Where the two differ by more than a hundredth, and why.
std::vector<std::string> remarks_of(const FarnnStudy& study) {
  std::vector<std::string> remarks;
  const auto large = [](double simulated, double model) { return std::fabs(relative(simulated, model)) > kExplained; };
  for (size_t r = 0; r < study.rows.size(); ++r) {
    const FarnnRow& row = study.rows[r];
    const FarnnRow* simulated = study.simulated_of(r);
    if (simulated == nullptr || (!large(simulated->four, row.four) && !large(simulated->wide, row.wide))) continue;
    remarks.push_back(fmt::format("{}: simulated {} (four) and {} (wide): {}", row.quantity, relative_text(simulated->four, row.four),
                                  relative_text(simulated->wide, row.wide), farnn_difference(row.id)));
  }
  for (size_t c = 0; c < study.simulated_curves.size(); ++c) {
    const FarnnCurve& curve = study.curves[c];
    for (size_t s = 0; s < curve.series.size(); ++s) {
      const FarnnSeries& line = curve.series[s];
      std::vector<std::string> where;
      for (size_t i = 0; i < line.points.size(); ++i) {
        const auto [x, model] = line.points[i];
        const double simulated = study.simulated_curves[c].series[s].points[i].second;
        if (large(simulated, model)) where.push_back(fmt::format("{} at {:g} {}", relative_text(simulated, model), x, curve.x_label));
      }
      if (where.empty()) continue;
      const std::string_view what = line.name == "NoOverlap" ? "no_overlap" : std::string_view(curve.id).substr(0, curve.id.find('_'));
      remarks.push_back(fmt::format("{}, {}: simulated {}: {}", curve.id, line.name, fmt::join(where, ", "), farnn_difference(what)));
    }
  }
  return remarks;
}

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

std::string counts_text(const FarnnStudy& study) {
  std::string text;
  for (const auto& [name, verdict] : {std::pair{"four", &FarnnRow::verdict_four}, std::pair{"wide", &FarnnRow::verdict_wide}}) {
    const auto counted = [&](const std::vector<FarnnRow>& rows) {
      std::string line;
      for (const auto& [what, count] : counts_of(rows, verdict)) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, what);
      return line;
    };
    text += fmt::format("{}: {}, of {} rows\n", name, counted(study.rows), study.rows.size());
    if (!study.has_simulated()) continue;
    std::vector<FarnnRow> timed;
    for (const FarnnRow& row : study.simulated)
      if (row.timed) timed.push_back(row);
    text += fmt::format("{}, simulated: {}, of {} rows that rest on training steps\n", name, counted(timed), timed.size());
  }
  return text;
}

std::string rows_text(const FarnnStudy& study) {
  const std::vector<FarnnRow>& rows = study.rows;
  std::string text =
      "FARNN's figures and what this program models, by two readings of its elements to a unit: \"four\" 256 and 368, \"wide\" 416 and "
      "512 (LSTM on VU9P and VU13P)\n" +
      std::string(kMissing) + "\n" + (study.has_simulated() ? std::string(kSimulated) + "\n" : "") + "\n";
  std::vector<std::string> head{"quantity", "where", "paper"};
  for (const char* reading : {"four", "wide"}) {
    head.insert(head.end(), {reading, "off", "verdict"});
    if (study.has_simulated()) head.insert(head.end(), {"simulated", "by"});
  }
  head.insert(head.end(), {"unit", "accepted"});
  TextTable table(std::move(head), 2);
  for (size_t r = 0; r < rows.size(); ++r) {
    const FarnnRow& row = rows[r];
    const FarnnRow* simulated = study.simulated_of(r);
    std::vector<std::string> line{std::string(row.quantity), std::string(row.place), number_text(row.paper)};
    for (const auto& [model, verdict] : {std::pair(&FarnnRow::four, row.verdict_four), {&FarnnRow::wide, row.verdict_wide}}) {
      line.insert(line.end(), {number_text(row.*model), difference_text(row.*model, row.paper), std::string(verdict)});
      if (!study.has_simulated()) continue;
      line.push_back(simulated != nullptr ? number_text(simulated->*model) : "-");
      line.push_back(simulated != nullptr ? relative_text(simulated->*model, row.*model) : "-");
    }
    line.insert(line.end(), {std::string(row.unit), accepted_text(row)});
    table.add(std::move(line));
  }
  text += table.text() + "\n" + counts_text(study) + "\n";
  for (const FarnnRow& row : rows)
    if (!row.note.empty()) text += fmt::format("{}: {}\n", row.quantity, row.note);
  if (study.has_simulated()) text += fmt::format("\nsimulated\n{}\n", fmt::join(remarks_of(study), "\n"));
  text += "\nconstants\n";
  TextTable constants({"name", "value", "origin"}, 1);
  for (const Constant& constant : farnn_constants()) constants.add({constant.name, fmt::format("{:g}", constant.value), constant.origin});
  return text + constants.text();
}

std::string rows_json(const FarnnStudy& study) {
  const std::vector<FarnnRow>& rows = study.rows;
  Json json = {{"paper", "farnn"}, {"origin", "modelled"}, {"missing", kMissing}, {"rows", Json::array()}, {"curves", Json::array()}};
  if (study.has_simulated()) {
    json["simulated"] = kSimulated;
    json["remarks"] = remarks_of(study);
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const FarnnRow& row = rows[r];
    Json& added = json["rows"].emplace_back();
    added = {{"id", row.id},
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
             {"note", row.note}};
    const FarnnRow* simulated = study.simulated_of(r);
    if (simulated == nullptr) continue;
    added["simulated"] = {{"four", number_or_null(simulated->four)},
                          {"wide", number_or_null(simulated->wide)},
                          {"difference", number_or_null(relative(simulated->four, row.four))},
                          {"difference_wide", number_or_null(relative(simulated->wide, row.wide))},
                          {"verdict", simulated->verdict_four},
                          {"verdict_wide", simulated->verdict_wide}};
  }
  for (size_t c = 0; c < study.curves.size(); ++c) {
    const FarnnCurve& curve = study.curves[c];
    Json series = Json::array();
    for (size_t s = 0; s < curve.series.size(); ++s) {
      const FarnnSeries& line = curve.series[s];
      Json points = Json::array();
      for (size_t i = 0; i < line.points.size(); ++i) {
        Json& point = points.emplace_back();
        point = {{"x", line.points[i].first}, {"model", line.points[i].second}};
        if (study.has_simulated()) point["simulated"] = study.simulated_curves[c].series[s].points[i].second;
      }
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

std::string rows_csv(const FarnnStudy& study) {
  std::string text = "id,quantity,unit,source,paper,four,verdict,wide,verdict_wide,least,most,note,four_simulated,wide_simulated\n";
  for (size_t r = 0; r < study.rows.size(); ++r) {
    const FarnnRow& row = study.rows[r];
    const FarnnRow* simulated = study.simulated_of(r);
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.id, csv_text(row.quantity), row.unit, csv_text(row.place),
                        number_text(row.paper), number_text(row.four), row.verdict_four, number_text(row.wide), row.verdict_wide,
                        number_text(row.least), number_text(row.most), csv_text(row.note),
                        simulated != nullptr ? number_text(simulated->four) : "", simulated != nullptr ? number_text(simulated->wide) : "");
  }
  return text;
}

const char* origin_text(const FarnnStudy& study) {
  return study.has_simulated() ? "lines modelled by formulas, marks simulated" : "modelled";
}

// Lines by the formulas; over them marks as simulated.
Drawing drawing_of(const FarnnStudy& study, size_t index) {
  const FarnnCurve& curve = study.curves[index];
  LineChart chart{.label = curve.title, .x = {.label = std::string(curve.x_label)}, .y = {.label = std::string(curve.y_label), .least = 0}};
  constexpr Mark kMarks[] = {Mark::kCircle, Mark::kSquare, Mark::kTriangle, Mark::kDiamond};
  const auto add = [&](const FarnnSeries& line, size_t colour) -> Series& {
    Series& series = chart.series.emplace_back(Series{.name = std::string(line.name), .classes = series_class(colour)});
    for (const auto& [x, y] : line.points) series.points.push_back({x, y});
    return series;
  };
  for (size_t s = 0; s < curve.series.size(); ++s) {
    Series& series = add(curve.series[s], s);
    if (!study.has_simulated()) series.mark = kMarks[s % 4];
  }
  if (curve.y_label == "times faster") chart.references.push_back({.at = 1, .label = "as fast as cuDNN-Std"});
  if (!study.has_simulated()) return draw(chart);
  for (size_t s = 0; s < curve.series.size(); ++s) {
    Series& series = add(study.simulated_curves[index].series[s], s);
    series.name += ", simulated";
    series.line = false;
    series.hollow = true;
    series.mark = kMarks[s % 4];
  }
  return draw(chart);
}

std::string rows_page(const FarnnStudy& study, const std::string& command) {
  Page page("FARNN", "a GPU and a board train recurrent layers together (modelled)");
  page.paragraph(kMissing);
  page.section("Figures", "What the paper's text says, and what this program gives by two readings of the elements to a unit.");
  Table table{.columns = {{.name = "quantity"}, {.name = "where"}, {.name = "paper", .number = true}}};
  table.label = "the paper's figures";
  for (const char* reading : {"four", "wide"}) {
    table.columns.push_back({.name = reading, .number = true});
    if (study.has_simulated()) table.columns.push_back({.name = "simulated", .number = true});
    table.columns.push_back({.name = "verdict"});
  }
  table.columns.push_back({.name = "unit"});
  table.columns.push_back({.name = "note"});
  for (size_t r = 0; r < study.rows.size(); ++r) {
    const FarnnRow& row = study.rows[r];
    const FarnnRow* simulated = study.simulated_of(r);
    auto& cells = table.rows.emplace_back().cells;
    cells = {{.text = std::string(row.quantity)}, {.text = std::string(row.place)}, {.text = number_text(row.paper)}};
    for (const auto& [model, verdict] : {std::pair(&FarnnRow::four, row.verdict_four), {&FarnnRow::wide, row.verdict_wide}}) {
      cells.push_back({.text = number_text(row.*model)});
      if (study.has_simulated())
        cells.push_back({.text = simulated == nullptr ? "-"
                                                      : fmt::format("{} ({})", number_text(simulated->*model),
                                                                    relative_text(simulated->*model, row.*model))});
      cells.push_back({.text = std::string(verdict), .bad = verdict == "not reproduced"});
    }
    cells.push_back({.text = std::string(row.unit)});
    cells.push_back({.text = row.note});
  }
  page.table(table);
  page.preformatted(counts_text(study));
  if (study.has_simulated()) {
    page.section("Simulated", kSimulated);
    for (const std::string& remark : remarks_of(study)) page.paragraph(remark);
  }
  page.section("Curves",
               "Modelled: the bars of the paper's figures are not in the text. cuDNN-Std is calibrated at one point, 1,600 steps.");
  std::vector<Figure> figures;
  for (size_t c = 0; c < study.curves.size(); ++c)
    figures.push_back({.title = study.curves[c].title, .note = origin_text(study), .drawing = drawing_of(study, c)});
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
  for (const char* name : {"--threads", "--catalogue"})
    if (std::ranges::find(flags.given, name) != flags.given.end())
      fail(ErrorCode::kUsage, "{} has no effect with --paper farnn, whose machines are the paper's own; leave one of the two out", name);
  FarnnStudy study{.rows = farnn_rows(), .simulated = {}, .curves = farnn_curves(), .simulated_curves = {}};
  if (flags.simulate) {
    const FarnnTimes times = simulated_farnn_times();
    study.simulated = farnn_rows(times);
    study.simulated_curves = farnn_curves(times);
  }
  const std::string json = rows_json(study);
  write_out(flags.json ? json : rows_text(study));
  if (!flags.out.empty()) {
    make_folders(flags.out);
    std::vector<std::pair<std::string, std::string>> drawings;
    for (size_t c = 0; c < study.curves.size(); ++c)
      drawings.emplace_back(study.curves[c].id + ".svg", standalone_svg(drawing_of(study, c), {.title = study.curves[c].title,
                                                                                               .note = origin_text(study),
                                                                                               .style_sheet = series_style_sheet()}));
    std::vector<std::pair<const char*, std::string>> files = {
        {"rows.csv", rows_csv(study)}, {"study.json", json}, {"index.html", rows_page(study, flags.command)}};
    for (const auto& [name, text] : drawings) files.emplace_back(name.c_str(), text);
    write_study(flags.out, files);
  }
  // That the GPU's time does not come out of its bandwidth is known; what fails besides is news. The reading "wide" is there to be
  // compared.
  const auto news_of = [](const std::vector<FarnnRow>& rows) {
    return std::ranges::count_if(rows, [](const FarnnRow& row) { return row.verdict_four == "not reproduced" && row.expected_to_hold; });
  };
  const auto news = std::max(news_of(study.rows), news_of(study.simulated));
  if (news == 0) return 0;
  fmt::print(stderr, "millrace: {} of {} figures are not reproduced\n", news, study.rows.size());
  return 1;
}

}  // namespace millrace
