// What follows a sum, parted into what one special-function unit does, joins, and tails behind them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/device_maps.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

namespace {

// Not pooled, as long as nothing is.
PoolingWindow window_over(int64_t height, int64_t width) {
  return {.height = height,
          .width = width,
          .out_height = height,
          .out_width = width,
          .kernel_h = 1,
          .kernel_w = 1,
          .stride_h = 1,
          .stride_w = 1};
}

class Builder {
 public:
  Builder(DeviceDesign& design, const Graph& graph, StationNodes& nodes) : design_(design), graph_(graph), nodes_(nodes) {}

  void add(size_t shard, const Group& group) {
    ShardDesign& first = design_.shards[shard];
    first.window = window_over(first.shape.out_height(), first.shape.out_width());
    open_.push_back({{StationKind::kShard, shard}, graph_.index_of(group.layer), false});
    for (const std::string& name : group.after) add(graph_.index_of(name));
    for (const Open& section : open_) close(section);
  }

 private:
  // A shard's or a tail's own part: what comes next may still be its.
  struct Open {
    Station station;
    int64_t node = 0;  // whose output leaves
    bool flattened = false;
  };

  ShardDesign& unit(const Station& station) {
    return station.kind == StationKind::kShard ? design_.shards[station.index] : design_.tails[station.index];
  }

  void close(const Open& section) {
    const auto at = std::ranges::find(nodes_.stations, section.station) - nodes_.stations.begin();
    item(nodes_.output, at) = section.node;
  }

  void add(int64_t index) {
    const Node& node = graph_.node(index);
    const Operation& operation = node.layer.operation;
    if (std::holds_alternative<SoftmaxCrossEntropy>(operation)) return;  // the host's: the output leaves for it, and its errors come back
    if (std::holds_alternative<Add>(operation) || std::holds_alternative<Concat>(operation)) return join(index);
    const int64_t input = node.inputs[0];
    const auto section = std::ranges::find(open_, input, &Open::node);
    const bool alone = input != kNetworkInput && graph_.node(input).consumers.size() == 1;
    if (std::holds_alternative<Flatten>(operation)) {  // the order of a stream, nothing to compute
      if (section == open_.end() || !alone) return;    // of a map that others read, too: another name of it
      section->node = index;
      section->flattened = true;
      return;
    }
    if (section != open_.end() && alone && fits(unit(section->station), section->flattened, node)) {
      take(unit(section->station), node);
      section->node = index;
      return;
    }
    if (std::holds_alternative<BatchNorm>(operation))
      refuse_layer(node.layer.name, "a batch norm is generated directly behind the sum alone");
    begin_tail(index);
  }

  void begin_tail(int64_t index) {
    const Node& node = graph_.node(index);
    Shape map = node.input_shapes[0];
    for (int64_t before = node.inputs[0]; before != kNetworkInput && graph_.node(before).inputs.size() == 1;
         before = graph_.node(before).inputs[0]) {
      const Operation& operation = graph_.node(before).layer.operation;
      if (!std::holds_alternative<Flatten>(operation) && !std::holds_alternative<Dropout>(operation)) break;
      map = graph_.node(before).input_shapes[0];
    }
    ShardDesign tail;
    tail.layer = node.layer.name;
    tail.is_tail = true;
    tail.layer_inputs = tail.layer_outputs = tail.passed_begin = map.channels;
    tail.inputs = tail.outputs = {0, map.channels};
    tail.shape = {.inputs = map.channels, .outputs = map.channels, .height = map.height, .width = map.width, .kernel_h = 1, .kernel_w = 1};
    tail.engine.input_lanes = tail.engine.output_lanes = design_.lanes;
    tail.lanes = design_.lanes;
    tail.formats = design_.shards.back().formats;
    tail.scale.assign(to_size(map.channels), 1);
    tail.bias.assign(to_size(map.channels), 0);
    tail.window = window_over(map.height, map.width);
    if (!fits(tail, map != node.input_shapes[0], node)) refuse_layer(tail.layer, "it follows a flattened map");
    take(tail, node);
    const Station station{StationKind::kTail, design_.tails.size()};
    design_.tails.push_back(std::move(tail));
    add_station(station, {node.inputs[0]});
    open_.push_back({station, index, map != node.input_shapes[0]});
  }

