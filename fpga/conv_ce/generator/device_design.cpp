#include "fpga/conv_ce/generator/device_design.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/engine_period.h"
#include "core/plan/off_chip.h"
#include "core/plan/words_outside.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/shared_out.h"
#include "fpga/common/generator/resource_report.h"
#include "fpga/conv_ce/arithmetic/square_kernel.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/outside_room.h"

namespace millrace {

namespace {

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

int64_t planned_off_chip_bytes(const Shard& shard) {
  const auto found = std::ranges::find(shard.resources, "dram_bytes", &NamedAmount::name);
  return found == shard.resources.end() ? 0 : static_cast<int64_t>(found->amount);
}

bool has_phase(const Shard& shard, Phase wanted) {
  return std::ranges::any_of(shard.phases, [wanted](const PhaseEngine& phase) { return phase.phase == wanted; });
}

// Whether the shard computes with this weight.
bool holds(const Shard& shard, int64_t output, int64_t input) {
  return std::ranges::any_of(shard.blocks, [=](const Block& block) {
    return block.inputs.begin <= input && input < block.inputs.end && block.outputs.begin <= output && output < block.outputs.end;
  });
}

void check_computes(const Plan& plan, int64_t device) {
  if (device < 0 || device >= plan.devices())
    fail(ErrorCode::kUsage, "--device {}: the plan has devices 0 to {}", device, plan.devices() - 1);
  std::set<int64_t> computing;
  for (const Shard& shard : plan.shards) computing.insert(shard.device);
  if (!computing.contains(device))
    fail(ErrorCode::kUsage, "--device {}: it computes nothing in this plan; what does: --device {}", device, fmt::join(computing, ", "));
}

std::vector<double> values_of(const Node& node, const ParameterSpec& parameter, const WeightSource& weights) {
  std::vector<double> values = weights(node, parameter);
  if (static_cast<int64_t>(values.size()) != parameter.elements())
    fail(ErrorCode::kMismatch, "{}.{}: {} elements, expected {}", node.layer.name, parameter.tensor, values.size(), parameter.elements());
  return values;
}

// The group's batch norm, where it has one, over the bias of its sum.
void fold_normalisation(ShardDesign& shard, const std::vector<double>& sum_bias, const Group& group, const Graph& graph,
                        const WeightSource& weights, DeviceDesign& design) {
  for (const std::string& name : group.after) {
    const Node& node = graph.node(graph.index_of(name));
    const auto* norm = std::get_if<BatchNorm>(&node.layer.operation);
    if (norm == nullptr) continue;
    std::map<std::string, std::vector<double>> tensors;
    for (const ParameterSpec& parameter : node.parameters) tensors[parameter.tensor] = values_of(node, parameter, weights);
    const ConstantNormalisation statistics{.weight = tensors.at("weight"),
                                           .bias = tensors.at("bias"),
                                           .mean = tensors.at("running_mean"),
                                           .variance = tensors.at("running_var"),
                                           .epsilon = norm->epsilon};
    const FoldedNormalisation folded = folded_normalisation(statistics, sum_bias, shard.formats.sum, design.weights_quantised);
    if (shard.running)
      shard.norm = running_norm(statistics, {tensors.at("running_error"), tensors.at("running_projection")}, sum_bias, folded.shift,
                                shard.formats.sum, shard.formats.error, design.weights_quantised);
    shard.scale = folded.scale;
    shard.bias = folded.offset;
    shard.scale_shift = folded.shift;
  }
}

void add_weights(ShardDesign& shard, const Shard& planned, const Node& node, const Group& group, const Graph& graph,
                 const WeightSource& weights, DeviceDesign& design) {
  std::vector<double> bias(to_size(shard.layer_outputs));
  const ConvolutionShape whole = buildable_shape(graph, node);
  const int64_t kernel_h = shard.flat ? shard.flat->height : shard.engine.kernel, kernel_w = shard.flat ? shard.flat->width : kernel_h;
  const int64_t taps = whole.kernel_h * whole.kernel_w;
  // Of the layer's kernel, by the place in the engine's; nothing where that has zeros.
  std::vector<std::optional<int64_t>> tap_at(to_size(kernel_h * kernel_w));
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t row = tap / whole.kernel_w, column = tap % whole.kernel_w;
    item(tap_at, shard.flat ? tap : square_place(whole, shard.shape, row, column)) = tap;
  }
  const bool is_dense = std::holds_alternative<Dense>(node.layer.operation);
  for (const ParameterSpec& parameter : node.parameters) {
    const std::vector<double> full = values_of(node, parameter, weights);
    if (parameter.tensor == "weight") {
      const int64_t inputs_mixed = parameter.elements() / (shard.layer_outputs * taps);  // with an output
      const int64_t channel_groups = shard.layer_inputs / inputs_mixed, outputs_mixed = shard.layer_outputs / channel_groups;
      for (int64_t output = shard.outputs.begin; output < shard.outputs.end; ++output) {
        std::vector<int16_t> kernels;
        for (int64_t input = shard.inputs.begin; input < shard.inputs.end; ++input) {
          const int64_t first_mixed = output / outputs_mixed * inputs_mixed;
          const bool mixes = first_mixed <= input && input < first_mixed + inputs_mixed;
          if (!mixes && shard.shape.groups > 1) continue;
          for (int64_t row = 0; row < kernel_h; ++row)
            for (int64_t column = 0; column < kernel_w; ++column) {
              const std::optional<int64_t> tap = item(tap_at, row * kernel_w + column);
              const bool mine = tap && mixes && holds(planned, output, is_dense ? input * taps + *tap : input);
              kernels.push_back(mine ? quantized(item(full, (output * inputs_mixed + input - first_mixed) * taps + *tap),
                                                 shard.formats.weight, design.weights_quantised)
                                     : int16_t{0});
            }
        }
        if (shard.flat) kernels = beats_of_map(*shard.flat, kernels);
        shard.weight.insert(shard.weight.end(), kernels.begin(), kernels.end());
      }
    } else {
      bias = full;
    }
  }
  if (shard.normalised) {
    fold_normalisation(shard, bias, group, graph, weights, design);
    return;
  }
  shard.scale.assign(bias.size(), 1);
  for (const double value : bias) shard.bias.push_back(quantized(value, shard.formats.sum, design.weights_quantised));
}

// What the layers between two engines do not change must not have to be converted: the formats of `node`'s inputs are those of the
// outputs of the engines before, and those of the layers between.
void check_formats(const Graph& graph, const Node& node, const EngineFormats& own, const std::string& layer, const LayerFormats& book,
                   double error_scale) {
  for (const int64_t input : node.inputs) {
    if (input == kNetworkInput) continue;
    const Node& before = graph.node(input);
    const std::string& name = before.layer.name;
    const bool is_engine = layer_shape(graph, before).has_value();
    const EngineFormats given = formats_of(book, name, error_scale);
    if ((is_engine || book.contains(name)) && (given.sum != own.activation || given.error != own.input_error))
      fail(ErrorCode::kMismatch,
           "layer {} gives out activations of {} fraction bits and takes errors of {}, and layer {} behind it wants {} and {}; nothing "
           "converts between them: give both the same in formats.txt (sum and error of the one, activation and input_error of the other)",
           name, given.sum.fraction_bits, given.error.fraction_bits, layer, own.activation.fraction_bits, own.input_error.fraction_bits);
    if (!is_engine) check_formats(graph, before, own, layer, book, error_scale);
  }
}

bool streams_weights(const ShardDesign& shard) { return shard.planned_off_chip_bytes > 0 && shard.shape.groups == 1; }

// Weights in the board's own memory. FP and EB take samples one by one: to wait for several would keep the maps of all layers before on the
// chip for as long.
void add_streams(const Plan& plan, int64_t period_cycles, ShardDesign& shard) {
  const ConvolutionShape& s = shard.shape;
  if (!streams_weights(shard)) return;
  const bool dense = s.width == s.kernel_w && s.out_height() == 1 && s.out_width() == 1 && !shard.pooled;
  const int64_t samples = dense ? samples_of_gradient_pass(plan.mini_batch, plan.micro_batch) : 1;
  shard.streams = weight_streams(shard.engine, s, 1, samples, period_cycles);
}

// Where the plan leaves its blocks to others.
void place_act_ram(const Shard& planned, int64_t period_cycles, ShardDesign& shard) {
  if (!keeps_act_ram_outside(planned)) return;
  const int64_t words = act_ram_words(shard.engine, shard.shape);
  const int64_t samples = divided_up(shard.act_ram_beats, words) + kSamplesOnTheirWay;
  shard.act_ram_outside = outside_room(samples, words, shard.act_ram_memory().width, period_cycles);
}

// A plan that counts what is built says the very engine.
void check_engine(const Plan& plan, const Shard& planned, int64_t period_cycles, const ShardDesign& shard) {
  if (period_cycles <= 0 || engine_period_of(plan) <= 0 || bits_of(plan.arithmetic.wire) != kElementBits) return;
  const int64_t built = shard.engine.tiles() * shard.engine.taps();
  for (const PhaseEngine& engine : planned.phases)
    if (engine.multipliers != built)
      fail(ErrorCode::kMismatch,
           "layer {}: the plan gives its engine of {} {} multipliers, and the smallest that keeps the plan's period has {}; the plan was "
           "edited, or made by another version: plan again",
           planned.layer, name_of(engine.phase), engine.multipliers, built);
}

// A memory that may be of either kind of block, or of both.
struct EitherKind {
  int64_t* ultra_bits;
  MemoryShape shape;
};

std::vector<EitherKind> memories_of_either_kind(DeviceDesign& design) {
  std::vector<EitherKind> memories;
  const auto add = [&](const MemoryShape& memory, int64_t& ultra_bits) {
    ultra_bits = 0;
    if (memory.depth > kLutramDepth) memories.push_back({&ultra_bits, memory});
  };
  const auto add_unit = [&](ShardDesign& unit) {
    if (!unit.window.average) add(unit.winner_memory(), unit.ultra.winners);
    MemoryShape norm = unit.norm_memory();
    norm.banks = unit.norm_memories();
    if (norm.banks > 0) add(norm, unit.ultra.norm);
  };
  for (ShardDesign& shard : design.shards) {
    add(shard.act_ram_memory(), shard.ultra.act_ram);
    if (!shard.streams) {
      add(shard.parameter_memory(), shard.ultra.parameters);
      add(shard.gradient_memory(), shard.ultra.gradients);
    }
    if (shard.owner) add_unit(shard);
  }
  for (ShardDesign& tail : design.tails) add_unit(tail);
  for (MapDesign& map : design.maps)
    for (MapReader& reader : map.readers) {
      add({design.lanes * kElementBits, reader.waiting_beats}, reader.ultra_waiting);
      add({design.lanes * kElementBits, reader.error_beats}, reader.ultra_errors);
    }
  return memories;
}

}  // namespace

