// Which messages of a ring stay in the memory of the devices they join.
//
//   const std::vector<LinkDevice> mine = link_devices(plan, graph, devices);
//   const std::vector<LinkChoice>& links = device_links.choose(transport, agreement, plan.devices(), mine);
//   keep_on_devices(flows.table, plan, links, settings.eager_bytes);
//
// Activations, partial sums and errors do, on links that take NCCL, where a message is larger than what shares a queue: small ones are
// faster with their headers. Parameters, gradients and checkpoints are the host's. Every rank marks the same flows: the table's digest
// says so. Pure functions.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/graph/graph.h"
#include "transport/nccl/device_links.h"

namespace millrace {

using DevicesHere = std::map<int64_t, std::unique_ptr<Device>>;  // of this rank, by index in the plan

std::vector<LinkDevice> link_devices(const Plan& plan, const Graph& graph, const DevicesHere& devices);
// Marks those with more than `small_bytes`. How many it marked.
int64_t keep_on_devices(FlowTable& table, const Plan& plan, std::span<const LinkChoice> links, size_t small_bytes);

}  // namespace millrace
