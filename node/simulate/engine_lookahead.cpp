// How long a block certainly sends nothing over its edge, whatever arrives: a unit in work ends first, a row that is needed is
// made first, a message on its way arrives first. And how far it may run without knowing of every credit.
#include <algorithm>
#include <map>

#include "node/simulate/engine.h"

namespace millrace::simulation {
namespace {

// Rows pass through long chains of devices before they reach an edge; each adds a latency, so that a few say enough.
constexpr int kFarthest = 24;

}  // namespace

void Engine::find_edges() {
  most_sent_.assign(network_.flows.size(), 0);
  for (size_t f = 0; f < network_.flows.size(); ++f) {
    const FlowState& state = network_.flows[f];
    if (state.sender_here == state.receiver_here) continue;
    const bool left = plan_.flows[static_cast<size_t>(state.plan_flow)].link == network_.first_device - 1;
    (left ? left_edge_ : right_edge_).push_back(static_cast<int32_t>(f));
    if (state.sender_here && state.taker < 0) most_sent_[f] = most_sent_at_once(network_.stations[static_cast<size_t>(state.sender)]);
  }
}

// A step of the clock makes one more unit of each stream: as many rows leave at most as wait for one and the same.
int64_t Engine::most_sent_at_once(const Station& s) const {
  if (s.kind != StationKind::kLeaving) return 0;
  int64_t most = 0;
  for (int32_t i = 0; i < s.inputs; ++i) {
    const Input& read = network_.inputs[static_cast<size_t>(s.first_input + i)];
    if (read.table < 0 || read.whole) return 0;
    std::map<int32_t, int64_t> rows;
    for (const int32_t need : network_.tables[static_cast<size_t>(read.table)]) ++rows[need];
    int64_t of_one = 0;
    for (const auto& [need, count] : rows)
      if (need > 0) of_one = std::max(of_one, count);
    // Rows that need nothing of their sample leave with the last one of the sample before.
    most = std::max(most, of_one + (rows.contains(0) ? rows.at(0) : 0));
  }
  return most;
}

// Every station that sends over this edge waits for its input, with credits in hand for all that the next step may let it send, or is
// done: a credit more would change nothing.
bool Engine::provided(bool left) {
  for (const int32_t f : left ? left_edge_ : right_edge_) {
    FlowState& state = flow(f);
    if (!state.sender_here) continue;
    const Station& s = station(state.sender);
    if (s.cycle == s.cycles) continue;
    if (most_sent_[static_cast<size_t>(f)] == 0 || !s.blocked || s.for_room) return false;
    take_credits(state);
    if (state.credit - state.sent < most_sent_[static_cast<size_t>(f)]) return false;
  }
  return true;
}

int64_t Engine::limit_of(const Horizon& horizon) {
  int64_t limit = horizon.messages;
  const int64_t next = timeline_.next_time();
  if (horizon.left_credits < limit && next >= horizon.left_credits && !provided(true)) limit = horizon.left_credits;
  if (horizon.right_credits < limit && next >= horizon.right_credits && !provided(false)) limit = horizon.right_credits;
  return limit;
}

CrossingTimes Engine::quiet_until(bool left, const Outlook& outlook) const {
  CrossingTimes earliest{kNeverTime, kNeverTime};
  for (const int32_t f : left ? left_edge_ : right_edge_) {
    const FlowState& state = network_.flows[static_cast<size_t>(f)];
    // A message leaves when its station starts; a credit when the reader that holds it back goes on.
    const int32_t emitter = state.sender_here ? state.sender : slowest_reader(network_.streams[static_cast<size_t>(state.stream)]);
    int64_t& of_kind = earliest[static_cast<size_t>(state.sender_here ? Crosses::kMessage : Crosses::kCredit)];
    if (emitter >= 0 && of_kind > outlook.next) of_kind = std::min(of_kind, next_start(emitter, outlook, kFarthest));
  }
  for (int64_t& of_kind : earliest) of_kind = std::max(of_kind, outlook.next);
  return earliest;
}

int64_t Engine::next_start(int32_t index, const Outlook& outlook, int depth) const {
  const Station& s = network_.stations[static_cast<size_t>(index)];
  if (s.running) return timeline_.time_of(index);
  if (s.cycle == s.cycles) return kNeverTime;
  if (depth == 0 || !s.blocked || s.cause == Cause::kCore) return outlook.next;
  if (s.for_room) return next_room(s, outlook, depth - 1);
  if (s.blocked_stream < 0) return outlook.next;
  const Supply& awaited = network_.streams[static_cast<size_t>(s.blocked_stream)];
  const int64_t missing = units_missing(s);
  // They are there, and only their end is awaited.
  if (missing <= 0) return outlook.next;
  if (awaited.flow >= 0) return next_arrival(network_.flows[static_cast<size_t>(awaited.flow)], missing, outlook, depth - 1);
  if (awaited.producer < 0) return outlook.next;
  return next_start(awaited.producer, outlook, depth - 1);
}

int64_t Engine::units_missing(const Station& s) const {
  const int64_t started = network_.streams[static_cast<size_t>(s.blocked_stream)].started;
  int64_t missing = 0;
  const auto look = [&](int32_t index) {
    const Input& read = network_.inputs[static_cast<size_t>(index)];
    if (read.stream == s.blocked_stream && read.need < kNoLimit) missing = std::max(missing, read.need - started);
  };
  if (s.turns >= 0) {
    // It may read a stream for F and for E: what counts is the action that waits.
    for (const int32_t index : inputs_of(network_.turns[static_cast<size_t>(s.turns)])) look(index);
  } else {
    for (int32_t i = 0; i < s.inputs; ++i) look(s.first_input + i);
  }
  return missing;
}

int64_t Engine::next_room(const Station& s, const Outlook& outlook, int depth) const {
  if (s.turns >= 0 || full_act_ram(s)) return outlook.next;
  int32_t reader = -1;
  int64_t latency = 0;
  if (s.out >= 0) {
    const Supply& made = network_.streams[static_cast<size_t>(s.out)];
    if (made.started < allowed(made)) return outlook.next;
    reader = slowest_reader(made);
  } else if (s.flow >= 0) {
    const FlowState& state = network_.flows[static_cast<size_t>(s.flow)];
    if (!state.credits.empty()) return std::max(outlook.next, state.credits.front().time);
    if (!state.receiver_here) return outlook.from(side_of(state), Crosses::kCredit);
    reader = slowest_reader(network_.streams[static_cast<size_t>(state.stream)]);
    latency = state.latency;
  }
  if (reader < 0) return outlook.next;
  const int64_t start = next_start(reader, outlook, depth);
  return start == kNeverTime ? kNeverTime : start + latency;
}

int64_t Engine::next_arrival(const FlowState& state, int64_t missing, const Outlook& outlook, int depth) const {
  if (state.in_flight.size() >= static_cast<size_t>(missing)) return state.in_flight[static_cast<size_t>(missing) - 1].start;
  if (!state.sender_here) return outlook.from(side_of(state), Crosses::kMessage);
  const int64_t start = next_start(state.sender, outlook, depth);
  if (start == kNeverTime) return kNeverTime;
  return start + state.latency;
}

bool Engine::side_of(const FlowState& state) const {
  return plan_.flows[static_cast<size_t>(state.plan_flow)].link == network_.first_device - 1;
}

}  // namespace millrace::simulation
