#include "node/simulate/engine.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "node/simulate/act_rows.h"
#include "node/simulate/transmit.h"

namespace millrace::simulation {

void Engine::begin() {
  // First credits are known before anything moves; then every station looks round, in order.
  for (FlowState& state : network_.flows)
    if (state.receiver_here) tell_credit(state, 0);
  for (size_t s = 0; s < network_.stations.size(); ++s) timeline_.set(static_cast<int32_t>(s), 0);
}

int64_t Engine::run_process(int32_t process, int64_t end, const Horizon& horizon) {
  const bool at_left = process == process_of_device_.front(), at_right = process == process_of_device_.back();
  const auto stations = static_cast<int32_t>(network_.stations.size());
  int64_t steps = 0;
  timeline_.begin_process(process);
  for (int64_t next = timeline_.next_time(process); next < end; next = timeline_.next_time(process)) {
    if (at_left && next >= horizon.left_credits && !provided(true)) break;
    if (at_right && next >= horizon.right_credits && !provided(false)) break;
    now_ = next;
    const int32_t id = timeline_.next_id(process, next);
    if (id < stations)
      attend(id);
    else
      arrive(id - stations);
    drain();
    if (attending_ >= 0) set(attending_, kNeverTime);
    ++steps;
  }
  latest_ = std::max(latest_, now_);
  timeline_.end_process();
  return steps;
}

// Everything that can begin at this moment does, in an order that depends on nothing but the network.
void Engine::drain() {
  do {
    for (size_t i = 0; i < pending_.size(); ++i) {
      const int32_t index = pending_[i];
      item(visiting_, index) = 0;
      try_station(index);
    }
    pending_.clear();
  } while (!network_.ranks.empty() && grant_core());
}

// It has no time from here on, which the clock is told once: most have the next at once.
void Engine::attend(int32_t id) {
  attending_ = id;
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
  UnitQueue& s = stream(index);
  s.started += count;
  s.latest_end = end;
  for (int32_t r = 0; r < s.readers; ++r) {
    const Reader& reader = network_.reader_of(s, r);
    const Station& waiting = station(reader.station);
    if (waiting.blocked && waiting.blocked_stream == index && s.started >= input(reader.input).need) visit(reader.station);
  }
  note_waiting(s);
}

// Rows that nobody needs yet lie in the FIFO.
void Engine::note_waiting(UnitQueue& s) {
  if (s.flow < 0 || !network_.finds_peaks) return;
  int64_t needed = kNoLimit;
  for (int32_t r = 0; r < s.readers; ++r) needed = std::min(needed, input(network_.reader_of(s, r).input).need);
  s.peak_waiting = std::max(s.peak_waiting, s.started - needed);
}

// A reader needs more than before: whoever fills the stream may go on.
void Engine::after_need(int32_t index) {
  UnitQueue& s = stream(index);
  if (s.flow < 0) {
    if (s.producer >= 0 && station(s.producer).blocked && station(s.producer).for_room) visit(s.producer);
    return;
  }
  FlowState& state = flow(s.flow);
  tell_credit(state, now_ + state.latency);
}

// Whoever is at the flow's other end may have gone on until then.
void Engine::check_in_time(const FlowState& state, int64_t time) const {
  MILLRACE_CHECK(time >= until_ || state.latency == 0 || process_of_device_.back() == 0,
                 "flow {}: something comes at {} ps, when all before {} ps is done", state.plan_flow, time, until_);
}

void Engine::tell_credit(FlowState& state, int64_t time) {
  const int64_t limit = network_.allowed(stream(state.stream));
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
    if (sender.blocked && sender.for_room && (waiting == attending_ || timeline_.time_of(waiting) > time)) set(waiting, time);
  }
}

void Engine::accept(const Crossing& crossing) {
  const int32_t index = item(network_.flow_index, crossing.plan_flow);
  MILLRACE_CHECK(index >= 0, "flow {} has no end in this block", crossing.plan_flow);
  FlowState& state = flow(index);
  if (crossing.credit) return give_credit(state, crossing.time, crossing.amount);
  MILLRACE_CHECK(crossing.time >= until_, "flow {}: a message of {} ps comes when all before {} ps is done", crossing.plan_flow,
                 crossing.time, until_);
  state.in_flight.push({crossing.time, crossing.amount});
  if (state.in_flight.size() == 1) timeline_.set(static_cast<int32_t>(network_.stations.size()) + index, crossing.time);
}

void Engine::block(Station& s, Cause cause, int32_t on, bool for_room) {
  if (s.blocked) fast_item(s.waited, s.cause) += now_ - s.since;
  s.since = now_;
  s.blocked = true;
  s.cause = cause;
  s.blocked_stream = on;
  s.for_room = for_room;
}

void Engine::unblock(Station& s) {
  if (!s.blocked) return;
  fast_item(s.waited, s.cause) += now_ - s.since;
  s.blocked = false;
  s.for_room = false;
  s.blocked_stream = -1;
}

