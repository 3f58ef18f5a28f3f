#include "deploy/command/study/paper_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "deploy/command/line/csv.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "partitioner/study/paper_page.h"

namespace millrace {
namespace {

bool some_simulated(const std::vector<PaperRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const PaperRow& row) { return row.simulated.has_value(); });
}

bool simulated_outside(const PaperRow& row) { return row.simulated && row.simulated_verdict == Verdict::kNotReproduced; }

constexpr std::array kVerdicts = {Verdict::kHolds, Verdict::kPaperContradictsItself, Verdict::kNotReproduced, Verdict::kReported};

int64_t count_of(const std::vector<PaperRow>& rows, Verdict verdict) {
  return std::count_if(rows.begin(), rows.end(), [&](const PaperRow& row) { return row.verdict == verdict; });
}

}  // namespace

std::string paper_table(const std::vector<PaperRow>& rows, const CatalogueDevice& board) {
  std::string text = fmt::format("FPDeep's figures and what this program models, on {} ({}; fpdeep accounting)\n\n",
                                 board.short_names.front(), board.name);
  const bool simulated = some_simulated(rows);
  std::vector<std::string> head{"quantity", "network", "verdict", "rests on", "paper", "model", "off by"};
  if (simulated) head.emplace_back("simulated");
  head.emplace_back("accepted");
  TextTable table(std::move(head), 4);
  std::string before;
  for (const PaperRow& row : rows) {
    const std::string quantity = quantity_text(row.figure);
    std::set<std::string> origins;
    for (const CatalogueValue& value : fpdeep_constants({&row, 1}, board)) origins.insert(value.origin);
    std::vector<std::string> line{quantity == before ? "" : quantity,
                                  std::string(row.figure.network),
                                  std::string(name_of(row.verdict)),
                                  origins.empty() ? "counts" : fmt::format("{}", fmt::join(origins, ", ")),
                                  paper_text(row.figure),
                                  figure_text(row.model, row.figure.unit),
                                  difference_text(row)};
    if (simulated) line.push_back(simulated_text(row));
    line.push_back(accepted_text(row.figure));
    table.add(std::move(line));
    before = quantity;
  }
  text += table.text() + "\n";

  std::string_view told;
  for (const PaperRow& row : rows) {
    if (row.verdict != Verdict::kPaperContradictsItself || row.figure.contradiction == told) continue;
    told = row.figure.contradiction;
    text += fmt::format("{}: {}\n", row.figure.quantity, row.figure.contradiction);
  }
  for (const PaperRow& row : rows)
    if (row.verdict == Verdict::kNotReproduced && !row.figure.otherwise.empty())
      text += fmt::format("{}: {}\n", row.figure.quantity, row.figure.otherwise);
  text += "\n";
  for (const PaperRow& row : rows)
    if (!row.note.empty())
      text += fmt::format("{}{}{}: {}\n", row.figure.quantity, row.figure.network.empty() ? "" : ", ", row.figure.network, row.note);
  for (const PaperRow& row : rows)
    if (!row.simulated_note.empty())
      text += fmt::format("{}, {}, simulated: {}\n", row.figure.quantity, row.figure.network, row.simulated_note);
  if (simulated)
    text +=
        "not simulated, closed forms alone: counts; strategies that no ring expresses; 2-D interconnect, whose bits per port hold at "
        "any moment; 32 bits, which do not fit\n";
  text += fmt::format("rows of memory: {}\n", kFpdeepMemoryModel);
  text += "\nconstants and rules\n";
  TextTable constants({"name", "origin", "where from", "value"}, 3);
  for (const CatalogueValue& value : fpdeep_constants(rows, board))
    constants.add({value.name, value.origin, value.note, fmt::format("{:.6g} {}", value.value, value.unit == "1" ? "" : value.unit)});
  text += constants.text() + "\n";
  for (const Verdict verdict : kVerdicts)
    text += fmt::format("{}{}: {}", verdict == kVerdicts.front() ? "" : ", ", name_of(verdict), count_of(rows, verdict));
  if (simulated)
    text += fmt::format("; simulated: {}, of which {} not within what is accepted",
                        std::count_if(rows.begin(), rows.end(), [](const PaperRow& row) { return row.simulated.has_value(); }),
                        std::count_if(rows.begin(), rows.end(), simulated_outside));
  return text + "\n";
}

std::string paper_json(const std::vector<PaperRow>& rows, const CatalogueDevice& board) {
  Json json;
  json["paper"] = "fpdeep";
  json["accounting"] = name_of(Accounting::kFpdeep);
  json["memory_model"] = kFpdeepMemoryModel;
  json["device"] = board.short_names.front();
  json["rows"] = Json::array();
  for (const PaperRow& row : rows) {
    const std::optional<double> difference = row.difference();
    Json& added = json["rows"].emplace_back();
    added = {{"id", row.figure.id},
             {"quantity", row.figure.quantity},
             {"network", row.figure.network},
             {"unit", row.figure.unit},
             {"paper", number_or_null(row.figure.paper)},
             {"paper_text", paper_text(row.figure)},
             {"source", row.figure.source},
             {"model", number_or_null(row.model)},
             {"difference", difference ? Json(*difference) : Json(nullptr)},
             {"tolerance", {number_or_null(row.figure.least), number_or_null(row.figure.most)}},
             {"verdict", name_of(row.verdict)},
             {"contradiction", row.figure.contradiction},
             {"otherwise", row.figure.otherwise},
             {"note", row.note},
             {"constants", row.origin}};
    if (!row.simulated) continue;
    added["simulated"] = number_or_null(*row.simulated);
    added["simulated_verdict"] = name_of(row.simulated_verdict);
    added["simulated_note"] = row.simulated_note;
  }
  json["constants"] = Json::array();
  for (const CatalogueValue& value : fpdeep_constants(rows, board))
    json["constants"].push_back(
        {{"name", value.name}, {"value", value.value}, {"unit", value.unit}, {"origin", value.origin}, {"note", value.note}});
  json["counts"] = Json::object();
  for (const Verdict verdict : kVerdicts) json["counts"][std::string(name_of(verdict))] = count_of(rows, verdict);
  return json_text(json);
}

std::string paper_csv(const std::vector<PaperRow>& rows) {
  std::string text = "id,quantity,network,unit,paper,model,difference,least,most,verdict,note,simulated\n";
  for (const PaperRow& row : rows) {
    const std::optional<double> difference = row.difference();
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", row.figure.id, csv_text(row.figure.quantity), row.figure.network,
                        row.figure.unit, csv_number(row.figure.paper), csv_number(row.model), difference ? csv_number(*difference) : "",
                        csv_number(row.figure.least), csv_number(row.figure.most), name_of(row.verdict), csv_text(row.note),
                        row.simulated ? csv_number(*row.simulated) : "");
  }
  return text;
}

}  // namespace millrace
