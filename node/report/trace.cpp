#include "node/report/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace millrace {

namespace {

using nlohmann::json;

double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

// FP, EB, PG, WU and waiting in colours of their own (names of the viewer's palette).
const char* colour_of(const std::string& name) {
  switch (name.empty() ? ' ' : name.front()) {
    case 'F': return "thread_state_running";
    case 'E': return "thread_state_iowait";
    case 'G': return "rail_animation";
    case 'U': return "rail_load";
    case 'V': return "rail_idle";
    default: return "thread_state_sleeping";
  }
}

}  // namespace

bool Trace::has_room() {
  if (events_.size() < limit_) return true;
  ++left_out_;
  return false;
}

void Trace::span(int64_t device, std::string_view name, Time begin, Time end, std::string_view detail) {
  if (has_room()) events_.push_back({device, begin, std::max(begin, end), std::string(name), std::string(detail)});
}
void Trace::mark(int64_t device, std::string_view stream, std::string_view name, Time at) {
  if (has_room()) events_.push_back({device, at, at - Time(1), std::string(name), std::string(stream)});
}

std::string Trace::encoded() const {
  json all = json::array();
  for (const Event& event : events_) all.push_back({event.device, event.begin.count(), event.end.count(), event.name, event.detail});
  // From the machine's clock to the time of day, which machines share as well as they are set.
  const auto of_day = std::chrono::duration_cast<Time>(std::chrono::system_clock::now().time_since_epoch());
  const auto of_machine = std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
  return json{{"events", all}, {"left_out", left_out_}, {"offset", (of_day - of_machine).count()}}.dump();
}

std::string trace_json(const std::vector<std::string>& ranks, std::string_view title) {
  json events = json::array();
  std::map<std::pair<int64_t, std::string>, int64_t> tracks;  // (device, stream) -> thread; "" for what the device does
  std::set<int64_t> devices;
  const auto track_of = [&](int64_t device, const std::string& stream) {
    if (devices.insert(device).second)
      events.push_back(
          {{"ph", "M"}, {"name", "process_name"}, {"pid", device}, {"tid", 0}, {"args", {{"name", "device " + std::to_string(device)}}}});
    const auto [found, fresh] = tracks.try_emplace({device, stream}, stream.empty() ? 0 : static_cast<int64_t>(tracks.size()) + 1);
    if (fresh)
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", device},
                        {"tid", found->second},
                        {"args", {{"name", stream.empty() ? "actions" : stream}}}});
    return found->second;
  };
  int64_t left_out = 0;
  int64_t start = INT64_MAX;
  std::vector<json> parsed;
  for (const std::string& text : ranks) {
    const json& rank = parsed.emplace_back(json::parse(text));
    left_out += rank.at("left_out").get<int64_t>();
    for (const json& event : rank.at("events")) start = std::min(start, event.at(1).get<int64_t>() + rank.at("offset").get<int64_t>());
  }
  for (const json& rank : parsed) {
    const auto offset = rank.at("offset").get<int64_t>() - start;
    for (const json& event : rank.at("events")) {
      const auto device = event.at(0).get<int64_t>();
      const auto begin = event.at(1).get<int64_t>(), end = event.at(2).get<int64_t>();
      const auto name = event.at(3).get<std::string>(), detail = event.at(4).get<std::string>();
      json one = {{"name", name}, {"pid", device}, {"ts", microseconds(begin + offset)}};
      if (end < begin) {
        one.update({{"ph", "i"}, {"s", "t"}, {"tid", track_of(device, detail)}});
      } else {
        one.update({{"ph", "X"}, {"dur", microseconds(end - begin)}, {"tid", track_of(device, "")}, {"cname", colour_of(name)}});
        if (!detail.empty()) one["args"] = {{"for", detail}};
      }
      events.push_back(std::move(one));
    }
  }
  json document = {{"traceEvents", std::move(events)},
                   {"displayTimeUnit", "ms"},
                   {"otherData", {{"title", title}, {"times", "measured"}, {"events left out", left_out}}}};
  return document.dump();
}

}  // namespace millrace
