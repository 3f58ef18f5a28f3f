// All crews for a while, one after the other. While one goes on, what the next ones will look at first is fetched from memory, pointer
// by pointer: rings of thousands of devices do not fit the caches, and a crew that waited for each of its lines in turn would do
// little else.
#include <algorithm>

#include "node/simulate/engine.h"

namespace millrace::simulation {
namespace {

// Of a processor, about: what fits them needs no fetching ahead, which costs more there than it saves.
constexpr size_t kBytesOfCaches = size_t{4} << 20;

// Where something about a flow happens here: at its receiver, else at its sender.
int64_t device_of(const FlowState& state, const Plan& plan) {
  const Flow& flow = plan.flows[static_cast<size_t>(state.plan_flow)];
  const Link& link = plan.links[static_cast<size_t>(flow.link)];
  return (flow.direction == Direction::kForward) == state.receiver_here ? link.to : link.from;
}

std::vector<int32_t> crews_of_ids(const Network& network, const Plan& plan, const std::vector<int32_t>& crew_of_device) {
  std::vector<int32_t> crews;
  crews.reserve(network.stations.size() + network.flows.size());
  const auto crew_of = [&](int64_t device) { return crew_of_device[static_cast<size_t>(device - network.first_device)]; };
  for (const Station& station : network.stations) crews.push_back(crew_of(station.device));
  for (const FlowState& state : network.flows) crews.push_back(crew_of(device_of(state, plan)));
  return crews;
}

// The shortest way from one crew to another, or to another block.
int64_t lookahead_of(const Network& network, const Plan& plan, const std::vector<int32_t>& crew_of_device) {
  const auto crew_of = [&](int64_t device) {
    return device < network.first_device || device >= network.end_device
               ? -1
               : crew_of_device[static_cast<size_t>(device - network.first_device)];
  };
  int64_t shortest = kNeverTime;
  for (const Link& link : plan.links)
    if (crew_of(link.from) != crew_of(link.to)) shortest = std::min(shortest, link.latency_picoseconds);
  return shortest;
}

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
  const Input* inputs = network.inputs.data() + s.first_input;
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

std::vector<int32_t> crews_of_devices(const Network& network, const Plan& plan) {
  std::vector<int32_t> crews(static_cast<size_t>(network.end_device - network.first_device), 0);
  if (!network.ranks.empty()) return crews;
  for (size_t d = 1; d < crews.size(); ++d) {
    const Link& link = plan.links[static_cast<size_t>(network.first_device) + d - 1];
    crews[d] = crews[d - 1] + (link.latency_picoseconds > 0 ? 1 : 0);
  }
  return crews;
}

Engine::Engine(Network& network, const Plan& plan, const SimulationOptions& options)
    : Engine(network, plan, options, crews_of_devices(network, plan)) {}

Engine::Engine(Network& network, const Plan& plan, const SimulationOptions& options, std::vector<int32_t> crew_of_device)
    : network_(network),
      plan_(plan),
      tracing_(options.trace),
      crew_of_device_(std::move(crew_of_device)),
      timeline_(crews_of_ids(network, plan, crew_of_device_)),
      lookahead_(lookahead_of(network, plan, crew_of_device_)),
      visiting_(network.stations.size(), 0),
      begun_(static_cast<size_t>(network.samples), 0),
      finished_(static_cast<size_t>(network.samples), 0),
      scenario_(options.scenario),
      column_free_at_(static_cast<size_t>(network.end_device - network.first_device), 0) {
  pending_.reserve(64);
  fetches_ = bytes() > kBytesOfCaches;
  find_edges();
}

void Engine::run_until(int64_t bound) {
  while (timeline_.next_time() < bound) run_together({bound, kNeverTime, kNeverTime});
}

void Engine::run_portion(const Horizon& horizon, const Horizon& firm, int64_t steps) {
  while (steps > 0 && may_run(outbox_.empty() ? horizon : firm)) steps -= run_together(outbox_.empty() ? horizon : firm);
}

// All crews, each by itself for as long as nothing can come from another. An answer to what one of them sends over the edge takes
// longer still.
int64_t Engine::run_together(const Horizon& horizon) {
  since_ = timeline_.next_time();
  const int64_t end = horizon.messages - since_ > lookahead_ ? since_ + lookahead_ : horizon.messages;
  until_ = std::max(until_, end);
  due_.clear();
  timeline_.each_crew_before(end, [&](int32_t crew) { due_.push_back({crew, 0}); });
  if (fetches_) return run_due_with_fetches(end, horizon);
  int64_t steps = 0;
  for (const Due& due : due_) steps += run_crew(due.crew, end, horizon);
  return steps;
}

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
