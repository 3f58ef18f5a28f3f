#include "deploy/command/study_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/drawing/quantity.h"
#include "deploy/command/text_table.h"
#include "partitioner/study/study_page.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of(const StudyPoint& point) {
  const auto value = [&](double figure) { return point.feasible ? number(figure) : Json(nullptr); };
  Json json;
  json["devices"] = point.devices;
  json["feasible"] = point.feasible;
  json["reason"] = point.reason;
  json["images_per_second"] = value(point.images_per_second);
  json["full_speed_images_per_second"] = value(point.full_speed_images_per_second);
  json["max_link_gbps"] = value(point.max_link_gbps);
  json["max_link_gbps_both"] = value(point.max_link_gbps_both);
  json["idle_fraction"] = value(point.idle_fraction);
  json["hours_per_epoch"] = value(point.hours_per_epoch);
  json["gops_per_device"] = value(point.gops_per_device);
  json["gops_per_joule"] = value(point.gops_per_joule);
  json["memory_fraction"] = value(point.memory_fraction);
  json["in_flight_samples"] = point.feasible ? Json(point.in_flight_samples) : Json(nullptr);
  json["flop_utilisation"] = value(point.flop_utilisation);
  json["storage_bits"] = value(point.storage_bits);
  json["communication_bits"] = value(point.communication_bits);
  json["communication_gbps"] = value(point.communication_gbps);
  json["bottleneck"] = point.feasible ? Json{{"kind", point.bottleneck.kind}, {"index", point.bottleneck.index}} : Json(nullptr);
  json["solve_seconds"] = point.solve_seconds;
  if (point.simulated)
    json["simulated"] = {{"images_per_second", number(point.simulated->images_per_second)},
                         {"difference", number(point.simulated->images_per_second / point.images_per_second - 1)},
                         {"idle_fraction", number(point.simulated->idle_fraction)},
                         {"in_flight_samples", point.simulated->in_flight_samples}};
  return json;
}

std::string csv_text(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"') result += '"';
    result += character;
  }
  return result + "\"";
}

std::string csv_number(double value) { return std::isfinite(value) ? fmt::format("{:.17g}", value) : ""; }

bool simulates(const Study& study) {
  return std::any_of(study.points.begin(), study.points.end(), [](const StudyPoint& point) { return point.simulated.has_value(); });
}

// The constants that some row rests on.
std::vector<const CatalogueValue*> constants_of(const std::vector<PaperRow>& rows, const CatalogueDevice& board) {
  std::vector<const CatalogueValue*> constants;
  for (const CatalogueValue& value : board.values) {
    const bool used = std::any_of(rows.begin(), rows.end(), [&](const PaperRow& row) {
      return fmt::format(" {} ", row.figure.constants).find(fmt::format(" {} ", value.name)) != std::string::npos;
    });
    if (used) constants.push_back(&value);
  }
  return constants;
}

constexpr std::array kVerdicts = {Verdict::kHolds, Verdict::kPaperContradictsItself, Verdict::kNotReproduced, Verdict::kReported};

int64_t count_of(const std::vector<PaperRow>& rows, Verdict verdict) {
  return std::count_if(rows.begin(), rows.end(), [&](const PaperRow& row) { return row.verdict == verdict; });
}

}  // namespace

