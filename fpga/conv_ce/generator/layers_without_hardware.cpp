#include "fpga/conv_ce/generator/layers_without_hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/operation/operation.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

namespace {

// As the generator goes about it: the engine, then what follows its sum.
void design(const Graph& graph, const LayerGroup& group) {
  const Node& head = graph.node(group.head);
  if (passes_input_on(graph, head)) {
    if (!group.after.empty()) refuse_layer(graph.node(group.after.front()).layer.name, kWorksOnInput);
    return;
  }
  if (!layer_shape(graph, head) && reads_network_input(graph, head)) refuse_layer(head.layer.name, kWorksOnInput);
  buildable_shape(graph, head);
  if (!head.trained) refuse_layer(head.layer.name, kNotTrained);
  memories_after_sum(graph, group, 1);
}

}  // namespace

bool streams_rows(const Graph& graph) {
  return std::ranges::none_of(graph.groups(), [&](const LayerGroup& group) {
    const Role role = role_of(graph.node(group.head).layer.operation);
    return role == Role::kRecurrence || role == Role::kLookUp;
  });
}

std::map<std::string, std::string> layers_without_hardware(const Graph& graph) {
  std::map<std::string, std::string> refused;
  if (!streams_rows(graph)) return refused;
  for (const LayerGroup& group : graph.groups()) {
    try {
      design(graph, group);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      std::vector<int64_t> layers = group.after;
      layers.insert(layers.begin(), group.head);
      for (const int64_t layer : layers) {
        const std::string& name = graph.node(layer).layer.name;
        const std::string before = fmt::format("layer {}: ", name);
        if (error.message().starts_with(before)) refused.emplace(name, error.message().substr(before.size()));
      }
    }
  }
  return refused;
}

}  // namespace millrace
