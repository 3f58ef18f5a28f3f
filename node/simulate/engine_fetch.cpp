// All crews for a while, one after the other. While one goes on, what the next ones will look at first is fetched from memory, pointer
// by pointer: rings of thousands of devices do not fit the caches, and a crew that waited for each of its lines in turn would do
// little else.
#include "node/simulate/engine.h"

namespace millrace::simulation {
namespace {

// A compiler that does not inline a function which only fetches may find that it has no effect, and leave it out.
#define MILLRACE_FETCHES [[gnu::always_inline]] inline

MILLRACE_FETCHES void fetch_bytes(const void* object, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(static_cast<const char*>(object) + at);
}

// All of a station but what only samples renew.
constexpr size_t kOftenUsed = 3 * kCacheLine;

// Stages of a station that goes on: itself; what it reads, makes and sends; where that comes from and goes to.
template <size_t kStage>
MILLRACE_FETCHES void fetch_station(const Network& network, const Station& s) {
  const FlowState* flow = s.flow >= 0 ? &network.flows[static_cast<size_t>(s.flow)] : nullptr;
  const Input* inputs = &network.inputs[static_cast<size_t>(s.first_input)];
  if constexpr (kStage == 1) {
    fetch_bytes(&s, kOftenUsed);
  } else if constexpr (kStage == 2) {
    fetch_bytes(inputs, static_cast<size_t>(s.inputs) * sizeof(Input));
    if (flow != nullptr) fetch_bytes(flow, sizeof(FlowState));
    if (s.out >= 0) __builtin_prefetch(&network.streams[static_cast<size_t>(s.out)]);
    if (s.act_ram >= 0) fetch_bytes(&network.act_rams[static_cast<size_t>(s.act_ram)], sizeof(ActRam));
  } else if constexpr (kStage == 3) {
    for (int32_t i = 0; i < s.inputs; ++i) __builtin_prefetch(&network.streams[static_cast<size_t>(inputs[i].stream)]);
    if (flow != nullptr) {
      __builtin_prefetch(flow->credits.next());
      if (flow->lane >= 0) __builtin_prefetch(&network.lanes[static_cast<size_t>(flow->lane)]);
    }
    if (s.out < 0) return;
    const Supply& out = network.streams[static_cast<size_t>(s.out)];
    for (int32_t r = 0; r < out.readers; ++r)
      __builtin_prefetch(&network.stations[static_cast<size_t>(network.readers[static_cast<size_t>(out.first_reader + r)].station)]);
  }
}

// Of a message that comes: its flow; its stream; whoever reads that.
template <size_t kStage>
MILLRACE_FETCHES void fetch_message(const Network& network, const FlowState& state) {
  if constexpr (kStage == 1) {
    fetch_bytes(&state, sizeof(state));
  } else {
    const Supply& supply = network.streams[static_cast<size_t>(state.stream)];
    if constexpr (kStage == 2) {
      __builtin_prefetch(state.in_flight.next());
      __builtin_prefetch(&supply);
    } else if (supply.readers > 0) {
      const Reader& reader = network.readers[static_cast<size_t>(supply.first_reader)];
      fetch_station<kStage - 2>(network, network.stations[static_cast<size_t>(reader.station)]);
    }
  }
}

}  // namespace

template <size_t kStage>
MILLRACE_FETCHES void Engine::fetch(Due& due) const {
  const auto stations = static_cast<int32_t>(network_.stations.size());
  if (due.first >= stations)
    fetch_message<kStage>(network_, network_.flows[static_cast<size_t>(due.first - stations)]);
  else
    fetch_station<kStage>(network_, network_.stations[static_cast<size_t>(due.first)]);
}

// Each stage follows what the one before has fetched, a turn later.
int64_t Engine::run_due_with_fetches(int64_t end, const Horizon& horizon) {
  constexpr size_t kStages = 6;
  int64_t steps = 0;
  for (size_t i = 0; i < due_.size() + kStages; ++i) {
    const auto in_stage = [&](size_t stage) -> Due* { return i >= stage && i - stage < due_.size() ? &due_[i - stage] : nullptr; };
    if (const Due* due = in_stage(0)) timeline_.fetch(due->crew);
    if (Due* due = in_stage(1)) {
      due->first = timeline_.next_id(due->crew);
      fetch<1>(*due);
    }
    if (Due* due = in_stage(2)) fetch<2>(*due);
    if (Due* due = in_stage(3)) fetch<3>(*due);
    if (Due* due = in_stage(4)) fetch<4>(*due);
    if (Due* due = in_stage(5)) fetch<5>(*due);
    if (const Due* due = in_stage(kStages)) steps += run_crew(due->crew, end, horizon);
  }
  return steps;
}

}  // namespace millrace::simulation
