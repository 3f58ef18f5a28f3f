#include "node/simulate/explain_stuck.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/index.h"

namespace millrace::simulation {
namespace {

constexpr std::ptrdiff_t kMostLines = 10;

constexpr const char* kKinds[] = {"FP",           "EB",    "PG", "schedule", "input", "parameters leaving", "gradients leaving",
                                  "rows leaving", "update"};

class Waiting {
 public:
  Waiting(const Network& network, const Plan& plan) : network_(network), plan_(plan) {}
  std::string text() const;

 private:
  std::string name_of_station(const Station& s) const;
  std::string waits_for(const Station& s) const;
  int32_t awaited_by(const Station& s) const;

  const Network& network_;
  const Plan& plan_;
};

std::string Waiting::name_of_station(const Station& s) const {
  std::string what = item(kKinds, s.kind);
  if (s.shard >= 0) what += fmt::format(" of {}", item(plan_.shards, s.shard).layer);
  if (s.flow >= 0) what += fmt::format(" ({})", item(plan_.flows, network_.flow(s.flow).plan_flow).tensor);
  return fmt::format("device {} {}", s.device, what);
}

std::string Waiting::waits_for(const Station& s) const {
  if (s.turns >= 0) {
    const Turns& turns = network_.turns_of(s);
    return fmt::format("at {} waits for {}", text_of(network_.action_of(turns)), s.for_room ? "room downstream of it" : "what it reads");
  }
  const std::string at = fmt::format("at unit {} of {} {}", s.unit, makes_whole_samples(s.kind) ? "sample" : "cycle", s.cycle);
  if (network_.act_ram_is_full(s)) {
    const ActRam& ram = network_.act_ram_of(s);
    return fmt::format("{} waits for room in its Act-RAM, which holds {} rows where a sample has {}", at, ram.capacity_rows, ram.rows);
  }
  if (s.for_room) return fmt::format("{} waits for room {}", at, s.flow >= 0 ? "at the link's other end" : "downstream");
  if (s.blocked_stream < 0) return at;
  const UnitQueue& awaited = network_.stream(s.blocked_stream);
  if (awaited.flow >= 0) {
    const Flow& flow = item(plan_.flows, network_.flow(awaited.flow).plan_flow);
    return fmt::format("{} waits for {} \"{}\" over link {}", at, millrace::name_of(flow.stream), flow.tensor, flow.link);
  }
  return fmt::format("{} waits for {}", at, awaited.producer >= 0 ? name_of_station(network_.station(awaited.producer)) : "what it reads");
}

// Whom a station waits for; -1: nobody here.
int32_t Waiting::awaited_by(const Station& s) const {
  if (!s.blocked) return -1;
  if (s.for_room) {
    if (network_.act_ram_is_full(s)) {
      for (size_t i = 0; i < network_.stations.size(); ++i)
        if (network_.stations[i].act_ram == s.act_ram && network_.stations[i].kind == StationKind::kParameterGradient)
          return static_cast<int32_t>(i);
      return -1;
    }
    if (s.flow >= 0) {
      const FlowState& state = network_.flow(s.flow);
      return state.receiver_here ? network_.slowest_reader(network_.stream(state.stream)) : -1;
    }
    return s.out >= 0 ? network_.slowest_reader(network_.stream(s.out)) : -1;
  }
  if (s.blocked_stream < 0) return -1;
  const UnitQueue& awaited = network_.stream(s.blocked_stream);
  return awaited.flow >= 0 ? network_.flow(awaited.flow).sender : awaited.producer;
}

std::string Waiting::text() const {
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
    at = awaited_by(network_.station(at));
  }
  const auto first = at >= 0 ? std::find(way.begin(), way.end(), at) : way.end() - std::min<std::ptrdiff_t>(1, std::ssize(way));
  std::string text;
  for (auto station = first; station != way.end(); ++station) {
    if (std::distance(first, station) == kMostLines) {
      text += fmt::format("; and so on through {} more", std::distance(station, way.end()));
      break;
    }
    const Station& s = network_.station(*station);
    text += fmt::format("{}{} {}", station == first ? "" : "; ", name_of_station(s), waits_for(s));
  }
  // What could be larger is the way out.
  for (auto station = first; station != way.end(); ++station) {
    const Station& s = network_.station(*station);
    if (network_.act_ram_is_full(s))
      text += fmt::format("; the Act-RAM of {} is too small for any error to come back in time", name_of_station(s));
    if (network_.act_ram_is_full(s)) break;
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

}  // namespace

std::string explain_stuck(const Network& network, const Plan& plan) { return Waiting(network, plan).text(); }

}  // namespace millrace::simulation