void share_out_memories(const BoardAmounts& board, DeviceDesign& design) {
  if (board.urams <= 0) return;
  std::vector<MemoryShape> shapes;
  const std::vector<EitherKind> memories = memories_of_either_kind(design);
  double others = built_amounts(hardware_use(design)).bram36;
  for (const EitherKind& memory : memories) {
    shapes.push_back(memory.shape);
    others -= blocks_of(memory.shape, 0).bram36;
  }
  const std::vector<int64_t> bits = ultra_bits(shapes, {board.bram36, board.urams}, others);
  for (size_t m = 0; m < memories.size(); ++m) *memories[m].ultra_bits = bits[m];
}

namespace {

// The shard, with what follows its sum where the group ends, becomes a part of the design.
void add_shard(const Plan& plan, const Graph& graph, int64_t shard_index, DeviceDesign& design, StationNodes& nodes,
               const WeightSource& weights, const LayerFormats& formats) {
  const Shard& planned = item(plan.shards, shard_index);
  const Node& node = graph.node(graph.index_of(planned.layer));
  const ConvolutionShape whole = buildable_shape(graph, node);
  const Group& group = group_of(plan, planned.layer);

  ShardDesign shard;
  shard.layer = planned.layer;
  shard.layer_inputs = whole.inputs;
  const double error_scale = 1.0 / static_cast<double>(plan.mini_batch);
  shard.formats = formats_of(formats, planned.layer, error_scale);
  check_formats(graph, node, shard.formats, planned.layer, formats, error_scale);
  const auto place = std::ranges::find(group.shards, shard_index);
  MILLRACE_CHECK(place != group.shards.end(), "shard {} is not in the group of layer {}", shard_index, planned.layer);
  const auto next = std::next(place);
  const auto held_by = [&](int64_t other) { return held_channels(item(plan.shards, other), group, node, whole, design.lanes); };
  const HeldChannels held = held_by(shard_index);
  shard.inputs = held.inputs;
  shard.outputs = held.outputs;
  shard.layer_outputs = whole.outputs;
  shard.outputs_divided = divides_outputs(group);
  if (shard.outputs_divided && place != group.shards.begin()) shard.outputs_before = held_by(*std::prev(place)).outputs.end;
  shard.passed_begin = next == group.shards.end() ? whole.inputs : held_by(*next).inputs.begin;
  shard.shape = held_shape(whole, held, design.lanes);
  if (takes_map_flat(whole))
    shard.flat = BeatOrder{.channels = held.inputs.size(), .height = whole.height, .width = whole.width, .lanes = design.lanes};
  shard.planned_multipliers = planned_multipliers(planned);
  shard.planned_off_chip_bytes = planned_off_chip_bytes(planned);
  shard.first = place == group.shards.begin();
  shard.owner = next == group.shards.end();
  shard.error_back = has_phase(planned, Phase::kErrorBack) && !reads_network_input(graph, node);
  if (!has_phase(planned, Phase::kParameterGradient)) refuse_layer(planned.layer, kNotTrained);

  shard.lanes = design.lanes;
  shard.engine = engine_within(shard.shape, shard.error_back, design.period_cycles,
                               {.multipliers = shard.planned_multipliers, .may_be_larger = engine_period_of(plan) > 0});
  check_engine(plan, planned, design.period_cycles, shard);
  // A group that goes on elsewhere has the last device's rows: whether it un-pools in blocks.
  const bool owner = shard.owner;
  design.shards.push_back(std::move(shard));
  const size_t place_here = design.shards.size() - 1, tails_before = design.tails.size();
  nodes.stations.push_back({StationKind::kShard, place_here});
  nodes.inputs.push_back({node.inputs[0]});
  nodes.output.push_back(-1);
  if (owner) {
    add_layers_after(design, place_here, group, graph, nodes);
  } else {
    // The last device's rows of errors come as they do there, in blocks where it un-pools.
    DeviceDesign there;
    there.lanes = design.lanes;
    there.shards = {design.shards.back()};
    StationNodes unused{.stations = {{StationKind::kShard, 0}}, .inputs = {{node.inputs[0]}}, .output = {-1}};
    add_layers_after(there, 0, group, graph, unused);
    design.shards.back() = std::move(there.shards.front());
  }
  ShardDesign& made = design.shards.back();
  add_streams(plan, design.period_cycles, made);
  made.memories = engine_memories(made.engine, made.shape, made.error_block_rows());
  made.gradient_memories = engine_memories(made.engine, made.gradient_shape(), made.error_block_rows());
  made.act_ram_beats = act_ram_memory(made.engine, made.shape, planned.act_ram_bits).depth;
  give_room(made);
  place_act_ram(planned, design.period_cycles, made);
  for (size_t tail = tails_before; tail < design.tails.size(); ++tail) give_room(design.tails[tail]);
  if (weights) add_weights(made, planned, node, group, graph, weights, design);
}

}  // namespace

