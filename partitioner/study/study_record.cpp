#include "partitioner/study/study_record.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

class Writer {
 public:
  explicit Writer(Json& json) : json_(json) {}
  void always(const char* name, const auto& value) { json_[name] = value; }
  void figure(const char* name, double value) { json_[name] = feasible_ && std::isfinite(value) ? Json(value) : Json(nullptr); }
  void figure(const char* name, int64_t value) { json_[name] = feasible_ ? Json(value) : Json(nullptr); }
  void shares(const char* name, const std::vector<double>& values) { json_[name] = values; }
  void feasible(bool feasible) { feasible_ = feasible; }

 private:
  Json& json_;
  bool feasible_ = true;
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  void always(const char* name, auto& value) { json_.at(name).get_to(value); }
  void figure(const char* name, auto& value) {
    if (const Json& found = json_.at(name); !found.is_null()) found.get_to(value);
  }
  void shares(const char* name, std::vector<double>& values) { json_.at(name).get_to(values); }
  void feasible(bool) {}

 private:
  const Json& json_;
};

// One list for both ways.
template <typename Archive, typename Point>
void walk(Archive& archive, Point& point) {
  archive.always("devices", point.devices);
  archive.always("feasible", point.feasible);
  archive.always("reason", point.reason);
  archive.feasible(point.feasible);
  archive.figure("images_per_second", point.images_per_second);
  archive.figure("full_speed_images_per_second", point.full_speed_images_per_second);
  archive.figure("link_roof_images_per_second", point.link_roof_images_per_second);
  archive.figure("max_link_gbps", point.max_link_gbps);
  archive.figure("max_link_gbps_both", point.max_link_gbps_both);
  archive.figure("idle_fraction", point.idle_fraction);
  archive.figure("hours_per_epoch", point.hours_per_epoch);
  archive.figure("gops_per_device", point.gops_per_device);
  archive.figure("gops_per_joule", point.gops_per_joule);
  archive.figure("memory_fraction", point.memory_fraction);
  archive.figure("in_flight_samples", point.in_flight_samples);
  archive.figure("flop_utilisation", point.flop_utilisation);
  archive.figure("storage_bits", point.storage_bits);
  archive.figure("communication_bits", point.communication_bits);
  archive.figure("communication_gbps", point.communication_gbps);
}

}  // namespace

std::string record_of(const StudyPoint& point) {
  Json json;
  Writer writer(json);
  walk(writer, point);
  json["bottleneck"] = point.feasible ? Json{{"kind", point.bottleneck.kind}, {"index", point.bottleneck.index}} : Json(nullptr);
  writer.shares("device_dsp", point.device_dsp);
  writer.shares("device_memory", point.device_memory);
  writer.shares("device_busy", point.device_busy);
  json["solve_seconds"] = point.solve_seconds;
  if (point.simulated) {
    const SimulatedFigures& simulated = *point.simulated;
    Json& into = json["simulated"];
    Writer figures(into);
    figures.figure("images_per_second", simulated.images_per_second);
    figures.figure("difference", simulated.images_per_second / point.images_per_second - 1);
    figures.figure("idle_fraction", simulated.idle_fraction);
    figures.figure("in_flight_samples", simulated.in_flight_samples);
    figures.figure("max_link_gbps", simulated.max_link_gbps);
  }
  return json.dump();
}

StudyPoint point_of_record(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    StudyPoint point;
    Reader reader(json);
    walk(reader, point);
    if (const Json& bottleneck = json.at("bottleneck"); !bottleneck.is_null()) {
      bottleneck.at("kind").get_to(point.bottleneck.kind);
      bottleneck.at("index").get_to(point.bottleneck.index);
    }
    reader.shares("device_dsp", point.device_dsp);
    reader.shares("device_memory", point.device_memory);
    reader.shares("device_busy", point.device_busy);
    json.at("solve_seconds").get_to(point.solve_seconds);
    if (json.contains("simulated")) {
      const Json& from = json.at("simulated");
      Reader figures(from);
      SimulatedFigures& simulated = point.simulated.emplace();
      figures.figure("images_per_second", simulated.images_per_second);
      figures.figure("idle_fraction", simulated.idle_fraction);
      figures.figure("in_flight_samples", simulated.in_flight_samples);
      figures.figure("max_link_gbps", simulated.max_link_gbps);
    }
    return point;
  } catch (const Json::exception& error) {
    fail(ErrorCode::kMalformed, "not a point of a study ({}); choose another folder for --out", error.what());
  }
}

}  // namespace millrace
