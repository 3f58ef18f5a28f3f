// Who waits for whom when nothing moves any more.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "node/simulate/engine.h"

namespace millrace::simulation {
namespace {

constexpr std::ptrdiff_t kMostLines = 10;

constexpr const char* kKinds[] = {"FP",           "EB",    "PG", "schedule", "input", "parameters leaving", "gradients leaving",
                                  "rows leaving", "update"};

}  // namespace

std::string Engine::name_of_station(const Station& s) const {
  std::string what = kKinds[static_cast<size_t>(s.kind)];
  if (s.shard >= 0) what += fmt::format(" of {}", plan_.shards[static_cast<size_t>(s.shard)].layer);
  if (s.flow >= 0)
    what += fmt::format(" ({})", plan_.flows[static_cast<size_t>(network_.flows[static_cast<size_t>(s.flow)].plan_flow)].tensor);
  return fmt::format("device {} {}", s.device, what);
}

bool Engine::full_act_ram(const Station& s) const {
  if (s.act_ram < 0 || s.kind != StationKind::kForward || s.cycle == s.cycles) return false;
  const ActRam& ram = network_.act_rams[static_cast<size_t>(s.act_ram)];
  const int64_t used = s.cycle * ram.rows + network_.tables[static_cast<size_t>(ram.used_table)][static_cast<size_t>(s.unit)];
  return used - ram.released > ram.capacity_rows;
}

std::string Engine::waits_for(const Station& s) const {
  if (s.turns >= 0) {
    const Turns& turns = network_.turns[static_cast<size_t>(s.turns)];
    return fmt::format("at {} waits for {}", text_of(action_of(turns)), s.for_room ? "room downstream of it" : "what it reads");
  }
  const std::string at = fmt::format("at unit {} of {} {}", s.unit, makes_whole_samples(s.kind) ? "sample" : "cycle", s.cycle);
  if (full_act_ram(s)) {
    const ActRam& ram = network_.act_rams[static_cast<size_t>(s.act_ram)];
    return fmt::format("{} waits for room in its Act-RAM, which holds {} rows where a sample has {}", at, ram.capacity_rows, ram.rows);
  }
  if (s.for_room) return fmt::format("{} waits for room {}", at, s.flow >= 0 ? "at the link's other end" : "downstream");
  if (s.blocked_stream < 0) return at;
  const Supply& awaited = network_.streams[static_cast<size_t>(s.blocked_stream)];
  if (awaited.flow >= 0) {
    const Flow& flow = plan_.flows[static_cast<size_t>(network_.flows[static_cast<size_t>(awaited.flow)].plan_flow)];
    return fmt::format("{} waits for {} \"{}\" over link {}", at, millrace::name_of(flow.stream), flow.tensor, flow.link);
  }
  return fmt::format("{} waits for {}", at,
                     awaited.producer >= 0 ? name_of_station(network_.stations[static_cast<size_t>(awaited.producer)]) : "what it reads");
}

// The reader of a stream that holds its maker back most.
int32_t Engine::slowest_reader(const Supply& supply) const {
  int32_t slowest = -1;
  int64_t least = kNoLimit;
  for (int32_t r = 0; r < supply.readers; ++r) {
    const Reader& reader = network_.readers[static_cast<size_t>(supply.first_reader + r)];
    const Input& read = network_.inputs[static_cast<size_t>(reader.input)];
    if (read.need + read.slack >= least) continue;
    least = read.need + read.slack;
    slowest = reader.station;
  }
  return slowest;
}

// Whom a station waits for; -1: nobody here.
int32_t Engine::awaited_by(const Station& s) const {
  if (!s.blocked) return -1;
  if (s.for_room) {
    if (full_act_ram(s)) {
      for (size_t i = 0; i < network_.stations.size(); ++i)
        if (network_.stations[i].act_ram == s.act_ram && network_.stations[i].kind == StationKind::kParameterGradient)
          return static_cast<int32_t>(i);
      return -1;
    }
    if (s.flow >= 0) {
      const FlowState& state = network_.flows[static_cast<size_t>(s.flow)];
      return state.receiver_here ? slowest_reader(network_.streams[static_cast<size_t>(state.stream)]) : -1;
    }
    return s.out >= 0 ? slowest_reader(network_.streams[static_cast<size_t>(s.out)]) : -1;
  }
  if (s.blocked_stream < 0) return -1;
  const Supply& awaited = network_.streams[static_cast<size_t>(s.blocked_stream)];
  return awaited.flow >= 0 ? network_.flows[static_cast<size_t>(awaited.flow)].sender : awaited.producer;
}

std::string Engine::stuck() const {
  // From anybody who waits to whom it waits for: sooner or later somebody comes up twice, and from there it is a circle.
  int32_t at = -1;
  size_t waiting = 0;
  for (size_t i = 0; i < network_.stations.size(); ++i) {
    const Station& s = network_.stations[i];
    if (s.cycle == s.cycles || !s.blocked) continue;
    ++waiting;
    if (at < 0) at = static_cast<int32_t>(i);
  }
  std::vector<int32_t> way;
  while (at >= 0 && std::find(way.begin(), way.end(), at) == way.end()) {
    way.push_back(at);
    at = awaited_by(network_.stations[static_cast<size_t>(at)]);
  }
  const auto first = at >= 0 ? std::find(way.begin(), way.end(), at) : way.end() - std::min<std::ptrdiff_t>(1, std::ssize(way));
  std::string text;
  for (auto station = first; station != way.end(); ++station) {
    if (std::distance(first, station) == kMostLines) {
      text += fmt::format("; and so on through {} more", std::distance(station, way.end()));
      break;
    }
    const Station& s = network_.stations[static_cast<size_t>(*station)];
    text += fmt::format("{}{} {}", station == first ? "" : "; ", name_of_station(s), waits_for(s));
  }
  // What could be larger is the way out.
  for (auto station = first; station != way.end(); ++station) {
    const Station& s = network_.stations[static_cast<size_t>(*station)];
    if (full_act_ram(s)) text += fmt::format("; the Act-RAM of {} is too small for any error to come back in time", name_of_station(s));
    if (full_act_ram(s)) break;
  }
  text += fmt::format(" ({} stages wait in all)", waiting);
  // Who takes turns hands over whole micro-batches, and lists run ahead by windows: as many rows have to find room.
  const bool some_turn = std::any_of(network_.stations.begin(), network_.stations.end(), [](const Station& s) { return s.turns >= 0; });
  const bool for_room = std::any_of(network_.stations.begin(), network_.stations.end(),
                                    [](const Station& s) { return s.cycle < s.cycles && s.blocked && s.for_room && s.flow >= 0; });
  if (!for_room || network_.messages_per_micro_batch) return text;
  int64_t rows = 1;
  for (const FlowState& flow : network_.flows) rows = std::max<int64_t>(rows, flow.per_sample);
  const int64_t samples = some_turn ? plan_.micro_batch * plan_.windows.front() : 1;
  return text + fmt::format("; FIFOs that hold more are a way out: --fifo-rows {}", rows * samples);
}

}  // namespace millrace::simulation
