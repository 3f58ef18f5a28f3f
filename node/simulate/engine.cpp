#include "node/simulate/engine.h"

#include <algorithm>

#include "core/base/check.h"

namespace millrace::simulation {
void Engine::begin() {
  // First credits are known before anything moves; then every station looks round, in order.
  for (FlowState& state : network_.flows)
    if (state.receiver_here) tell_credit(state, 0);
  for (size_t s = 0; s < network_.stations.size(); ++s) timeline_.set(static_cast<int32_t>(s), 0);
}

int64_t Engine::run_crew(int32_t crew, int64_t end, const Horizon& horizon) {
  const bool at_left = crew == crew_of_device_.front(), at_right = crew == crew_of_device_.back();
  const auto stations = static_cast<int32_t>(network_.stations.size());
  int64_t steps = 0;
  timeline_.begin_crew(crew);
  for (int64_t next = timeline_.next_time(crew); next < end; next = timeline_.next_time(crew)) {
    if (at_left && next >= horizon.left_credits && !provided(true)) break;
    if (at_right && next >= horizon.right_credits && !provided(false)) break;
    now_ = next;
    const int32_t id = timeline_.next_id(crew);
    if (id < stations)
      attend(id);
    else
      arrive(id - stations);
    drain();
    ++steps;
  }
  latest_ = std::max(latest_, now_);
  timeline_.end_crew();
  return steps;
}

// Everything that can begin at this moment does, in an order that depends on nothing but the network.
void Engine::drain() {
  do {
    for (size_t i = 0; i < pending_.size(); ++i) {
      const int32_t index = pending_[i];
      visiting_[static_cast<size_t>(index)] = 0;
      try_station(index);
    }
    pending_.clear();
  } while (grant_core());
}

void Engine::attend(int32_t id) {
  timeline_.set(id, kNeverTime);
  if (station(id).running) end_unit(id);
  visit(id);
}

void Engine::arrive(int32_t index) {
  FlowState& state = flow(index);
  const InFlight message = state.in_flight.front();
  state.in_flight.pop();
  timeline_.set(static_cast<int32_t>(network_.stations.size()) + index,
                state.in_flight.empty() ? kNeverTime : state.in_flight.front().start);
  ++events_;
  put(state.stream, 1, message.end);
}

void Engine::put(int32_t index, int64_t count, int64_t end) {
  Supply& s = stream(index);
  s.started += count;
  s.latest_end = end;
  for (int32_t r = 0; r < s.readers; ++r) {
    const Reader& reader = network_.readers[static_cast<size_t>(s.first_reader + r)];
    const Station& waiting = station(reader.station);
    if (waiting.blocked && waiting.blocked_stream == index && s.started >= input(reader.input).need) visit(reader.station);
  }
  note_waiting(s);
}

// Rows that nobody needs yet lie in the FIFO.
void Engine::note_waiting(Supply& s) {
  if (s.flow < 0) return;
  int64_t needed = kNoLimit;
  for (int32_t r = 0; r < s.readers; ++r)
    needed = std::min(needed, input(network_.readers[static_cast<size_t>(s.first_reader + r)].input).need);
  s.peak_waiting = std::max(s.peak_waiting, s.started - needed);
}

int64_t Engine::allowed(const Supply& s) const {
  int64_t limit = kNoLimit;
  for (int32_t r = 0; r < s.readers; ++r) {
    const Input& read = network_.inputs[static_cast<size_t>(network_.readers[static_cast<size_t>(s.first_reader + r)].input)];
    limit = std::min(limit, read.need + read.slack);
  }
  return limit;
}

// A reader needs more than before: whoever fills the stream may go on.
void Engine::after_need(int32_t index) {
  Supply& s = stream(index);
  if (s.flow < 0) {
    if (s.producer >= 0 && station(s.producer).blocked && station(s.producer).for_room) visit(s.producer);
    return;
  }
  FlowState& state = flow(s.flow);
  tell_credit(state, now_ + state.latency);
}

// Whoever is at the flow's other end may have gone on until then.
void Engine::check_in_time(const FlowState& state, int64_t time) const {
  MILLRACE_CHECK(time >= until_ || state.latency == 0 || crew_of_device_.back() == 0,
                 "flow {}: something comes at {} ps, when all before {} ps is done", state.plan_flow, time, until_);
}

void Engine::tell_credit(FlowState& state, int64_t time) {
  const int64_t limit = allowed(stream(state.stream));
  if (limit <= state.told) return;
  state.told = limit;
  if (state.sender_here) {
    check_in_time(state, time);
    give_credit(state, time, limit);
  } else {
    outbox_.push_back({state.plan_flow, time, limit, true});
  }
}

void Engine::give_credit(FlowState& state, int64_t time, int64_t limit) {
  while (state.credits.size() >= 2 && state.credits[1].time <= since_) state.credits.pop();
  state.credits.push({time, limit});
  for (const int32_t waiting : {state.sender, state.taker}) {
    if (waiting < 0) continue;
    const Station& sender = station(waiting);
    if (sender.blocked && sender.for_room && timeline_.time_of(waiting) > time) timeline_.set(waiting, time);
  }
}

void Engine::accept(const Crossing& crossing) {
  const int32_t index = network_.flow_index[static_cast<size_t>(crossing.plan_flow)];
  MILLRACE_CHECK(index >= 0, "flow {} has no end in this block", crossing.plan_flow);
  FlowState& state = flow(index);
  if (crossing.credit) return give_credit(state, crossing.time, crossing.amount);
  MILLRACE_CHECK(crossing.time >= until_, "flow {}: a message of {} ps comes when all before {} ps is done", crossing.plan_flow,
                 crossing.time, until_);
  state.in_flight.push({crossing.time, crossing.amount});
  if (state.in_flight.size() == 1) timeline_.set(static_cast<int32_t>(network_.stations.size()) + index, crossing.time);
}

void Engine::block(Station& s, Cause cause, int32_t on, bool for_room) {
  if (s.blocked) s.waited[static_cast<size_t>(s.cause)] += now_ - s.since;
  s.since = now_;
  s.blocked = true;
  s.cause = cause;
  s.blocked_stream = on;
  s.for_room = for_room;
}

void Engine::unblock(Station& s) {
  if (!s.blocked) return;
  s.waited[static_cast<size_t>(s.cause)] += now_ - s.since;
  s.blocked = false;
  s.for_room = false;
  s.blocked_stream = -1;
}

bool Engine::inputs_ready(int32_t index, Station& s, const int32_t* inputs, int32_t count, int64_t& end) {
  for (int32_t i = 0; i < count; ++i) {
    const Input& read = input(inputs != nullptr ? inputs[i] : s.first_input + i);
    if (read.need == 0) continue;
    const Supply& source = stream(read.stream);
    if (source.started < read.need) {
      block(s, read.cause, read.stream, false);
      return false;
    }
    if (source.started > read.need || source.latest_end <= now_) continue;
    if (read.whole) {
      block(s, read.cause, read.stream, false);
      timeline_.set(index, source.latest_end);
      return false;
    }
    end = std::max(end, source.latest_end);
  }
  return true;
}

bool Engine::output_ready(int32_t index, Station& s) {
  if (s.out >= 0 && stream(s.out).started >= allowed(stream(s.out))) {
    block(s, Cause::kOutput, -1, true);
    return false;
  }
  return s.flow < 0 || credit_ready(index, s);
}

void Engine::take_credits(FlowState& state) const {
  while (!state.credits.empty() && state.credits.front().time <= now_) {
    state.credit = state.credits.front().allowed;
    state.credits.pop();
  }
}

bool Engine::credit_ready(int32_t index, Station& s) {
  FlowState& state = flow(s.flow);
  take_credits(state);
  if (state.sent < state.credit) return true;
  block(s, Cause::kOutput, -1, true);
  if (!state.credits.empty()) timeline_.set(index, state.credits.front().time);
  return false;
}

void Engine::try_station(int32_t index) {
  Station& s = station(index);
  if (s.turns >= 0) return try_turns(index, s);
  if (s.free_at > now_) return timeline_.set(index, s.free_at);
  while (s.cycle < s.cycles && !s.running) {
    int64_t end = now_;
    if (!inputs_ready(index, s, nullptr, s.inputs, end) || !room_in_act_ram(s, end) || !output_ready(index, s)) return;
    start(index, s, end);
  }
}

// All-reduces of one device follow one another.
int64_t Engine::take_column(int32_t device, int64_t duration) {
  int64_t& free_at = column_free_at_[static_cast<size_t>(device - network_.first_device)];
  free_at = std::max(free_at, now_) + duration;
  return free_at - now_;
}

void Engine::begin_window(Station& s) {
  s.window_start = now_;
  s.window_busy = s.busy;
  s.window_waited = s.waited;
}

void Engine::start(int32_t index, Station& s, int64_t end) {
  unblock(s);
  ++events_;
  if (s.unit == 0) {
    s.cycle_start = now_;
    if (s.cycle == s.window_cycle) begin_window(s);
    if (index == network_.first_of_samples) begun_[static_cast<size_t>(s.cycle)] = now_;
  }
  if (s.timed) {
    int64_t duration = s.duration + (s.unit < s.longer ? 1 : 0);
    if (s.kind == StationKind::kUpdate) duration = take_column(s.device, duration);
    s.busy += duration;
    if (end > now_ + duration) {
      s.waited[static_cast<size_t>(Cause::kInput)] += end - now_ - duration;
    } else {
      end = now_ + duration;
    }
    s.running = true;
    s.finished_unit = s.unit;
    timeline_.set(index, end);
  }
  begin_act_ram(s, end);
  if (s.flow >= 0) send(flow(s.flow), end);
  if (s.out >= 0) put(s.out, 1, end);
  advance_inputs(s);
}

void Engine::advance_inputs(Station& s) {
  const bool wraps = ++s.unit == s.units;
  if (wraps) {
    s.unit = 0;
    ++s.cycle;
  }
  for (int32_t i = 0; i < s.inputs; ++i) {
    Input& read = input(s.first_input + i);
    if (read.schedule >= 0) {
      if (!wraps) continue;
      advance_cycle(read, s.cycle, s.cycles);
    } else if (wraps) {
      advance_cycle(read, s.cycle, s.cycles);
    } else {
      const int64_t need = read.base + network_.tables[static_cast<size_t>(read.table)][static_cast<size_t>(s.unit)];
      if (need == read.need) continue;
      read.need = need;
    }
    after_need(read.stream);
  }
}

void Engine::advance_cycle(Input& read, int64_t cycle, int64_t cycles) {
  if (cycle == cycles) {
    read.need = kNoLimit;
  } else if (read.schedule >= 0) {
    read.need = network_.schedules[static_cast<size_t>(read.schedule)][static_cast<size_t>(cycle / read.divisor)] * read.factor;
  } else {
    read.base += read.per_cycle;
    read.need = read.base + network_.tables[static_cast<size_t>(read.table)][0];
  }
}

void Engine::send(FlowState& state, int64_t end) {
  LinkSide& lane = network_.lanes[static_cast<size_t>(state.lane)];
  const size_t size = state.position < state.larger ? 0 : 1;
  const Service& service = state.services[size];
  if (++state.position == state.per_sample) state.position = 0;
  if (lane.free_at + (lane.free_part > 0 ? 1 : 0) <= now_) {
    lane.free_at = now_;
    lane.free_part = 0;
  }
  lane.free_at += service.picoseconds;
  lane.free_part += service.part;
  if (lane.free_part >= lane.bits_per_second) {
    lane.free_part -= lane.bits_per_second;
    ++lane.free_at;
  }
  const int64_t latency = state.latency + (scenario_.jitter_picoseconds > 0 ? jitter_of(scenario_, state.plan_flow, state.sent) : 0);
  ++state.sent;
  // A link takes words from its flows in turn: a message begins to come whatever else is on its way. It ends when the link has sent
  // everything that was there before, or sooner: when its own flow's part of the link has sent it, for a flow does not wait behind
  // others' rows. For moments a lane may so carry more than its speed; over a run it cannot, since the parts add up to the lane. Of one
  // flow the next message comes when the one before has come.
  state.turn_free_at = std::min(lane.free_at + (lane.free_part > 0 ? 1 : 0), std::max(state.turn_free_at, now_) + state.in_turn[size]);
  const int64_t sent = std::max(state.turn_free_at, end);
  const InFlight message{std::max(now_ + latency, state.last_arrival), std::max(sent + latency, state.last_arrival)};
  state.last_arrival = message.end;
  if (!state.receiver_here) {
    outbox_.push_back({state.plan_flow, message.start, message.end, false});
    return;
  }
  check_in_time(state, message.start);
  state.in_flight.push(message);
  if (state.in_flight.size() == 1) {
    const auto index = static_cast<int32_t>(network_.stations.size() + static_cast<size_t>(&state - network_.flows.data()));
    timeline_.set(index, message.start);
  }
}

void Engine::end_unit(int32_t index) {
  Station& s = station(index);
  s.running = false;
  s.free_at = now_;
  s.since = now_;
  if (s.turns >= 0) return end_action(s);
  end_act_ram(s);
  // The unit after the last one of a cycle is already counted.
  if (s.finished_unit == s.units - 1) end_cycle(s, s.cycle - 1);
}

void Engine::end_cycle(Station& s, int64_t cycle) {
  s.window_end = now_;
  if (s.done >= 0) put(s.done, 1, now_);
  if (s.kind > StationKind::kParameterGradient) return;
  int64_t& finished = finished_[static_cast<size_t>(cycle)];
  finished = std::max(finished, now_);
  if (!tracing_) return;
  const auto phase = static_cast<uint8_t>(static_cast<int>(s.kind) - static_cast<int>(StationKind::kForward));
  trace_.push_back({s.device, s.shard, phase, cycle, s.cycle_start, now_});
}

const Action& Engine::action_of(const Turns& turns) const {
  return network_.device_schedules[static_cast<size_t>(turns.schedule)].actions[turns.next];
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
  Turns& turns = network_.turns[static_cast<size_t>(s.turns)];
  while (s.cycle < s.cycles && !s.running) {
    const Action& action = action_of(turns);
    const bool forward = action.kind == ActionKind::kForward;
    const bool error = action.kind == ActionKind::kErrorBack;
    const bool shares = turns.steps > 0 && (forward || error);
    const bool begins = turns.phase == 0, ends = !shares || turns.phase == turns.steps;
    const std::vector<int32_t>& inputs = inputs_of(turns);
    int64_t end = now_;
    if ((forward || error) && !inputs_ready(index, s, inputs.data(), static_cast<int32_t>(inputs.size()), end)) return;
    if ((forward || error) && ends) {
      const int32_t out = forward ? turns.forward_out : turns.error_out;
      if (stream(out).started >= allowed(stream(out))) return block(s, Cause::kOutput, -1, true);
      if (!room_for_message(index, s, forward ? turns.forward_flows : turns.error_flows, action.index)) return;
    }
    if (shares && begins && !room_for_message(index, s, forward ? turns.forward_early_flows : turns.error_early_flows, action.index))
      return;
    if (turns.rank >= 0 && !core_granted(index, s)) return;
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
        for (int64_t i = 0; i < plan_.micro_batch; ++i) begun_[static_cast<size_t>(action.index * plan_.micro_batch + i)] = now_;
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

const std::vector<int32_t>& Engine::inputs_of(const Turns& turns) const {
  const bool forward = action_of(turns).kind == ActionKind::kForward;
  if (turns.phase > 0) return forward ? turns.forward_rows : turns.error_rows;
  return forward ? turns.forward_inputs : turns.error_inputs;
}

// One of the steps that devices share, and behind the last of them what is left of the action.
void Engine::start_phase(int32_t index, Station& s, Turns& turns, bool forward) {
  const int64_t shared = forward ? turns.shared_forward : turns.shared_back;
  const int64_t others = (forward ? turns.forward : turns.error_back) - shared;
  const bool last = turns.phase == turns.steps;
  int64_t duration = last ? 0 : shared / turns.steps + (turns.phase < shared % turns.steps ? 1 : 0);
  if (forward ? last : turns.phase == 0) duration += others;
  const Action& action = action_of(turns);
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
  Turns& turns = network_.turns[static_cast<size_t>(s.turns)];
  const Action& action = action_of(turns);
  const bool shares = turns.steps > 0 && (action.kind == ActionKind::kForward || action.kind == ActionKind::kErrorBack);
  if (shares && turns.phase < turns.steps) {
    s.window_end = now_;
    free_core(s);
    put(action.kind == ActionKind::kForward ? turns.forward_row : turns.error_row, 1, now_);
    ++turns.phase;
    return;
  }
  turns.phase = 0;
  ++turns.next;
  s.window_end = now_;
  free_core(s);
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
    int64_t& finished = finished_[static_cast<size_t>(action.index * plan_.micro_batch + i)];
    finished = std::max(finished, now_);
  }
  if (tracing_) trace_.push_back({s.device, -1, phase, action.index, s.cycle_start, now_});
}

bool Engine::done() const {
  return std::all_of(network_.stations.begin(), network_.stations.end(),
                     [](const Station& s) { return s.cycle == s.cycles && !s.running; });
}

size_t Engine::bytes() const { return network_.bytes() + timeline_.bytes() + (begun_.capacity() + finished_.capacity()) * sizeof(int64_t); }

}  // namespace millrace::simulation