ConvolutionShape buildable_shape(const Graph& graph, const Node& node) {
  const std::string& layer = node.layer.name;
  const std::optional<ConvolutionShape> shape = layer_shape(graph, node);
  if (!shape) refuse_layer(layer, "it is neither a convolution nor a dense layer");
  if (std::holds_alternative<Dense>(node.layer.operation) && node.output.height > 1)
    refuse_layer(layer, fmt::format("it works on each of {} steps by itself, as conv2d {{ kernel: 1 }} does, which is generated",
                                    node.output.height));
  if (shape->outputs > kMostChannels)
    refuse_layer(layer, fmt::format("it has {} outputs, more than the {} that an engine counts", shape->outputs, kMostChannels));
  if (takes_map_flat(*shape)) return *shape;
  if (shape->inputs > kMostChannels)
    refuse_layer(layer, fmt::format("it has {} input channels, more than {}", shape->inputs, kMostChannels));
  if (std::holds_alternative<Dense>(node.layer.operation) &&
      (shape->kernel_h != shape->kernel_w || shape->kernel_h * shape->kernel_w > kMostPixelsAtOnce))
    refuse_layer(layer, fmt::format("it has {} x {} x {} inputs, which with the channels in sixteens are more than the {} that an engine "
                                    "counts (pool the map before it, or give that fewer channels)",
                                    shape->inputs, shape->height, shape->width, kMostFlatChannels));
  if (shape->stride_h != shape->stride_w) refuse_layer(layer, "its stride is not square");
  const std::optional<ConvolutionShape> square = with_square_kernel(*shape);
  if (!square) refuse_layer(layer, "its kernel and padding are not square, and no square ones stand in as many places");
  if (square->pad_h > square->kernel_h / 2) refuse_layer(layer, "its padding is more than half its kernel");
  return *shape;
}

