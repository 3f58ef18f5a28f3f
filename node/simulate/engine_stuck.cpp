// Who waits for whom when nothing moves any more.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "node/simulate/engine.h"

namespace millrace {
namespace {

constexpr size_t kMostLines = 8;

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

std::string Engine::waits_for(const Station& s) const {
  if (s.turns >= 0) {
    const Turns& turns = network_.turns[static_cast<size_t>(s.turns)];
    return fmt::format("at {} waits for {}", text_of(action_of(turns)), s.for_room ? "room downstream of it" : "what it reads");
  }
  const std::string at = fmt::format("at unit {} of {} {}", s.unit, makes_whole_samples(s.kind) ? "sample" : "cycle", s.cycle);
  if (s.for_room)
    return fmt::format("{} waits for room ({})", at,
                       s.flow >= 0      ? "no credit from the link's other end"
                       : s.act_ram >= 0 ? "in its Act-RAM or downstream"
                                        : "downstream");
  if (s.blocked_stream < 0) return at;
  const Supply& awaited = network_.streams[static_cast<size_t>(s.blocked_stream)];
  if (awaited.flow >= 0) {
    const Flow& flow = plan_.flows[static_cast<size_t>(network_.flows[static_cast<size_t>(awaited.flow)].plan_flow)];
    return fmt::format("{} waits for {} \"{}\" over link {}", at, millrace::name_of(flow.stream), flow.tensor, flow.link);
  }
  if (awaited.producer >= 0)
    return fmt::format("{} waits for {}", at, name_of_station(network_.stations[static_cast<size_t>(awaited.producer)]));
  return fmt::format("{} waits for {}", at, s.cause == Cause::kUpdate ? "the end of samples before an update" : "what it reads");
}

std::string Engine::stuck() const {
  std::vector<const Station*> waiting;
  for (const Station& s : network_.stations)
    if (s.cycle < s.cycles && (s.blocked || s.running)) waiting.push_back(&s);
  // Those that are furthest behind are the cause, the others follow.
  std::stable_sort(waiting.begin(), waiting.end(), [](const Station* a, const Station* b) {
    return static_cast<double>(a->cycle) / static_cast<double>(a->cycles) < static_cast<double>(b->cycle) / static_cast<double>(b->cycles);
  });
  std::string text;
  for (size_t i = 0; i < std::min(waiting.size(), kMostLines); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : "; ", name_of_station(*waiting[i]), waits_for(*waiting[i]));
  if (waiting.size() > kMostLines) text += fmt::format("; and {} more", waiting.size() - kMostLines);
  return text;
}

}  // namespace millrace