std::string study_table(const StudyTask& task, const Study& study) {
  std::string text = fmt::format("{} on rings of {}, {} parallelism, links of {} ({})\n\n", task.graph->model().name, task.device,
                                 name_of(task.options.strategy), link_text(task.link),
                                 simulates(study) ? "modelled, and simulated where it says so" : "all figures modelled");
  std::vector<std::string> head{"devices", "images/s", "devices alone", "h/epoch", "idle", "Gb/s one way", "both", "memory", "limited by"};
  const bool simulated = simulates(study);
  if (simulated) head.insert(head.end(), {"simulated", "against the plan", "in flight"});
  TextTable table(std::move(head), 0);
  std::vector<const StudyPoint*> infeasible;
  for (const StudyPoint& point : study.points) {
    if (!point.feasible) {
      infeasible.push_back(&point);
      std::vector<std::string> row{fmt::format("{}", point.devices), "-", "-", "-", "-", "-", "-", "-", "infeasible"};
      if (simulated) row.insert(row.end(), {"-", "-", "-"});
      table.add(std::move(row));
      continue;
    }
    std::vector<std::string> row{fmt::format("{}", point.devices),
                                 significant(point.images_per_second, 4),
                                 significant(point.full_speed_images_per_second, 4),
                                 significant(point.hours_per_epoch),
                                 fmt::format("{:.2f}%", 100 * point.idle_fraction),
                                 significant(point.max_link_gbps),
                                 significant(point.max_link_gbps_both),
                                 percent(point.memory_fraction),
                                 fmt::format("{} {}", point.bottleneck.kind, point.bottleneck.index)};
    if (point.simulated) {
      row.push_back(significant(point.simulated->images_per_second, 4));
      row.push_back(fmt::format("{:+.2f}%", 100 * (point.simulated->images_per_second / point.images_per_second - 1)));
      row.push_back(fmt::format("{}", point.simulated->in_flight_samples));
    } else if (simulated) {
      row.insert(row.end(), {"-", "-", "-"});
    }
    table.add(std::move(row));
  }
  text += table.text() + "\n";
  for (const StudyPoint* point : infeasible) text += fmt::format("{} devices: {}\n", point->devices, point->reason);
  if (infeasible.size() == study.points.size()) return text;
  if (study.linear_up_to == 0) return text + "not linear: links slow the ring down from the first on\n";
  if (study.first_slowed == 0)
    return text + fmt::format("linear up to {} devices: links never slow a ring of this study down\n", study.linear_up_to);
  return text + fmt::format("linear up to {} devices: with {}, links slow the ring down\n", study.linear_up_to, study.first_slowed);
}

std::string study_json(const StudyTask& task, const Study& study) {
  Json json;
  json["model"] = task.graph->model().name;
  json["device"] = task.device;
  json["strategy"] = name_of(task.options.strategy);
  json["alignment"] = name_of(task.options.alignment);
  json["mini_batch"] = task.options.mini_batch;
  json["bits"] = bits_of(task.options.arithmetic.wire);
  json["link"] = {{"forward_gbps", task.link.forward_gbps},
                  {"backward_gbps", task.link.backward_gbps},
                  {"shared_gbps", task.link.shared_gbps > 0 ? Json(task.link.shared_gbps) : Json(nullptr)},
                  {"latency_us", task.link.latency_us}};
  json["epoch_images"] = task.epoch_images;
  json["origin"] = "modelled";
  json["points"] = Json::array();
  for (const StudyPoint& point : study.points) json["points"].push_back(json_of(point));
  json["linear_up_to"] = study.linear_up_to;
  json["first_slowed"] = study.first_slowed > 0 ? Json(study.first_slowed) : Json(nullptr);
  return json.dump(2) + "\n";
}

std::string study_csv(const Study& study) {
  std::string text =
      "devices,feasible,images_per_second,full_speed_images_per_second,max_link_gbps,max_link_gbps_both,idle_fraction,hours_per_epoch,"
      "memory_fraction,bottleneck,reason";
  const bool simulated = simulates(study);
  text += simulated ? ",simulated_images_per_second,simulated_idle_fraction,simulated_in_flight_samples\n" : "\n";
  for (const StudyPoint& point : study.points) {
    if (!point.feasible) {
      text += fmt::format("{},0,,,,,,,,,{}{}\n", point.devices, csv_text(point.reason), simulated ? ",,," : "");
      continue;
    }
    text += fmt::format("{},1,{},{},{},{},{},{},{},{} {},", point.devices, csv_number(point.images_per_second),
                        csv_number(point.full_speed_images_per_second), csv_number(point.max_link_gbps),
                        csv_number(point.max_link_gbps_both), csv_number(point.idle_fraction), csv_number(point.hours_per_epoch),
                        csv_number(point.memory_fraction), point.bottleneck.kind, point.bottleneck.index);
    if (point.simulated)
      text += fmt::format(",{},{},{}", csv_number(point.simulated->images_per_second), csv_number(point.simulated->idle_fraction),
                          point.simulated->in_flight_samples);
    text += "\n";
  }
  return text;
}