bool passes_input_on(const Graph& graph, const Node& node) {
  return std::holds_alternative<Flatten>(node.layer.operation) && reads_network_input(graph, node);
}

void give_room(ShardDesign& unit) {
  unit.mask_beats = std::max<int64_t>(unit.groups(unit.layer_outputs) * unit.window.height * unit.window.width, 4);
  unit.kept_beats = std::max<int64_t>(unit.groups(unit.layer_outputs) * unit.window.out_height * unit.window.out_width, 4);
}

const MapDesign& DeviceDesign::input_of(const Station& station, size_t operand) const {
  for (const MapDesign& map : maps)
    for (const MapReader& reader : map.readers)
      if (!reader.next && reader.station == station && reader.operand == operand) return map;
  MILLRACE_CHECK(false, "a station of device {} reads no map", index);
}

const MapDesign* DeviceDesign::output_of(const Station& station) const {
  const auto found = std::ranges::find_if(maps, [&](const MapDesign& map) { return !map.arrives && map.maker == station; });
  return found == maps.end() ? nullptr : &*found;
}

int ShardDesign::response_address() const {
  const int64_t reach = divided_up(response->half, lanes);
  return std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>((2 * reach + 2) * shape.out_width() - 1))));
}

std::string ShardDesign::channels_text() const {
  return outputs_divided ? fmt::format("outputs {} of {}", text_of(outputs), layer_outputs)
                         : fmt::format("input channels {} of {}", text_of(inputs), layer_inputs);
}

