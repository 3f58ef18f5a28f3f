#include "deploy/command/study/study_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/drawing/quantity.h"
#include "deploy/command/line/csv.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/command/simulate/scenario_flags.h"
#include "partitioner/planning/sample_word.h"
#include "partitioner/study/study_record.h"

namespace millrace {
namespace {

bool simulates(const Study& study) {
  return std::any_of(study.points.begin(), study.points.end(), [](const StudyPoint& point) { return point.simulated.has_value(); });
}

std::string curve_table(const StudyTask& task, const Study& study, const std::string& detail) {
  std::string text =
      fmt::format("{} on rings of {}, {} parallelism{}, links of {} ({}, {} accounting)\n\n", task.graph->model().name, task.device,
                  name_of(task.options.strategy), detail, link_text(task.link),
                  simulates(study) ? "modelled, and simulated where it says so" : "all figures modelled", name_of(task.options.accounting));
  std::vector<std::string> head{
      "devices",   fmt::format("{}/s", sample_word(*task.graph).many), "devices alone", "h/epoch", "idle", "Gb/s one way", "both", "memory",
      "limited by"};
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
                                 task.epoch_images > 0 ? significant(point.hours_per_epoch) : "-",
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

Json link_json(const LinkEntry& link) {
  return {{"forward_gbps", link.forward_gbps},
          {"backward_gbps", link.backward_gbps},
          {"shared_gbps", link.shared_gbps > 0 ? Json(link.shared_gbps) : Json(nullptr)},
          {"latency_us", link.latency_us}};
}

// What one curve is of, and where it stops being linear.
void add_setting(Json& json, const StudyCurve& curve) {
  const StudyTask& task = curve.task;
  json["strategy"] = name_of(task.options.strategy);
  json["alignment"] = name_of(task.options.alignment);
  json["accounting"] = name_of(task.options.accounting);
  json["mini_batch"] = task.options.mini_batch;
  json["bits"] = bits_of(task.options.arithmetic.wire);
  json["link"] = link_json(task.link);
}

void add_limit(Json& json, const Study& study) {
  json["linear_up_to"] = study.linear_up_to;
  json["first_slowed"] = study.first_slowed > 0 ? Json(study.first_slowed) : Json(nullptr);
}

// In a record 0 stands for a figure that nobody knows.
Json point_json(const StudyPoint& point) {
  Json json = Json::parse(record_of(point));
  if (point.hours_per_epoch == 0) json["hours_per_epoch"] = nullptr;
  if (point.gops_per_joule == 0 && point.gops_per_device > 0) json["gops_per_joule"] = nullptr;
  if (point.flop_utilisation == 0) json["flop_utilisation"] = nullptr;
  return json;
}

Json cost_json(const TopologyCost& cost) {
  return {{"bits_per_port", cost.bits_per_port}, {"degree", cost.degree}, {"bottleneck", cost.bottleneck}};
}

std::string wirings_table(const WiringStudy& wirings) {
  std::string text =
      fmt::format("1-D against 2-D interconnect, {} on {:.4g} ports (modelled)\n\n", fmt::join(wirings.layers, ", "), wirings.rules.ports);
  TextTable table({"2-D limited by", "devices", "boards", "1-D Mb per port", "2-D", "2-D over 1-D"}, 1);
  for (const WiringPoint& point : wirings.points)
    table.add({point.comparison.two.bottleneck, fmt::format("{}", point.devices),
               fmt::format("{}", fmt::join(point.comparison.boards, "-")), significant(1e-6 * point.comparison.one.bits_per_port),
               significant(1e-6 * point.comparison.two.bits_per_port), fmt::format("{:.2f}", point.comparison.ratio())});
  return text + table.text();
}

}  // namespace

std::string study_table(const StudySweep& sweep) {
  std::vector<std::string> parts;
  for (const StudyCurve& curve : sweep.curves) {
    std::string detail;
    if (sweep.curves.size() > 1)
      detail = fmt::format(", {} alignment, {} bits", name_of(curve.task.options.alignment), bits_of(curve.task.options.arithmetic.wire));
    parts.push_back(curve_table(curve.task, curve.study, detail));
  }
  if (sweep.wirings) parts.push_back(wirings_table(*sweep.wirings));
  if (sweep.failures) parts.push_back(failure_table(*sweep.failures, sample_word(*sweep.curves.front().task.graph).many));
  return fmt::format("{}", fmt::join(parts, "\n"));
}

std::string study_json(const StudySweep& sweep) {
  const StudyTask& task = sweep.curves.front().task;
  Json json;
  json["model"] = task.graph->model().name;
  json["device"] = task.device;
  add_setting(json, sweep.curves.front());
  json["sample"] = sample_word(*task.graph).one;
  json["epoch_images"] = task.epoch_images > 0 ? Json(task.epoch_images) : Json(nullptr);
  json["origin"] = "modelled";
  json["points"] = Json::array();
  for (size_t c = 0; c < sweep.curves.size(); ++c)
    for (const StudyPoint& point : sweep.curves[c].study.points) {
      Json& added = json["points"].emplace_back(point_json(point));
      if (sweep.curves.size() > 1) added["curve"] = c;
    }
  add_limit(json, sweep.curves.front().study);
  if (sweep.curves.size() > 1)
    for (size_t c = 0; c < sweep.curves.size(); ++c) {
      Json& curve = json["curves"].emplace_back();
      curve["name"] = curve_name(sweep, c);
      add_setting(curve, sweep.curves[c]);
      add_limit(curve, sweep.curves[c].study);
    }
  if (sweep.wirings) {
    Json& wirings = json["topology"];
    wirings["layers"] = sweep.wirings->layers;
    wirings["ports"] = sweep.wirings->rules.ports;
    for (const WiringPoint& point : sweep.wirings->points)
      wirings["points"].push_back({{"devices", point.devices},
                                   {"boards", point.comparison.boards},
                                   {"one", cost_json(point.comparison.one)},
                                   {"two", cost_json(point.comparison.two)},
                                   {"ratio", point.comparison.ratio()}});
  }
  if (sweep.failures) json["failures"] = Json::parse(failure_json(*sweep.failures));
  return json_text(json);
}

std::string study_csv(const StudySweep& sweep) {
  std::string text =
      "devices,feasible,images_per_second,full_speed_images_per_second,max_link_gbps,max_link_gbps_both,idle_fraction,hours_per_epoch,"
      "memory_fraction,bottleneck,reason,strategy,alignment,bits,forward_gbps,backward_gbps,shared_gbps";
  const bool simulated = simulates(sweep);
  text += simulated ? ",simulated_images_per_second,simulated_idle_fraction,simulated_in_flight_samples\n" : "\n";
  for (const auto& [task, study] : sweep.curves) {
    const std::string setting = fmt::format(",{},{},{},{:.17g},{:.17g},{}", name_of(task.options.strategy), name_of(task.options.alignment),
                                            bits_of(task.options.arithmetic.wire), task.link.forward_gbps, task.link.backward_gbps,
                                            task.link.shared_gbps > 0 ? csv_number(task.link.shared_gbps) : "");
    for (const StudyPoint& point : study.points) {
      if (point.feasible)
        text += fmt::format("{},1,{},{},{},{},{},{},{},{} {},", point.devices, csv_number(point.images_per_second),
                            csv_number(point.full_speed_images_per_second), csv_number(point.max_link_gbps),
                            csv_number(point.max_link_gbps_both), csv_number(point.idle_fraction),
                            point.hours_per_epoch > 0 ? csv_number(point.hours_per_epoch) : "", csv_number(point.memory_fraction),
                            point.bottleneck.kind, point.bottleneck.index);
      else
        text += fmt::format("{},0,,,,,,,,,{}", point.devices, csv_text(point.reason));
      text += setting;
      if (point.simulated)
        text += fmt::format(",{},{},{}", csv_number(point.simulated->images_per_second), csv_number(point.simulated->idle_fraction),
                            point.simulated->in_flight_samples);
      else if (simulated)
        text += ",,,";
      text += "\n";
    }
  }
  return text;
}

}  // namespace millrace