std::string paper_table(const std::vector<PaperRow>& rows, const CatalogueDevice& board) {
  std::string text = fmt::format("FPDeep's figures and what this program models, on {} ({})\n\n", board.short_names.front(), board.name);
  TextTable table({"quantity", "network", "verdict", "rests on", "paper", "model", "off by", "accepted"}, 4);
  std::string before;
  for (const PaperRow& row : rows) {
    const std::string quantity = quantity_text(row.figure);
    std::set<std::string> origins;
    for (const CatalogueValue* value : constants_of({row}, board)) origins.insert(value->origin);
    table.add({quantity == before ? "" : quantity, std::string(row.figure.network), std::string(name_of(row.verdict)),
               origins.empty() ? "counts" : fmt::format("{}", fmt::join(origins, ", ")), paper_text(row.figure),
               figure_text(row.model, row.figure.unit), difference_text(row), accepted_text(row.figure)});
    before = quantity;
  }
  text += table.text() + "\n";

  std::string_view told;
  for (const PaperRow& row : rows) {
    if (row.verdict != Verdict::kPaperContradictsItself || row.figure.contradiction == told) continue;
    told = row.figure.contradiction;
    text += fmt::format("{}: {}\n", row.figure.quantity, row.figure.contradiction);
  }
  text += "\n";
  for (const PaperRow& row : rows)
    if (!row.note.empty())
      text += fmt::format("{}{}{}: {}\n", row.figure.quantity, row.figure.network.empty() ? "" : ", ", row.figure.network, row.note);
  text += "\nconstants\n";
  TextTable constants({"name", "origin", "where from", "value"}, 3);
  for (const CatalogueValue* value : constants_of(rows, board))
    constants.add({value->name, value->origin, value->note, fmt::format("{:.6g} {}", value->value, value->unit == "1" ? "" : value->unit)});
  text += constants.text() + "\n";
  for (const Verdict verdict : kVerdicts)
    text += fmt::format("{}{}: {}", verdict == kVerdicts.front() ? "" : ", ", name_of(verdict), count_of(rows, verdict));
  return text + "\n";
}

std::string paper_json(const std::vector<PaperRow>& rows, const CatalogueDevice& board) {
  Json json;
  json["paper"] = "fpdeep";
  json["device"] = board.short_names.front();
  json["rows"] = Json::array();
  for (const PaperRow& row : rows) {
    const std::optional<double> difference = row.difference();
    json["rows"].push_back({{"id", row.figure.id},
                            {"quantity", row.figure.quantity},
                            {"network", row.figure.network},
                            {"unit", row.figure.unit},
                            {"paper", number(row.figure.paper)},
                            {"paper_text", paper_text(row.figure)},
                            {"source", row.figure.source},
                            {"model", number(row.model)},
                            {"difference", difference ? Json(*difference) : Json(nullptr)},
                            {"tolerance", {number(row.figure.least), number(row.figure.most)}},
                            {"verdict", name_of(row.verdict)},
                            {"contradiction", row.figure.contradiction},
                            {"note", row.note},
                            {"constants", row.origin}});
  }
  json["constants"] = Json::array();
  for (const CatalogueValue* value : constants_of(rows, board))
    json["constants"].push_back(
        {{"name", value->name}, {"value", value->value}, {"unit", value->unit}, {"origin", value->origin}, {"note", value->note}});
  json["counts"] = Json::object();
  for (const Verdict verdict : kVerdicts) json["counts"][std::string(name_of(verdict))] = count_of(rows, verdict);
  return json.dump(2) + "\n";
}

std::string paper_csv(const std::vector<PaperRow>& rows) {
  std::string text = "id,quantity,network,unit,paper,model,difference,least,most,verdict,note\n";
  for (const PaperRow& row : rows) {
    const std::optional<double> difference = row.difference();
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", row.figure.id, csv_text(row.figure.quantity), row.figure.network,
                        row.figure.unit, csv_number(row.figure.paper), csv_number(row.model), difference ? csv_number(*difference) : "",
                        csv_number(row.figure.least), csv_number(row.figure.most), name_of(row.verdict), csv_text(row.note));
  }
  return text;
}

}  // namespace millrace
