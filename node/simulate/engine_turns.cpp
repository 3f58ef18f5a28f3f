// Devices that take turns: a trainer's, which do one action after the other and begin none that they could not send.
#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "node/simulate/engine.h"

namespace millrace::simulation {

// True when it has been granted; else it is noted, and granted at the end of this moment or later.
bool Engine::core_granted(int32_t index, Station& s, int32_t rank) {
  if (granted_ == index) return true;
  cores_.want(rank, index);
  block(s, Cause::kCore, -1, false);
  return false;
}

bool Engine::grant_core() {
  const std::optional<int32_t> granted = cores_.grant();
  if (!granted) return false;
  granted_ = *granted;
  try_station(granted_);
  MILLRACE_CHECK(station(granted_).running, "a core was granted to device {}, which cannot act", station(granted_).device);
  granted_ = -1;
  return true;
}

// A trainer's device begins nothing that it could not send.
bool Engine::room_for_message(int32_t index, Station& s, const std::vector<int32_t>& flows, int64_t message) {
  for (const int32_t f : flows) {
    FlowState& state = flow(f);
    take_credits(state);
    if (message < state.credit) continue;
    block(s, Cause::kOutput, -1, true);
    if (!state.credits.empty()) timeline_.set(index, state.credits.front().time);
    return false;
  }
  return true;
}

void Engine::try_turns(int32_t index, Station& s) {
  Turns& turns = network_.turns_of(s);
  while (s.cycle < s.cycles && !s.running) {
    const Action& action = network_.action_of(turns);
    const bool forward = action.kind == ActionKind::kForward;
    const bool error = action.kind == ActionKind::kErrorBack;
    const bool shares = turns.steps > 0 && (forward || error);
    const bool begins = turns.phase == 0, ends = !shares || turns.phase == turns.steps;
    const std::vector<int32_t>& inputs = network_.inputs_of(turns);
    int64_t end = now_;
    if ((forward || error) && !inputs_ready(index, s, inputs.data(), static_cast<int32_t>(inputs.size()), end)) return;
    if ((forward || error) && ends) {
      const int32_t out = forward ? turns.forward_out : turns.error_out;
      if (stream(out).started >= network_.allowed(stream(out))) return block(s, Cause::kOutput, -1, true);
      if (!room_for_message(index, s, forward ? turns.forward_flows : turns.error_flows, action.index)) return;
    }
    if (shares && begins && !room_for_message(index, s, forward ? turns.forward_early_flows : turns.error_early_flows, action.index))
      return;
    if (turns.rank >= 0 && !core_granted(index, s, turns.rank)) return;
    unblock(s);
    ++events_;
    if (begins) s.cycle_start = now_;
    if (begins && s.cycle == s.window_cycle) begin_window(s);
    if (shares) {
      start_phase(index, s, turns, forward);
      continue;
    }
    int64_t duration = turns.update;
    if (forward) {
      duration = turns.forward;
      if (index == network_.first_of_samples)
        for (int64_t i = 0; i < plan_.micro_batch; ++i) item(begun_, action.index * plan_.micro_batch + i) = now_;
      turns.peak_in_flight = std::max(turns.peak_in_flight, ++turns.in_flight);
    } else if (error) {
      duration = turns.error_back;
    } else if (action.kind == ActionKind::kParameterGradient) {
      duration = turns.gradient;
    }
    s.busy += duration;
    if (action.kind == ActionKind::kUpdate) {
      s.waited[static_cast<size_t>(Cause::kUpdate)] += turns.all_reduce;
      duration += turns.all_reduce;
    }
    s.running = true;
    ++s.cycle;
    timeline_.set(index, now_ + duration);
    if (forward || error)
      for (const int32_t read : inputs) {
        advance_cycle(input(read), action.index + 1, static_cast<int64_t>(begun_.size()) / plan_.micro_batch);
        after_need(input(read).stream);
      }
  }
}

// One of the steps that devices share, and behind the last of them what is left of the action.
void Engine::start_phase(int32_t index, Station& s, Turns& turns, bool forward) {
  const int64_t shared = forward ? turns.shared_forward : turns.shared_back;
  const int64_t others = (forward ? turns.forward : turns.error_back) - shared;
  const bool last = turns.phase == turns.steps;
  int64_t duration = last ? 0 : shared / turns.steps + (turns.phase < shared % turns.steps ? 1 : 0);
  if (forward ? last : turns.phase == 0) duration += others;
  const Action& action = network_.action_of(turns);
  if (turns.phase == 0) {
    if (forward) turns.peak_in_flight = std::max(turns.peak_in_flight, ++turns.in_flight);
    put(forward ? turns.forward_early : turns.error_early, 1, now_);
    for (const int32_t read : forward ? turns.forward_inputs : turns.error_inputs) {
      advance_cycle(input(read), action.index + 1, static_cast<int64_t>(begun_.size()) / plan_.micro_batch);
      after_need(input(read).stream);
    }
  }
  if (!last)
    for (const int32_t read : forward ? turns.forward_rows : turns.error_rows) {
      input(read).need = action.index * turns.steps + turns.phase + 1;
      after_need(input(read).stream);
    }
  s.busy += duration;
  s.running = true;
  if (last) ++s.cycle;
  timeline_.set(index, now_ + duration);
}

void Engine::end_action(Station& s) {
  Turns& turns = network_.turns_of(s);
  const Action& action = network_.action_of(turns);
  const bool shares = turns.steps > 0 && (action.kind == ActionKind::kForward || action.kind == ActionKind::kErrorBack);
  if (shares && turns.phase < turns.steps) {
    s.window_end = now_;
    if (turns.rank >= 0) cores_.release(turns.rank);
    put(action.kind == ActionKind::kForward ? turns.forward_row : turns.error_row, 1, now_);
    ++turns.phase;
    return;
  }
  turns.phase = 0;
  ++turns.next;
  s.window_end = now_;
  if (turns.rank >= 0) cores_.release(turns.rank);
  uint8_t phase = 0;
  switch (action.kind) {
    case ActionKind::kForward: put(turns.forward_out, 1, now_); break;
    case ActionKind::kErrorBack:
      phase = 1;
      put(turns.error_out, 1, now_);
      break;
    case ActionKind::kParameterGradient:
      phase = 2;
      put(turns.gradient_out, 1, now_);
      --turns.in_flight;
      break;
    case ActionKind::kUpdate:
    case ActionKind::kValidate: return;
  }
  for (int64_t i = 0; i < plan_.micro_batch; ++i) {
    int64_t& finished = item(finished_, action.index * plan_.micro_batch + i);
    finished = std::max(finished, now_);
  }
  if (tracing_) trace_.push_back({s.device, -1, phase, action.index, s.cycle_start, now_});
}

}  // namespace millrace::simulation
