#include "fpga/conv_ce/generator/device_design.h"

#include <algorithm>
#include <bit>

#include "core/base/error.h"

namespace millrace {

namespace {

constexpr int64_t kMostLanes = 16;

[[noreturn]] void refuse(const std::string& layer, const std::string& reason) {
  fail(ErrorCode::kUnavailable, "layer {}: {}; no hardware is generated for it yet", layer, reason);
}

const Group& group_of(const Plan& plan, const std::string& layer) {
  for (const Group& group : plan.groups)
    if (group.layer == layer) return group;
  fail(ErrorCode::kMalformed, "the plan has no group for layer {}", layer);
}

int64_t planned_multipliers(const Shard& shard) {
  for (const PhaseEngine& phase : shard.phases)
    if (phase.phase == Phase::kForward) return phase.multipliers;
  return 0;
}

bool has_phase(const Shard& shard, Phase wanted) {
  return std::ranges::any_of(shard.phases, [wanted](const PhaseEngine& phase) { return phase.phase == wanted; });
}

int64_t taps_of(const Conv2d& conv) { return conv.kernel_h * conv.kernel_w; }

// For the whole ring, so that neighbours' streams fit.
int64_t common_lanes(const Plan& plan, const Graph& graph) {
  int64_t lanes = kMostLanes;
  for (const Shard& shard : plan.shards) {
    const auto* conv = std::get_if<Conv2d>(&graph.node(graph.index_of(shard.layer)).layer.operation);
    if (conv == nullptr) continue;
    for (const Block& block : shard.blocks)
      while (block.inputs.begin % lanes != 0) lanes /= 2;
    const int64_t multipliers = planned_multipliers(shard);
    while (multipliers > 0 && lanes > 1 && lanes * lanes * taps_of(*conv) > multipliers) lanes /= 2;
  }
  return lanes;
}

// Checks that the engine can be what the layer is.
const Conv2d& convolution_of(const Node& node) {
  const std::string& layer = node.layer.name;
  const auto* conv = std::get_if<Conv2d>(&node.layer.operation);
  if (conv == nullptr) refuse(layer, "it is not a convolution");
  if (conv->kernel_h != conv->kernel_w || conv->stride_h != conv->stride_w || conv->pad_h != conv->pad_w)
    refuse(layer, "its kernel, stride or padding is not square");
  if (conv->groups != 1) refuse(layer, "its channels come in groups");
  if (conv->dilation_h != 1 || conv->dilation_w != 1) refuse(layer, "its kernel is dilated");
  if (conv->pad_h > conv->kernel_h / 2) refuse(layer, "its padding is more than half its kernel");
  return *conv;
}

void add_layers_after(ShardDesign& shard, const Group& group, const Graph& graph) {
  PoolingWindow& window = shard.window;
  window = {.height = shard.shape.out_height(),
            .width = shard.shape.out_width(),
            .out_height = shard.shape.out_height(),
            .out_width = shard.shape.out_width(),
            .kernel_h = 1,
            .kernel_w = 1,
            .stride_h = 1,
            .stride_w = 1};
  bool flattened = false;
  for (const std::string& name : group.after) {
    const Node& node = graph.node(graph.index_of(name));
    if (flattened) refuse(name, "it follows a flattened convolution");
    if (const auto* activation = std::get_if<Activation>(&node.layer.operation)) {
      if (activation->kind != ActivationKind::kRelu) refuse(name, "its activation is not ReLU");
      if (shard.relu || shard.pooled) refuse(name, "a ReLU is generated once, before the pooling");
      shard.relu = true;
    } else if (const auto* pool = std::get_if<Pool2d>(&node.layer.operation)) {
      if (pool->kind != PoolKind::kMax) refuse(name, "the way back through average pooling is missing");
      if (shard.pooled) refuse(name, "one pooling per convolution is generated");
      if (pool->kernel_h != pool->kernel_w || pool->stride_h != pool->stride_w || pool->pad_h != pool->pad_w || pool->kernel_h > 4)
        refuse(name, "its window is not square, or larger than 4 x 4");
      shard.pooled = true;
      window.kernel_h = window.kernel_w = pool->kernel_h;
      window.stride_h = window.stride_w = pool->stride_h;
      window.pad_h = window.pad_w = pool->pad_h;
      window.out_height = node.output.height;
      window.out_width = node.output.width;
    } else if (std::holds_alternative<Flatten>(node.layer.operation)) {
      flattened = true;  // the order of a stream, nothing to compute
    } else {
      refuse(name, "only ReLU and max pooling follow a convolution");
    }
  }
}

void add_weights(ShardDesign& shard, const Node& node, const WeightSource& weights, DeviceDesign& design) {
  const int64_t taps = shard.engine.taps();
  for (const ParameterSpec& parameter : node.parameters) {
    const std::vector<double> full = weights(node, parameter);
    if (static_cast<int64_t>(full.size()) != parameter.elements())
      fail(ErrorCode::kMismatch, "{}.{}: {} elements, expected {}", node.layer.name, parameter.tensor, full.size(), parameter.elements());
    if (parameter.tensor == "weight") {
      for (int64_t output = 0; output < shard.shape.outputs; ++output)
        for (int64_t input = shard.inputs.begin; input < shard.inputs.end; ++input)
          for (int64_t tap = 0; tap < taps; ++tap)
            shard.weight.push_back(quantized(full[static_cast<size_t>((output * shard.layer_inputs + input) * taps + tap)],
                                             design.formats.weight, design.weights_quantised));
    } else {
      for (const double value : full) shard.bias.push_back(quantized(value, design.formats.sum, design.weights_quantised));
    }
  }
  shard.bias.resize(static_cast<size_t>(shard.shape.outputs));
}

ShardDesign shard_design(const Plan& plan, const Graph& graph, int64_t shard_index, DeviceDesign& design, const WeightSource& weights) {
  const Shard& planned = plan.shards[static_cast<size_t>(shard_index)];
  const Node& node = graph.node(graph.index_of(planned.layer));
  const Conv2d& conv = convolution_of(node);
  const Group& group = group_of(plan, planned.layer);
  if (group.split == Split::kOutputChannels) refuse(planned.layer, "it is divided by output channels");
  if (planned.blocks.size() != 1 || planned.blocks[0].outputs.size() != node.output.channels)
    refuse(planned.layer, "a cut falls inside a channel");

  ShardDesign shard;
  shard.layer = planned.layer;
  shard.inputs = planned.blocks[0].inputs;
  shard.layer_inputs = node.input_shapes[0].channels;
  shard.shape = {.inputs = shard.inputs.size(),
                 .outputs = conv.out_channels,
                 .height = node.input_shapes[0].height,
                 .width = node.input_shapes[0].width,
                 .kernel_h = conv.kernel_h,
                 .kernel_w = conv.kernel_w,
                 .stride_h = conv.stride_h,
                 .stride_w = conv.stride_w,
                 .pad_h = conv.pad_h,
                 .pad_w = conv.pad_w};
  shard.planned_multipliers = planned_multipliers(planned);
  shard.owner = group.shards.back() == shard_index;
  shard.error_back = has_phase(planned, Phase::kErrorBack) && node.inputs[0] != kNetworkInput;
  if (shard.error_back && conv.stride_h != 1) refuse(planned.layer, "errors go back through a stride");
  if (!has_phase(planned, Phase::kParameterGradient)) refuse(planned.layer, "it is not trained");

  shard.engine = {.kernel = conv.kernel_h, .stride = conv.stride_h, .input_lanes = design.lanes, .output_lanes = design.lanes};
  // Kernels are reloaded while a row passes.
  const int64_t reload = std::max<int64_t>(shard.shape.out_width() - 1, 1);
  shard.engine.kernels_per_word = (shard.engine.tiles() + reload - 1) / reload;
  add_layers_after(shard, group, graph);
  shard.memories = engine_memories(shard.engine, shard.shape, shard.window.stride_h);
  const int64_t sample_beats = shard.groups(shard.shape.inputs) * shard.shape.height * shard.shape.width;
  const int64_t beat_bits = design.lanes * kElementBits;
  // At least a sample: within the device, errors come back only when the layers behind have rows to work on.
  shard.act_ram_beats = std::max(sample_beats, (planned.act_ram_bits + beat_bits - 1) / beat_bits);
  shard.kept_beats = std::max<int64_t>(shard.groups(shard.shape.outputs) * shard.window.out_height * shard.window.out_width, 4);
  add_weights(shard, node, weights, design);
  return shard;
}

}  // namespace

DeviceDesign device_design(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights) {
  if (device < 0 || device >= plan.devices())
    fail(ErrorCode::kUsage, "--device {}: the plan has devices 0 to {}", device, plan.devices() - 1);
  DeviceDesign design;
  design.model = plan.model.name;
  design.board = plan.cluster.devices[static_cast<size_t>(device)].device;
  design.index = device;
  design.mini_batch = plan.mini_batch;
  design.lanes = common_lanes(plan, graph);
  design.formats = default_formats(1.0 / static_cast<double>(plan.mini_batch));
  for (size_t i = 0; i < plan.shards.size(); ++i)
    if (plan.shards[i].device == device) design.shards.push_back(shard_design(plan, graph, static_cast<int64_t>(i), design, weights));
  if (design.shards.empty()) fail(ErrorCode::kUnavailable, "device {} computes nothing in this plan", device);
  for (size_t i = 1; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    if (!shard.error_back) refuse(shard.layer, "errors must reach the layer before it");
    if (!shard.first() || !design.shards[i - 1].owner) refuse(shard.layer, "it does not follow the layer before it on this device");
  }
  return design;
}

}  // namespace millrace