std::vector<MemoryRegion> loaded_regions(const DeviceDesign& design) {
  std::vector<MemoryRegion> regions;
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    const auto index = static_cast<int64_t>(i);
    const int64_t elements = shard.engine.kernels_per_word * shard.engine.taps();
    if (!shard.streams) regions.push_back({index, 0, streamed_words(shard.engine, shard.shape), elements});
    if (shard.owner) regions.push_back({index, 3, shard.groups(shard.layer_outputs), shard.scale_elements()});
    if (shard.owner && shard.dropout) regions.push_back({index, 2, kDrawWords + design.mini_batch, 4});
  }
  for (size_t unit = design.shards.size(); unit < design.units(); ++unit)
    if (design.unit(unit).dropout) regions.push_back({static_cast<int64_t>(unit), 2, kDrawWords + design.mini_batch, 4});
  return regions;
}

std::vector<MemoryRegion> stored_regions(const DeviceDesign& design) {
  std::vector<MemoryRegion> regions;
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    const auto index = static_cast<int64_t>(i);
    const int64_t elements = shard.engine.kernels_per_word * shard.engine.taps();
    if (!shard.streams) regions.push_back({index, 1, streamed_words(shard.engine, shard.shape), elements});
    regions.push_back({index, 2, divided_up(shard.biases(), shard.bias_lanes()), shard.bias_lanes()});
    if (shard.owner && shard.running) regions.push_back({index, 3, shard.groups(shard.layer_outputs), shard.gathered_elements()});
  }
  return regions;
}

