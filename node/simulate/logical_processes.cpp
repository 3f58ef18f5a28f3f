#include "node/simulate/logical_processes.h"

#include <algorithm>

#include "core/base/index.h"
#include "node/simulate/timeline.h"

namespace millrace::simulation {
namespace {

constexpr size_t kBytesOfOneProcess = size_t{1} << 18;

// Where something about a flow happens here: at its receiver, else at its sender.
int64_t device_of(const FlowState& state, const Plan& plan) {
  const Flow& flow = item(plan.flows, state.plan_flow);
  const Link& link = item(plan.links, flow.link);
  return (flow.direction == Direction::kForward) == state.receiver_here ? link.to : link.from;
}

}  // namespace

std::vector<int32_t> processes_of_devices(const Network& network, const Plan& plan) {
  std::vector<int32_t> processes(to_size(network.end_device - network.first_device), 0);
  if (!network.ranks.empty()) return processes;
  for (size_t d = 1; d < processes.size(); ++d) {
    const Link& link = item(plan.links, to_size(network.first_device) + d - 1);
    processes[d] = processes[d - 1] + (link.latency_picoseconds > 0 ? 1 : 0);
  }
  return processes;
}

std::vector<int32_t> processes_for_pace(const Network& network, const Plan& plan) {
  if (network.bytes() > kBytesOfOneProcess) return processes_of_devices(network, plan);
  return std::vector<int32_t>(to_size(network.end_device - network.first_device), 0);
}

std::vector<int32_t> processes_of_ids(const Network& network, const Plan& plan, const std::vector<int32_t>& process_of_device) {
  std::vector<int32_t> processes;
  processes.reserve(network.stations.size() + network.flows.size());
  const auto process_of = [&](int64_t device) { return item(process_of_device, device - network.first_device); };
  for (const Station& station : network.stations) processes.push_back(process_of(station.device));
  for (const FlowState& state : network.flows) processes.push_back(process_of(device_of(state, plan)));
  return processes;
}

int64_t lookahead_of(const Network& network, const Plan& plan, const std::vector<int32_t>& process_of_device) {
  const auto process_of = [&](int64_t device) {
    return device < network.first_device || device >= network.end_device ? -1 : item(process_of_device, device - network.first_device);
  };
  int64_t shortest = kNeverTime;
  for (const Link& link : plan.links)
    if (process_of(link.from) != process_of(link.to)) shortest = std::min(shortest, link.latency_picoseconds);
  return shortest;
}

}  // namespace millrace::simulation
