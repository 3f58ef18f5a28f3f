// All processes for a while, one after the other.
#include <algorithm>

#include "core/base/index.h"
#include "node/simulate/engine.h"
#include "node/simulate/fetch_ahead.h"

namespace millrace::simulation {
namespace {

// Of a processor, about: what fits them needs no fetching ahead, which costs more there than it saves.
constexpr size_t kBytesOfCaches = size_t{4} << 20;

}  // namespace

Engine::Engine(Network& network, const Plan& plan, const SimulationOptions& options)
    : Engine(network, plan, options, processes_of_devices(network, plan)) {}

Engine::Engine(Network& network, const Plan& plan, const SimulationOptions& options, std::vector<int32_t> process_of_device)
    : network_(network),
      plan_(plan),
      tracing_(options.trace),
      process_of_device_(std::move(process_of_device)),
      timeline_(processes_of_ids(network, plan, process_of_device_)),
      lookahead_(lookahead_of(network, plan, process_of_device_)),
      visiting_(network.stations.size(), 0),
      begun_(to_size(network.samples), 0),
      finished_(to_size(network.samples), 0),
      scenario_(options.scenario),
      column_free_at_(to_size(network.end_device - network.first_device), 0),
      edges_(network, plan, timeline_),
      cores_(network) {
  pending_.reserve(64);
  fetches_ = bytes() > kBytesOfCaches;
}

void Engine::run_until(int64_t bound) {
  while (timeline_.next_time() < bound) run_together({bound, kNeverTime, kNeverTime});
}

void Engine::run_portion(const Horizon& horizon, const Horizon& firm, int64_t steps) {
  while (steps > 0 && may_run(outbox_.empty() ? horizon : firm)) steps -= run_together(outbox_.empty() ? horizon : firm);
}

// All processes, each by itself for as long as nothing can come from another. An answer to what one of them sends over the edge takes
// longer still.
int64_t Engine::run_together(const Horizon& horizon) {
  since_ = timeline_.next_time();
  const int64_t end = horizon.messages - since_ > lookahead_ ? since_ + lookahead_ : horizon.messages;
  until_ = std::max(until_, end);
  due_.clear();
  timeline_.each_process_before(end, [&](int32_t process) { due_.push_back({process, 0}); });
  if (fetches_) return run_due_with_fetches(end, horizon);
  int64_t steps = 0;
  for (const Due& due : due_) steps += run_process(due.process, end, horizon);
  return steps;
}

template <size_t kStage>
MILLRACE_FETCHES void Engine::fetch(Due& due) const {
  const auto stations = static_cast<int32_t>(network_.stations.size());
  if (due.first >= stations)
    fetch_message<kStage>(network_, network_.flow(due.first - stations));
  else
    fetch_station<kStage>(network_, network_.station(due.first));
}

// Each stage follows what the one before has fetched, a turn later.
int64_t Engine::run_due_with_fetches(int64_t end, const Horizon& horizon) {
  constexpr size_t kStages = 6;
  int64_t steps = 0;
  for (size_t i = 0; i < due_.size() + kStages; ++i) {
    const auto in_stage = [&](size_t stage) -> Due* { return i >= stage && i - stage < due_.size() ? &due_[i - stage] : nullptr; };
    if (const Due* due = in_stage(0)) timeline_.fetch(due->process);
    if (Due* due = in_stage(1)) {
      due->first = timeline_.next_id(due->process);
      fetch<1>(*due);
    }
    if (Due* due = in_stage(2)) fetch<2>(*due);
    if (Due* due = in_stage(3)) fetch<3>(*due);
    if (Due* due = in_stage(4)) fetch<4>(*due);
    if (Due* due = in_stage(5)) fetch<5>(*due);
    if (const Due* due = in_stage(kStages)) steps += run_process(due->process, end, horizon);
  }
  return steps;
}

}  // namespace millrace::simulation
