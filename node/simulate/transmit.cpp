#include "node/simulate/transmit.h"

#include <algorithm>

namespace millrace::simulation {

namespace {

// Of T steps in C chunks chunk c has those from T c / C to T (c + 1) / C.
bool is_larger(const FlowState& state) {
  if (!state.spread) return state.position < state.larger;
  const int64_t chunk = state.descending ? state.per_sample - 1 - state.position : state.position;
  return state.larger * (chunk + 1) / state.per_sample > state.larger * chunk / state.per_sample;
}

}  // namespace

InFlight transmit(FlowState& state, LinkSide& lane, int64_t now, int64_t end, int64_t jitter) {
  const size_t size = is_larger(state) ? 0 : 1;
  const Service& service = state.services[size];
  if (++state.position == state.per_sample) state.position = 0;
  if (lane.free_at + (lane.free_part > 0 ? 1 : 0) <= now) {
    lane.free_at = now;
    lane.free_part = 0;
  }
  lane.free_at += service.picoseconds;
  lane.free_part += service.part;
  if (lane.free_part >= lane.bits_per_second) {
    lane.free_part -= lane.bits_per_second;
    ++lane.free_at;
  }
  const int64_t latency = state.latency + jitter;
  ++state.sent;
  // A link takes words from its flows in turn: a message begins to come whatever else is on its way. It ends when the link has sent
  // everything that was there before, or sooner: when its own flow's part of the link has sent it, for a flow does not wait behind
  // others' rows. For moments a lane may so carry more than its speed; over a run it cannot, since the parts add up to the lane. Of one
  // flow the next message comes when the one before has come.
  state.turn_free_at = std::min(lane.free_at + (lane.free_part > 0 ? 1 : 0), std::max(state.turn_free_at, now) + state.in_turn[size]);
  const int64_t sent = std::max(state.turn_free_at, end);
  const InFlight message{std::max(now + latency, state.last_arrival), std::max(sent + latency, state.last_arrival)};
  state.last_arrival = message.end;
  return message;
}

}  // namespace millrace::simulation
