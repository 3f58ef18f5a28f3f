// Devices that take turns: a trainer's, which do one action after the other and begin none that they could not send.
#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "node/simulate/engine.h"

namespace millrace::simulation {
namespace {

// Of all chunks at once, with the last that G takes.
bool makes_gradients(const Action& action) { return action.chunk <= 0; }

// Some of the action is made, and some is left to other chunks.
bool goes_on(const TurnWay& way, int64_t chunk) {
  const auto behind = way.durations.begin() + static_cast<std::ptrdiff_t>(std::min(chunk + 1, std::ssize(way.durations)));
  return item(way.durations, std::min(chunk, std::ssize(way.durations) - 1)) > 0 &&
         std::any_of(behind, way.durations.end(), [](int64_t duration) { return duration > 0; });
}

}  // namespace

// True when it has been granted; else it is noted, and granted at the end of this moment or later.
bool Engine::core_granted(int32_t index, Station& s, int32_t rank, const Action& action) {
  if (granted_ == index) return true;
  cores_.want(rank, turn_of(action, s.device, network_.oldest_first), index);
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
bool Engine::room_for_messages(int32_t index, Station& s, const std::vector<int32_t>& flows, int64_t micro_batch, int64_t chunk) {
  for (const int32_t f : flows) {
    FlowState& state = flow(f);
    take_credits(state);
    const int64_t message = micro_batch * state.per_sample + (state.per_sample > 1 ? chunk : 0);
    if (message < state.credit) continue;
    block(s, Cause::kOutput, -1, true);
    if (!state.credits.empty()) set(index, state.credits.front().time);
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
    const TurnWay& way = turns.way(forward);
    const int64_t chunk = network_.chunk_of(turns);
    const bool whole = network_.takes_whole(turns);
    const bool shares = turns.rows > 0 && (forward || error) && whole;
    const bool begins = turns.phase == 0, ends = !shares || turns.phase == turns.rows;
    const std::vector<int32_t>& inputs = network_.inputs_of(turns);
    int64_t end = now_;
    if ((forward || error) && !inputs_ready(index, s, inputs.data(), static_cast<int32_t>(inputs.size()), end)) return;
    if ((forward || error) && ends) {
      if (stream(way.out).started >= network_.allowed(stream(way.out))) return block(s, Cause::kOutput, -1, true);
      if (!room_for_messages(index, s, whole ? way.flows : way.chunk_flows, action.index, chunk)) return;
    }
    if ((forward || error) && begins && !room_for_messages(index, s, whole ? way.early_flows : way.early_chunk_flows, action.index, chunk))
      return;
    if (turns.rank >= 0 && !core_granted(index, s, turns.rank, action)) return;
    unblock(s);
    ++events_;
    if (begins) s.cycle_start = now_;
    if (begins && s.cycle == s.window_cycle) begin_window(s);
    if (forward && begins && chunk == 0) {
      if (index == network_.first_of_samples)
        for (int64_t i = 0; i < plan_.micro_batch; ++i) item(begun_, action.index * plan_.micro_batch + i) = now_;
      turns.peak_in_flight = std::max(turns.peak_in_flight, ++turns.in_flight);
    }
    if (shares) {
      start_phase(index, s, turns, way, forward);
      continue;
    }
    int64_t duration = turns.update;
    if (forward || error)
      duration = item(way.durations, chunk);
    else if (action.kind == ActionKind::kParameterGradient)
      duration = makes_gradients(action) ? turns.gradient : 0;
    s.busy += duration;
    if (action.kind == ActionKind::kUpdate) {
      fast_item(s.waited, Cause::kUpdate) += turns.all_reduce;
      duration += turns.all_reduce;
    }
    s.running = true;
    ++s.cycle;
    set(index, now_ + duration);
    if (forward || error) advance_action(turns, inputs);
  }
}

// What the action has read is read: each input waits for what its next chunk needs, or its next micro-batch.
void Engine::advance_action(const Turns& turns, const std::vector<int32_t>& inputs) {
  const int64_t micro_batch = network_.action_of(turns).index;
  const int64_t next = network_.chunk_of(turns) + 1;
  for (const int32_t index : inputs) {
    Input& read = input(index);
    if (next < turns.chunks && read.schedule >= 0) continue;  // a pass serves all chunks
    if (next < turns.chunks && std::ssize(item(network_.tables, read.table)) > 1)
      read.need = read.base + network_.rows(read.table, static_cast<int32_t>(next));
    else
      advance_cycle(read, micro_batch + 1, static_cast<int64_t>(begun_.size()) / plan_.micro_batch);
    after_need(read.stream);
  }
}

// A row of the steps that devices share, and behind the last of them what is left of the action.
void Engine::start_phase(int32_t index, Station& s, Turns& turns, const TurnWay& way, bool forward) {
  const int64_t others = item(way.durations, network_.chunk_of(turns)) - way.shared;
  const bool last = turns.phase == turns.rows;
  int64_t duration = last ? 0 : way.shared / turns.rows + (turns.phase < way.shared % turns.rows ? 1 : 0);
  if (forward ? last : turns.phase == 0) duration += others;
  const Action& action = network_.action_of(turns);
  if (turns.phase == 0) {
    put(way.early, 1, now_);
    advance_action(turns, way.inputs);
  }
  if (!last)
    for (int64_t place = 0; place < turns.rows_of_step; ++place)
      for (const int32_t read : item(way.rows, place)) {
        input(read).need = (action.index * turns.rows + turns.phase + turns.rows_of_step - place) / turns.rows_of_step;
        after_need(input(read).stream);
      }
  s.busy += duration;
  s.running = true;
  if (last) ++s.cycle;
  set(index, now_ + duration);
}

void Engine::end_action(int32_t index, Station& s) {
  Turns& turns = network_.turns_of(s);
  const Action& action = network_.action_of(turns);
  const bool forward = action.kind == ActionKind::kForward;
  const TurnWay& way = turns.way(forward);
  const bool shares = turns.rows > 0 && (forward || action.kind == ActionKind::kErrorBack);
  if (shares && network_.takes_whole(turns) && turns.phase < turns.rows) {
    s.window_end = now_;
    if (turns.rank >= 0) cores_.release(turns.rank);
    put(way.row, 1, now_);
    ++turns.phase;
    return;
  }
  if (shares && !network_.takes_whole(turns)) put(way.early, 1, now_);
  const bool more = (forward || action.kind == ActionKind::kErrorBack) && goes_on(way, network_.chunk_of(turns));
  turns.phase = 0;
  ++turns.next;
  s.window_end = now_;
  if (turns.rank >= 0) cores_.release(turns.rank, turns.keeps_card && more ? index : -1);
  uint8_t phase = 0;
  switch (action.kind) {
    case ActionKind::kForward: put(way.out, 1, now_); break;
    case ActionKind::kErrorBack:
      phase = 1;
      put(way.out, 1, now_);
      break;
    case ActionKind::kParameterGradient:
      if (!makes_gradients(action)) return;
      phase = 2;
      put(turns.gradient_out, 1, now_);
      --turns.in_flight;
      break;
    case ActionKind::kUpdate: turns.updated.push_back(now_); return;
    case ActionKind::kValidate: return;
  }
  for (int64_t i = 0; i < plan_.micro_batch; ++i) {
    int64_t& finished = item(finished_, action.index * plan_.micro_batch + i);
    finished = std::max(finished, now_);
  }
  if (tracing_) trace_.push_back({s.device, -1, phase, action.index, phase == 2 ? -1 : action.chunk, s.cycle_start, now_});
}

}  // namespace millrace::simulation
