#include "node/simulate/crews.h"

#include <algorithm>

#include "core/base/index.h"
#include "node/simulate/timeline.h"

namespace millrace::simulation {
namespace {

// Where something about a flow happens here: at its receiver, else at its sender.
int64_t device_of(const FlowState& state, const Plan& plan) {
  const Flow& flow = item(plan.flows, state.plan_flow);
  const Link& link = item(plan.links, flow.link);
  return (flow.direction == Direction::kForward) == state.receiver_here ? link.to : link.from;
}

}  // namespace

std::vector<int32_t> crews_of_devices(const Network& network, const Plan& plan) {
  std::vector<int32_t> crews(to_size(network.end_device - network.first_device), 0);
  if (!network.ranks.empty()) return crews;
  for (size_t d = 1; d < crews.size(); ++d) {
    const Link& link = item(plan.links, to_size(network.first_device) + d - 1);
    crews[d] = crews[d - 1] + (link.latency_picoseconds > 0 ? 1 : 0);
  }
  return crews;
}

std::vector<int32_t> crews_of_ids(const Network& network, const Plan& plan, const std::vector<int32_t>& crew_of_device) {
  std::vector<int32_t> crews;
  crews.reserve(network.stations.size() + network.flows.size());
  const auto crew_of = [&](int64_t device) { return item(crew_of_device, device - network.first_device); };
  for (const Station& station : network.stations) crews.push_back(crew_of(station.device));
  for (const FlowState& state : network.flows) crews.push_back(crew_of(device_of(state, plan)));
  return crews;
}

int64_t lookahead_of(const Network& network, const Plan& plan, const std::vector<int32_t>& crew_of_device) {
  const auto crew_of = [&](int64_t device) {
    return device < network.first_device || device >= network.end_device ? -1 : item(crew_of_device, device - network.first_device);
  };
  int64_t shortest = kNeverTime;
  for (const Link& link : plan.links)
    if (crew_of(link.from) != crew_of(link.to)) shortest = std::min(shortest, link.latency_picoseconds);
  return shortest;
}

}  // namespace millrace::simulation
