#include "node/simulate/block_edges.h"

#include <algorithm>
#include <map>

#include "core/base/index.h"

namespace millrace::simulation {
namespace {

// Rows pass through long chains of devices before they reach an edge; each adds a latency, so that a few say enough.
constexpr int kFarthest = 24;

}  // namespace

BlockEdges::BlockEdges(const Network& network, const Plan& plan, const Timeline& timeline)
    : network_(network), plan_(plan), timeline_(timeline) {
  most_sent_.assign(network_.flows.size(), 0);
  for (size_t f = 0; f < network_.flows.size(); ++f) {
    const FlowState& state = network_.flows[f];
    if (state.sender_here == state.receiver_here) continue;
    (is_left(state) ? left_ : right_).push_back(static_cast<int32_t>(f));
    if (state.sender_here && state.taker < 0) most_sent_[f] = most_sent_at_once(network_.station(state.sender));
  }
}

// A step of the clock makes one more unit of each stream: as many rows leave at most as wait for one and the same.
int64_t BlockEdges::most_sent_at_once(const Station& s) const {
  if (s.kind != StationKind::kLeaving) return 0;
  int64_t most = 0;
  for (int32_t i = 0; i < s.inputs; ++i) {
    const Input& read = network_.input(s.first_input + i);
    if (read.table < 0 || read.whole) return 0;
    std::map<int32_t, int64_t> rows;
    for (const int32_t need : item(network_.tables, read.table)) ++rows[need];
    int64_t of_one = 0;
    for (const auto& [need, count] : rows)
      if (need > 0) of_one = std::max(of_one, count);
    // Rows that need nothing of their sample leave with the last one of the sample before.
    most = std::max(most, of_one + (rows.contains(0) ? rows.at(0) : 0));
  }
  return most;
}

CrossingTimes BlockEdges::quiet_until(bool left, const Outlook& outlook) const {
  CrossingTimes earliest{kNeverTime, kNeverTime};
  for (const int32_t f : flows_at(left)) {
    const FlowState& state = network_.flow(f);
    // A message leaves when its station starts; a credit when the reader that holds it back goes on.
    const int32_t emitter = state.sender_here ? state.sender : network_.slowest_reader(network_.stream(state.stream));
    int64_t& of_kind = item(earliest, state.sender_here ? Crosses::kMessage : Crosses::kCredit);
    if (emitter >= 0 && of_kind > outlook.next) of_kind = std::min(of_kind, next_start(emitter, outlook, kFarthest));
  }
  for (int64_t& of_kind : earliest) of_kind = std::max(of_kind, outlook.next);
  return earliest;
}

int64_t BlockEdges::next_start(int32_t index, const Outlook& outlook, int depth) const {
  const Station& s = network_.station(index);
  if (s.running) return timeline_.time_of(index);
  if (s.cycle == s.cycles) return kNeverTime;
  if (depth == 0 || !s.blocked || s.cause == Cause::kCore) return outlook.next;
  if (s.for_room) return next_room(s, outlook, depth - 1);
  if (s.blocked_stream < 0) return outlook.next;
  const UnitQueue& awaited = network_.stream(s.blocked_stream);
  const int64_t missing = units_missing(s);
  // They are there, and only their end is awaited.
  if (missing <= 0) return outlook.next;
  if (awaited.flow >= 0) return next_arrival(network_.flow(awaited.flow), missing, outlook, depth - 1);
  if (awaited.producer < 0) return outlook.next;
  return next_start(awaited.producer, outlook, depth - 1);
}

int64_t BlockEdges::units_missing(const Station& s) const {
  const int64_t started = network_.stream(s.blocked_stream).started;
  int64_t missing = 0;
  const auto look = [&](int32_t index) {
    const Input& read = network_.input(index);
    if (read.stream == s.blocked_stream && read.need < kNoLimit) missing = std::max(missing, read.need - started);
  };
  if (s.turns >= 0) {
    // It may read a stream for F and for E: what counts is the action that waits.
    for (const int32_t index : network_.inputs_of(network_.turns_of(s))) look(index);
  } else {
    for (int32_t i = 0; i < s.inputs; ++i) look(s.first_input + i);
  }
  return missing;
}

int64_t BlockEdges::next_room(const Station& s, const Outlook& outlook, int depth) const {
  if (s.turns >= 0 || network_.act_ram_is_full(s)) return outlook.next;
  int32_t reader = -1;
  int64_t latency = 0;
  if (s.out >= 0) {
    const UnitQueue& made = network_.stream(s.out);
    if (made.started < network_.allowed(made)) return outlook.next;
    reader = network_.slowest_reader(made);
  } else if (s.flow >= 0) {
    const FlowState& state = network_.flow(s.flow);
    if (!state.credits.empty()) return std::max(outlook.next, state.credits.front().time);
    if (!state.receiver_here) return outlook.from(is_left(state), Crosses::kCredit);
    reader = network_.slowest_reader(network_.stream(state.stream));
    latency = state.latency;
  }
  if (reader < 0) return outlook.next;
  const int64_t start = next_start(reader, outlook, depth);
  return start == kNeverTime ? kNeverTime : start + latency;
}

int64_t BlockEdges::next_arrival(const FlowState& state, int64_t missing, const Outlook& outlook, int depth) const {
  if (state.in_flight.size() >= to_size(missing)) return state.in_flight[to_size(missing) - 1].start;
  if (!state.sender_here) return outlook.from(is_left(state), Crosses::kMessage);
  const int64_t start = next_start(state.sender, outlook, depth);
  if (start == kNeverTime) return kNeverTime;
  return start + state.latency;
}

}  // namespace millrace::simulation
