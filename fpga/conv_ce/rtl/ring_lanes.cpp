#include "fpga/conv_ce/rtl/ring_lanes.h"

#include <algorithm>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/arithmetic/smooth_activation.h"
#include "fpga/conv_ce/arithmetic/square_kernel.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/module_resources.h"

namespace millrace {

namespace {

// The map that a dense layer reads, as streams carry it: what was flattened before it, whatever was dropped since.
Shape map_before(const Graph& graph, const Node& node) {
  const Shape& input = node.input_shapes[0];
  if (node.inputs[0] == kNetworkInput) return input;
  const Node* producer = &graph.node(node.inputs[0]);
  while (std::holds_alternative<Dropout>(producer->layer.operation) && producer->inputs[0] != kNetworkInput)
    producer = &graph.node(producer->inputs[0]);
  if (!std::holds_alternative<Flatten>(producer->layer.operation)) return input;
  return reads_network_input(graph, *producer) ? streamed_input(graph) : producer->input_shapes[0];
}

}  // namespace

std::optional<ConvolutionShape> layer_shape(const Graph& graph, const Node& node) {
  const Shape& input = node.input_shapes[0];
  if (const auto* conv = std::get_if<Conv2d>(&node.layer.operation))
    return ConvolutionShape{input.channels,   conv->out_channels, input.height,   input.width, conv->kernel_h,
                            conv->kernel_w,   conv->stride_h,     conv->stride_w, conv->pad_h, conv->pad_w,
                            conv->dilation_h, conv->dilation_w,   conv->groups};
  if (!std::holds_alternative<Dense>(node.layer.operation)) return std::nullopt;
  const Shape map = map_before(graph, node);
  // A window as large as the map stands in one place whatever its stride; with one as long as itself, EB makes all its pixels at once.
  return ConvolutionShape{map.channels, node.output.channels, map.height, map.width, map.height, map.width, map.height, map.width};
}

bool reads_network_input(const Graph& graph, const Node& node) {
  int64_t before = node.inputs[0];
  while (before != kNetworkInput && std::holds_alternative<Flatten>(graph.node(before).layer.operation))
    before = graph.node(before).inputs[0];
  return before == kNetworkInput;
}

Shape streamed_input(const Graph& graph) {
  const Shape& input = graph.model().input;
  const bool flat = std::ranges::all_of(graph.nodes(), [](const Node& node) {
    return std::holds_alternative<Flatten>(node.layer.operation) || std::ranges::find(node.inputs, kNetworkInput) == node.inputs.end();
  });
  return flat && input.elements() <= kMostChannels ? Shape{input.elements(), 1, 1} : input;
}

ChannelRange whole_lane_groups(const ChannelRange& range, int64_t elements_per_channel, int64_t lanes, int64_t channels) {
  const auto first = [&](int64_t index) { return index / elements_per_channel / lanes * lanes; };
  return {first(range.begin), std::min(first(range.end - 1) + lanes, channels)};
}

bool takes_map_flat(const ConvolutionShape& whole) {
  const bool in_one_place = whole.kernel_h == whole.height && whole.kernel_w == whole.width && whole.pad_h == 0 && whole.pad_w == 0;
  if (!in_one_place || whole.groups != 1 || whole.dilation_h != 1 || whole.dilation_w != 1) return false;
  const int64_t pixels = whole.height * whole.width;
  return (pixels > kMostPixelsAtOnce || whole.height != whole.width) &&
         rounded_up(whole.inputs, kMostStreamLanes) * pixels <= kMostFlatChannels;
}

ConvolutionShape held_shape(const ConvolutionShape& whole, const HeldChannels& held, int64_t lanes) {
  if (takes_map_flat(whole))
    return {.inputs = rounded_up(held.inputs.size(), lanes) * whole.height * whole.width, .outputs = held.outputs.size()};
  return held_windows(whole, held);
}

ConvolutionShape held_windows(const ConvolutionShape& whole, const HeldChannels& held) {
  const bool is_square = whole.kernel_h == whole.kernel_w && whole.pad_h == whole.pad_w && whole.dilation_h == 1 && whole.dilation_w == 1;
  ConvolutionShape shape = is_square ? whole : with_square_kernel(whole).value_or(whole);
  shape.inputs = held.inputs.size();
  shape.outputs = held.outputs.size();
  if (shape.inputs != whole.inputs || shape.outputs != whole.outputs) shape.groups = 1;
  return shape;
}

int64_t stream_cycles(const ConvolutionShape& whole, int64_t lanes) {
  return std::max(divided_up(whole.inputs, lanes) * whole.height * whole.width,
                  divided_up(whole.outputs, lanes) * whole.out_height() * whole.out_width());
}

std::optional<PoolingWindow> pooling_window(const Node& node) {
  const auto* pool = std::get_if<Pool2d>(&node.layer.operation);
  const auto* global = std::get_if<GlobalPool>(&node.layer.operation);
  if (pool == nullptr && global == nullptr) return std::nullopt;
  const Shape& map = node.input_shapes[0];
  PoolingWindow window{.height = map.height, .width = map.width, .out_height = node.output.height, .out_width = node.output.width};
  if (pool != nullptr) {
    window.kernel_h = pool->kernel_h;
    window.kernel_w = pool->kernel_w;
    window.stride_h = pool->stride_h;
    window.stride_w = pool->stride_w;
    window.pad_h = pool->pad_h;
    window.pad_w = pool->pad_w;
    window.count_padding = pool->count_include_pad;
  } else {
    window.kernel_h = window.stride_h = map.height;
    window.kernel_w = window.stride_w = map.width;
  }
  window.average = (pool != nullptr ? pool->kind : global->kind) == PoolKind::kAverage;
  return window;
}

bool lies_between_lanes(const ChannelRange& place, bool is_last, int64_t lanes) {
  return place.begin % lanes != 0 || (!is_last && place.end % lanes != 0);
}

int64_t moving_cycles(int64_t channels, int64_t pixels, int64_t lanes) { return (divided_up(channels, lanes) + 1) * pixels; }

int64_t joined_and_pooled_cycles(const Graph& graph, int64_t lanes) {
  int64_t most = 0;
  for (const Node& node : graph.nodes()) {
    const Operation& operation = node.layer.operation;
    if (const std::optional<PoolingWindow> window = pooling_window(node)) {
      const int64_t groups = divided_up(node.output.channels, lanes);
      most = std::max({most, pooling_cycles(*window, groups), unpooling_cycles(*window, groups)});
    }
    if (!std::holds_alternative<Add>(operation) && !std::holds_alternative<Concat>(operation)) continue;
    const int64_t pixels = node.output.height * node.output.width;
    most = std::max(most, divided_up(node.output.channels, lanes) * pixels);
    if (!std::holds_alternative<Concat>(operation)) continue;
    ChannelRange place;
    for (size_t i = 0; i < node.input_shapes.size(); ++i) {
      place = {place.end, place.end + node.input_shapes[i].channels};
      if (lies_between_lanes(place, i + 1 == node.input_shapes.size(), lanes))
        most = std::max(most, moving_cycles(place.size(), pixels, lanes));
    }
  }
  return most;
}

int64_t slices_after_sum(int64_t lanes, std::span<const Node* const> after) {
  int64_t per_lane = 1, slices = 0;  // its scale
  bool average = false, normalised = false;
  for (const Node* node : after) {
    const Operation& operation = node->layer.operation;
    const std::optional<PoolingWindow> window = pooling_window(*node);
    average = average || (window && window->average);
    if (const auto* norm = std::get_if<BatchNorm>(&operation); norm != nullptr && node->trained && norm->statistics == Statistics::kRunning)
      slices += running_norm_resources(lanes).dsp;
    else
      normalised = normalised || norm != nullptr;
    const auto* activation = std::get_if<Activation>(&operation);
    if (activation != nullptr && activation->kind == ActivationKind::kLeakyRelu) per_lane += 2;
    if (activation != nullptr && is_smooth(*activation)) slices += smooth_activation_resources(lanes).dsp;
    if (std::holds_alternative<Dropout>(operation)) slices += 2 * dropout_resources().dsp;
    if (const auto* norm = std::get_if<LocalResponseNorm>(&operation)) {
      const int64_t half = norm->size / 2;
      slices += response_norm_resources(lanes, half).dsp + response_norm_back_resources(lanes, half).dsp;
    }
  }
  per_lane += (average ? 3 : 0) + (normalised ? 1 : 0);  // its division and its way back; a scale of errors
  return slices + per_lane * lanes;
}

double luts_after_sum(int64_t lanes, std::span<const Node* const> after) {
  double luts = 0;
  for (const Node* node : after) {
    const std::optional<PoolingWindow> window = pooling_window(*node);
    if (!window || !window->is_large() || !window->overlaps()) continue;
    const EngineMemories memories = gathered_memories(*window, divided_up(node->output.channels, lanes));
    luts += gathering_luts(lanes, memories, *window) + spreading_luts(lanes, memories, *window);
  }
  return luts;
}

}  // namespace millrace
