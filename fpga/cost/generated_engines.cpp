#include "fpga/cost/generated_engines.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/base/check.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

namespace {

bool can_be_built(const ConvolutionShape& shape) {
  return shape.kernel_h == shape.kernel_w && shape.stride_h == shape.stride_w && shape.pad_h == shape.pad_w && shape.groups <= 2 &&
         shape.pad_h <= shape.kernel_h / 2;
}

int64_t whole_cycles(double seconds, double clock_hz) {
  constexpr double kMostCycles = 4e18;  // stays an int64_t
  return static_cast<int64_t>(std::min(std::floor(seconds * clock_hz + kCycleRounding), kMostCycles));
}

ChannelRange joined(const ChannelRange& a, const ChannelRange& b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

}  // namespace

GeneratedEngines::GeneratedEngines(const Graph& graph, double slowest_clock_hz)
    : graph_(&graph), slowest_clock_hz_(slowest_clock_hz), layers_(graph.nodes().size()) {
  for (int64_t lanes = 1; lanes <= kMostStreamLanes; lanes *= 2) widths_.push_back({lanes, 0});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Node& node = graph.nodes()[i];
    std::optional<ConvolutionShape> shape = layer_shape(graph, node);
    if (!shape) continue;
    shape = held_shape(*shape, {{0, shape->inputs}, {0, shape->outputs}});
    for (Width& width : widths_) width.cycles = std::max(width.cycles, stream_cycles(*shape, width.lanes));
    if (!can_be_built(*shape)) continue;
    const bool dense = std::holds_alternative<Dense>(node.layer.operation);
    const bool error_back = node.error_needed && node.inputs[0] != kNetworkInput;
    const auto alike = std::ranges::find_if(
        layers_, [&](const std::optional<Layer>& other) { return other && other->whole == *shape && other->error_back == error_back; });
    if (alike != layers_.end()) {
      layers_[i] = *alike;
      layers_[i]->elements_per_channel = dense ? shape->height * shape->width : 1;
      continue;
    }
    layers_[i] = {.whole = *shape,
                  .elements_per_channel = dense ? shape->height * shape->width : 1,
                  .error_back = error_back,
                  .by_inputs = std::make_shared<std::deque<Front>>(static_cast<size_t>(shape->inputs) + 1),
                  .by_outputs = std::make_shared<std::deque<Front>>(static_cast<size_t>(shape->outputs) + 1)};
  }
}

const EngineFront& GeneratedEngines::front_of(const Layer& layer, const ConvolutionShape& held) {
  const bool all_inputs = held.inputs == layer.whole.inputs;
  Front& front = all_inputs ? (*layer.by_outputs)[static_cast<size_t>(held.outputs)] : (*layer.by_inputs)[static_cast<size_t>(held.inputs)];
  std::call_once(front.once, [&] { front.front = std::make_unique<const EngineFront>(held, layer.error_back); });
  return *front.front;
}

std::optional<GeneratedEngine> GeneratedEngines::engine_for(const Node& node, std::span<const Block> blocks, double period_seconds,
                                                            double clock_hz) const {
  const auto place = &node - graph_->nodes().data();
  MILLRACE_CHECK(place >= 0 && place < static_cast<std::ptrdiff_t>(layers_.size()), "layer {} is another graph's", node.layer.name);
  if (!layers_[static_cast<size_t>(place)]) return std::nullopt;
  const Layer& layer = *layers_[static_cast<size_t>(place)];
  const ConvolutionShape& whole = layer.whole;
  GeneratedEngine built;
  built.error_back = layer.error_back;
  built.held = whole;
  const int64_t passing = whole_cycles(period_seconds, slowest_clock_hz_);
  const auto width = std::ranges::find_if(widths_, [=](const Width& candidate) { return candidate.cycles <= passing; });
  if (width == widths_.end()) return built;
  built.lanes = width->lanes;
  built.stream_seconds = static_cast<double>(stream_cycles(whole, width->lanes)) / slowest_clock_hz_;
  HeldChannels held{{0, whole.inputs}, {0, whole.outputs}};
  if (!blocks.empty()) {
    ChannelRange inputs = blocks.front().inputs, outputs = blocks.front().outputs;
    for (const Block& block : blocks) {
      inputs = joined(inputs, block.inputs);
      outputs = joined(outputs, block.outputs);
    }
    // Divided by outputs, a shard has all inputs; otherwise it makes sums of all outputs.
    const bool all_inputs = inputs.size() == whole.inputs * layer.elements_per_channel;
    // So has a part of a layer with channel groups.
    const bool by_outputs = all_inputs || whole.groups > 1;
    if (!by_outputs) held.inputs = whole_lane_groups(inputs, layer.elements_per_channel, width->lanes, whole.inputs);
    if (by_outputs) held.outputs = whole_lane_groups(outputs, 1, width->lanes, whole.outputs);
  }
  built.held = held_shape(whole, held);
  const int64_t cycles = whole_cycles(period_seconds, clock_hz);
  const EngineFront::Choice* choice = front_of(layer, built.held).smallest(cycles);
  if (choice == nullptr) return built;
  built.keeps_up = true;
  built.engine = choice->engine;
  built.reserved_tiles = choice->engine.tiles();
  built.cycles = choice->cycles;
  if (built.held.groups > 1) {  // a part computes as much as the whole, or more
    const ConvolutionShape part =
        held_shape(whole, {{0, whole.inputs}, whole_lane_groups({0, whole.outputs / whole.groups}, 1, width->lanes, whole.outputs)});
    const EngineFront::Choice* of_part = part == built.held ? choice : front_of(layer, part).smallest(cycles);
    if (of_part == nullptr) built.keeps_up = false;
    if (of_part != nullptr) built.reserved_tiles = std::max(built.reserved_tiles, of_part->engine.tiles());
  }
  return built;
}

}  // namespace millrace