int64_t all_elements(const std::vector<MemoryRegion>& regions) {
  int64_t all = 0;
  for (const MemoryRegion& region : regions) all += region.all_elements();
  return all;
}

StreamPlaces stream_places(const DeviceDesign& design, size_t shard) {
  constexpr int64_t kPage = 4096;
  int64_t end = rounded_up(2 * all_elements(loaded_regions(design)), kPage);
  StreamPlaces places{.end = end};
  for (size_t i = 0; i <= shard; ++i) {
    const ShardDesign& other = design.shards[i];
    if (!other.streams) continue;
    const auto taken = [&](int64_t bits) {
      const int64_t begin = end;
      end += rounded_up(streamed_beats(other.engine, other.shape, bits, other.streams->beat_bits) * other.streams->beat_bits / 8, kPage);
      return begin;
    };
    places.kernels = taken(kElementBits);
    places.error_back_kernels = other.error_back ? taken(kElementBits) : places.kernels;
    places.gradients = taken(kAccumulatorBits);
    places.end = end;
  }
  return places;
}

int64_t DeviceDesign::sample_multiple() const {
  int64_t multiple = 1;
  for (const ShardDesign& shard : shards) multiple = std::lcm(multiple, shard.gradient_samples());
  return multiple;
}

DeviceDesign device_design(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights, const LayerFormats& formats) {
  check_computes(plan, device);
  const Placement placement(plan, graph);
  RingPace pace = ring_pace(plan, graph);
  pace.rooms = ring_rooms(placement, pace);
  return device_design(placement, device, weights, formats, pace);
}

DeviceDesign device_design(const Placement& placement, int64_t device, const WeightSource& weights, const LayerFormats& formats,
                           const RingPace& pace) {
  const Plan& plan = placement.plan();
  const Graph& graph = placement.graph();
  DeviceDesign design;
  design.model = plan.model.name;
  design.board = item(plan.cluster.devices, device).device;
  design.index = device;
  design.mini_batch = plan.mini_batch;
  design.lanes = pace.lanes;
  design.period_cycles = pace.cycles_of(plan, design.board);
  StationNodes nodes;
  for (const Placement::Piece& piece : placement.on(device)) {
    const Group& group = item(plan.groups, piece.group);
    if (!passes_input_on(graph, graph.node(graph.index_of(group.layer))))
      add_shard(plan, graph, piece.shard, design, nodes, weights, formats);
    else if (!group.after.empty())
      refuse_layer(group.after.front(), kWorksOnInput);
  }
  if (design.shards.empty()) {
    const Placement::Piece& alone = placement.on(device).front();
    refuse_layer(item(plan.shards, alone.shard).layer, "it computes nothing and is alone on its board");
  }
  for (size_t i = 1; i < design.shards.size(); ++i)
    if (!design.shards[i].first || !design.shards[i - 1].owner)
      refuse_layer(design.shards[i].layer, "it does not follow the layer before it on this device");
  design.stations = nodes.stations;
  add_maps(design, placement, nodes);
  for (const MapDesign& map : design.maps)
    for (const MapReader& reader : map.readers)
      if (map.error_back && !reader.next && reader.station.kind == StationKind::kShard && !design.shards[reader.station.index].error_back)
        refuse_layer(design.shards[reader.station.index].layer, "errors must reach the layer before it");
  give_rooms(pace.rooms, design);
  share_out_memories(board_capacity(plan, design.board), design);
  return design;
}

}  // namespace millrace
