#include "node/ring/device_flows.h"

#include <algorithm>

#include "core/base/index.h"

namespace millrace {

namespace {

bool has_recurrent_layers(const Plan& plan, const Graph& graph, int64_t device) {
  return std::ranges::any_of(plan.shards, [&](const Shard& shard) {
    return shard.device == device && !shard.after && role_of(graph.node(graph.index_of(shard.layer)).layer.operation) == Role::kRecurrence;
  });
}

bool packed_by_devices(Stream stream) { return stream == Stream::kActivation || stream == Stream::kPartial || stream == Stream::kError; }

}  // namespace

std::vector<LinkDevice> link_devices(const Plan& plan, const Graph& graph, const DevicesHere& devices) {
  std::vector<LinkDevice> links;
  for (const auto& [index, device] : devices) {
    LinkDevice link{.index = index};
    DeviceMessages* const messages = messages_of(*device);
    // Their kernels want the whole GPU at once, and a transfer that waits for its other end keeps a part of it: each would wait for the
    // other to go.
    if (messages != nullptr && has_recurrent_layers(plan, graph, index))
      link.reason = "has recurrent layers, whose kernels leave NCCL no room on the GPU";
    else if (messages != nullptr)
      link.location = messages->location();
    links.push_back(std::move(link));
  }
  return links;
}

int64_t keep_on_devices(FlowTable& table, const Plan& plan, std::span<const LinkChoice> links, size_t small_bytes) {
  int64_t marked = 0;
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    const auto link = to_size(flow.link);
    if (link >= links.size() || links[link].wire != LinkWire::kNccl) continue;
    if (!packed_by_devices(flow.stream) || !travels_on_devices(flow.wire) || table.flows[f].most_bytes <= small_bytes) continue;
    for (const int64_t one : {static_cast<int64_t>(f), table.twins[f]}) {
      if (one < 0) continue;
      item(table.flows, one).device_memory = true;
      ++marked;
    }
  }
  return marked;
}

}  // namespace millrace