  void join(int64_t index) {
    const Node& node = graph_.node(index);
    JoinDesign join;
    join.layer = node.layer.name;
    join.concatenates = std::holds_alternative<Concat>(node.layer.operation);
    int64_t begin = 0;
    for (size_t operand = 0; operand < node.inputs.size(); ++operand) {
      const int64_t input = node.inputs[operand];
      if (std::ranges::count(node.inputs, input) != 1) refuse_layer(join.layer, "it joins a map with itself");
      if (input == kNetworkInput) refuse_layer(join.layer, "it joins the network's input");
      if (node.input_shapes[operand].plane() == 1 && std::holds_alternative<Flatten>(graph_.node(input).layer.operation))
        refuse_layer(join.layer, "it joins flattened maps");
      const int64_t channels = node.input_shapes[operand].channels;
      join.places.push_back({begin, begin + channels});
      if (join.concatenates) begin += channels;
    }
    const Station station{StationKind::kJoin, design_.joins.size()};
    design_.joins.push_back(std::move(join));
    add_station(station, node.inputs);
    nodes_.output.back() = index;
  }

  void add_station(const Station& station, std::vector<int64_t> inputs) {
    nodes_.stations.push_back(station);
    nodes_.inputs.push_back(std::move(inputs));
    nodes_.output.push_back(-1);
  }

  // Whether the unit, in its order, can do this layer after all that it does already.
  static bool fits(const ShardDesign& unit, bool flattened, const Node& node) {
    if (unit.dropout) return false;
    const Operation& operation = node.layer.operation;
    if (std::holds_alternative<Dropout>(operation)) return true;
    if (flattened || unit.pooled) return false;
    if (pooling_window(node)) return true;
    if (unit.keeps_values()) return false;
    if (std::holds_alternative<LocalResponseNorm>(operation)) return unit.slope == 0;
    if (unit.relu) return false;
    return std::holds_alternative<Activation>(operation) ||
           (std::holds_alternative<BatchNorm>(operation) && !unit.normalised && !unit.is_tail);
  }

  void take(ShardDesign& unit, const Node& node) {
    const std::string& name = node.layer.name;
    const Operation& operation = node.layer.operation;
    if (const auto* norm = std::get_if<BatchNorm>(&operation)) {
      unit.running = node.trained && norm->statistics == Statistics::kRunning;
      if (node.trained && !unit.running)
        refuse_layer(name,
                     "it is a trained batch norm, and a board measures no statistics of a micro-batch (--batch-norm running, or train it "
                     "elsewhere, then set `frozen: true` and give the weights, which are folded)");
      unit.normalised = true;
    } else if (const auto* dropout = std::get_if<Dropout>(&operation)) {
      unit.dropout = *dropout;
      unit.dropout_layer = name;
    } else if (const auto* activation = std::get_if<Activation>(&operation)) {
      if (is_smooth(*activation)) {
        unit.smooth = smooth_activation(*activation, unit.formats.sum);
        if (!unit.smooth)
          refuse_layer(
              name, "it is neither sigmoid nor tanh, or its format has fewer than 4 or more than 15 fraction bits (sum, in formats.txt)");
        return;
      }
      const bool leaky = activation->kind == ActivationKind::kLeakyRelu;
      if (leaky && slope_bits(activation->slope) == 32767) refuse_layer(name, "its slope is not below one");
      unit.relu = true;
      if (leaky) unit.slope = slope_bits(activation->slope);
    } else if (const auto* response = std::get_if<LocalResponseNorm>(&operation)) {
      unit.response = fixed_response_norm(*response, unit.formats.sum);
      if (!unit.response) refuse_layer(name, "its window is even or wider than seven channels, or its table would be too large");
    } else if (const std::optional<PoolingWindow> window = pooling_window(node)) {
      if (window->elements() == 1 && window->stride_h == 1 && window->stride_w == 1)
        return;  // every element is its own maximum and average
      unit.pooled = true;
      unit.window = *window;
      if (window->elements() > window->most_elements())
        refuse_layer(name, fmt::format("its window has {} elements, more than {}", window->elements(), window->most_elements()));
    } else {
      refuse_layer(name, "only a batch norm, an activation, a response norm, pooling, dropout, sums and concatenations follow a sum");
    }
  }

  DeviceDesign& design_;
  const Graph& graph_;
  StationNodes& nodes_;
  std::vector<Open> open_;
};

}  // namespace

void refuse_layer(const std::string& layer, const std::string& reason) {
  fail(ErrorCode::kUnavailable, "layer {}: {}; no hardware is generated for it yet; emulated-fpga or cpu can train it", layer, reason);
}

void add_layers_after(DeviceDesign& design, size_t shard, const Group& group, const Graph& graph, StationNodes& nodes) {
  Builder(design, graph, nodes).add(shard, group);
}

}  // namespace millrace