bool Engine::inputs_ready(int32_t index, Station& s, const int32_t* inputs, int32_t count, int64_t& end) {
  for (int32_t i = 0; i < count; ++i) {
    const Input& read = input(inputs != nullptr ? inputs[i] : s.first_input + i);
    if (read.need == 0) continue;
    const UnitQueue& source = stream(read.stream);
    if (source.started < read.need) {
      block(s, read.cause, read.stream, false);
      return false;
    }
    if (source.started > read.need || source.latest_end <= now_) continue;
    if (read.whole) {
      block(s, read.cause, read.stream, false);
      set(index, source.latest_end);
      return false;
    }
    end = std::max(end, source.latest_end);
  }
  return true;
}

bool Engine::output_ready(int32_t index, Station& s) {
  if (s.out >= 0 && stream(s.out).started >= network_.allowed(stream(s.out))) {
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
  if (!state.credits.empty()) set(index, state.credits.front().time);
  return false;
}

bool Engine::room_in_act_ram(Station& s, int64_t& end) {
  if (has_room(network_, s, end)) return true;
  block(s, Cause::kOutput, -1, true);
  return false;
}

void Engine::offer_act_ram(const ActRam& ram) {
  const Station& waiting = station(ram.forward_station);
  if (waiting.blocked && waiting.for_room) visit(ram.forward_station);
}

void Engine::try_station(int32_t index) {
  Station& s = station(index);
  if (s.turns >= 0) return try_turns(index, s);
  if (s.free_at > now_) return set(index, s.free_at);
  while (s.cycle < s.cycles && !s.running) {
    int64_t end = now_;
    if (!inputs_ready(index, s, nullptr, s.inputs, end) || !room_in_act_ram(s, end) || !output_ready(index, s)) return;
    start(index, s, end);
  }
}

// All-reduces of one device follow one another.
int64_t Engine::take_column(int32_t device, int64_t duration) {
  int64_t& free_at = item(column_free_at_, device - network_.first_device);
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
    if (index == network_.first_of_samples) item(begun_, s.cycle) = now_;
  }
  if (s.timed) {
    int64_t duration = s.duration + (s.unit < s.longer ? 1 : 0);
    if (s.kind == StationKind::kUpdate) duration = take_column(s.device, duration);
    s.busy += duration;
    if (end > now_ + duration) {
      fast_item(s.waited, Cause::kInput) += end - now_ - duration;
    } else {
      end = now_ + duration;
    }
    s.running = true;
    s.finished_unit = s.unit;
    set(index, end);
  }
  if (begin_rows(network_, s, now_, end)) offer_act_ram(network_.act_ram_of(s));
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
      const int64_t need = read.base + network_.rows(read.table, s.unit);
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
    read.need = item(item(network_.schedules, read.schedule), cycle / read.divisor) * read.factor;
  } else {
    read.base += read.per_cycle;
    read.need = read.base + network_.rows(read.table, 0);
  }
}

void Engine::send(FlowState& state, int64_t end) {
  const int64_t jitter = scenario_.jitter_picoseconds > 0 ? jitter_of(scenario_, state.plan_flow, state.sent) : 0;
  const InFlight message = transmit(state, item(network_.lanes, state.lane), now_, end, jitter);
  if (!state.receiver_here) {
    outbox_.push_back({state.plan_flow, message.start, message.end, false});
    return;
  }
  check_in_time(state, message.start);
  state.in_flight.push(message);
  if (state.in_flight.size() == 1) {
    const auto index = static_cast<int32_t>(network_.stations.size() + to_size(&state - network_.flows.data()));
    timeline_.set(index, message.start);
  }
}

void Engine::end_unit(int32_t index) {
  Station& s = station(index);
  s.running = false;
  s.free_at = now_;
  s.since = now_;
  if (s.turns >= 0) return end_action(index, s);
  if (end_rows(network_, s, now_)) offer_act_ram(network_.act_ram_of(s));
  // The unit after the last one of a cycle is already counted.
  if (s.finished_unit == s.units - 1) end_cycle(s, s.cycle - 1);
}

void Engine::end_cycle(Station& s, int64_t cycle) {
  s.window_end = now_;
  if (s.done >= 0) put(s.done, 1, now_);
  if (s.kind > StationKind::kParameterGradient) return;
  int64_t& finished = item(finished_, cycle);
  finished = std::max(finished, now_);
  if (!tracing_) return;
  const auto phase = static_cast<uint8_t>(static_cast<int>(s.kind) - static_cast<int>(StationKind::kForward));
  trace_.push_back({s.device, s.shard, phase, cycle, -1, s.cycle_start, now_});
}

// Every station that sends over this edge waits for its input, with credits in hand for all that the next step may let it send, or is
// done: a credit more would change nothing.
bool Engine::provided(bool left) {
  for (const int32_t f : edges_.flows_at(left)) {
    FlowState& state = flow(f);
    if (!state.sender_here) continue;
    const Station& s = station(state.sender);
    if (s.cycle == s.cycles) continue;
    if (edges_.most_sent(f) == 0 || !s.blocked || s.for_room) return false;
    take_credits(state);
    if (state.credit - state.sent < edges_.most_sent(f)) return false;
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

bool Engine::done() const {
  return std::all_of(network_.stations.begin(), network_.stations.end(),
                     [](const Station& s) { return s.cycle == s.cycles && !s.running; });
}

size_t Engine::bytes() const { return network_.bytes() + timeline_.bytes() + (begun_.capacity() + finished_.capacity()) * sizeof(int64_t); }

}  // namespace millrace::simulation
