#include "fpga/conv_ce/generator/ring_engines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"
#include "fpga/conv_ce/rtl/module_resources.h"

namespace millrace {

namespace {

constexpr int64_t kMostLanes = 16;
// Slices per lane that follow a sum at most: its scale, an average's division and its way back, a batch norm's.
constexpr int64_t kSlicesAfterSum = 5;
constexpr double kPeriodStep = 0.005;

// The map that a dense layer reads: what was flattened before it, whatever was dropped since.
Shape map_before(const Graph& graph, const Node& node) {
  const Shape& input = node.input_shapes[0];
  if (node.inputs[0] == kNetworkInput) return input;
  const Node* producer = &graph.node(node.inputs[0]);
  while (std::holds_alternative<Dropout>(producer->layer.operation) && producer->inputs[0] != kNetworkInput)
    producer = &graph.node(producer->inputs[0]);
  return std::holds_alternative<Flatten>(producer->layer.operation) ? producer->input_shapes[0] : input;
}

// For the whole ring, so that neighbours' streams fit: of a plan that says no times, as wide as squares of lanes would be.
int64_t lanes_by_multipliers(const Plan& plan, const Graph& graph) {
  std::vector<int64_t> tile_multipliers(static_cast<size_t>(plan.devices())), planned(tile_multipliers.size());
  for (const Shard& shard : plan.shards) {
    const std::optional<ConvolutionShape> shape = layer_shape(graph, graph.node(graph.index_of(shard.layer)));
    if (!shape) continue;
    for (const PhaseEngine& phase : shard.phases) {
      tile_multipliers[static_cast<size_t>(shard.device)] += shape->kernel_h * shape->kernel_w;
      planned[static_cast<size_t>(shard.device)] += phase.multipliers;
    }
  }
  int64_t lanes = kMostLanes;
  for (size_t device = 0; device < planned.size(); ++device)
    while (planned[device] > 0 && lanes > 1 && lanes * lanes * tile_multipliers[device] > planned[device]) lanes /= 2;
  return lanes;
}

// Of the layer's inputs as the plan counts them: of a dense layer, elements of the flattened map.
ChannelRange planned_inputs(const Shard& shard) {
  ChannelRange all = shard.blocks.front().inputs;
  for (const Block& block : shard.blocks) all = {std::min(all.begin, block.inputs.begin), std::max(all.end, block.inputs.end)};
  return all;
}

ChannelRange planned_outputs(const Shard& shard) {
  ChannelRange all = shard.blocks.front().outputs;
  for (const Block& block : shard.blocks) all = {std::min(all.begin, block.outputs.begin), std::max(all.end, block.outputs.end)};
  return all;
}

double amount_of_board(const Plan& plan, const std::string& board, std::string_view name) {
  for (const DeviceBudget& budget : plan.budgets) {
    if (budget.device != board) continue;
    const auto found = std::ranges::find(budget.amounts, name, &NamedAmount::name);
    if (found != budget.amounts.end()) return found->amount;
  }
  return 0;
}

// A shard that an engine is made for.
struct Engine {
  int64_t device = 0;
  ConvolutionShape whole, held;
  int64_t phases = 0;
  // Of what follows the sum, where the group ends: per lane of the streams, and beside.
  int64_t slices_per_lane = 0, slices = 0;
};

void add_slices_after_sum(const Group& group, const Graph& graph, Engine& engine) {
  engine.slices_per_lane += kSlicesAfterSum;
  for (const std::string& name : group.after) {
    const Operation& operation = graph.node(graph.index_of(name)).layer.operation;
    const auto* activation = std::get_if<Activation>(&operation);
    if (activation != nullptr && activation->kind == ActivationKind::kLeakyRelu) engine.slices_per_lane += 2;
    if (std::holds_alternative<Dropout>(operation)) engine.slices += 2 * dropout_resources().dsp;
    if (const auto* norm = std::get_if<LocalResponseNorm>(&operation)) {
      const int64_t half = norm->size / 2;
      const auto of = [half](int64_t lanes) {
        return response_norm_resources(lanes, half).dsp + response_norm_back_resources(lanes, half).dsp;
      };
      engine.slices += of(0);
      engine.slices_per_lane += of(1) - of(0);
    }
  }
}

std::vector<Engine> engines_of(const Plan& plan, const Graph& graph, int64_t lanes) {
  std::vector<Engine> engines;
  for (const Group& group : plan.groups) {
    const Node& node = graph.node(graph.index_of(group.layer));
    const std::optional<ConvolutionShape> whole = layer_shape(graph, node);
    if (!whole) continue;
    for (const int64_t index : group.shards) {
      const Shard& shard = plan.shards[static_cast<size_t>(index)];
      const HeldChannels held = held_channels(shard, group, node, *whole, lanes);
      Engine engine{.device = shard.device, .whole = *whole, .held = {}};
      if (index == group.shards.back()) add_slices_after_sum(group, graph, engine);
      engine.held = held_shape(*whole, held);
      for (const PhaseEngine& phase : shard.phases) engine.phases += phase.phase != Phase::kErrorBack || node.inputs[0] != kNetworkInput;
      engines.push_back(engine);
    }
  }
  return engines;
}

int64_t whole_cycles(double seconds, double clock) {
  constexpr double kRounding = 1e-6;  // planned times are rounded up to a picosecond
  return static_cast<int64_t>(std::floor(seconds * clock + kRounding));
}

// What the maps before and behind every layer take to pass, `lanes` channels at a time.
double stream_seconds(const Plan& plan, const std::vector<Engine>& engines, int64_t lanes) {
  double slowest = 0;
  for (const Engine& engine : engines) {
    const ConvolutionShape& whole = engine.whole;
    const int64_t beats = std::max(divided_up(whole.inputs, lanes) * whole.height * whole.width,
                                   divided_up(whole.outputs, lanes) * whole.out_height() * whole.out_width());
    slowest = std::max(slowest,
                       static_cast<double>(beats) / planned_clock(plan, plan.cluster.devices[static_cast<size_t>(engine.device)].device));
  }
  return slowest;
}

// Whether every board has the slices for engines that keep this period.
bool all_fit(const Plan& plan, const std::vector<Engine>& engines, int64_t lanes, double period) {
  std::vector<double> slices(static_cast<size_t>(plan.devices()));
  for (const Engine& engine : engines) {
    const auto device = static_cast<size_t>(engine.device);
    const std::string& board = plan.cluster.devices[device].device;
    const double there = amount_of_board(plan, board, "dsp_device");
    if (there <= 0) continue;
    const auto found = smallest_engine(engine.held, whole_cycles(period, planned_clock(plan, board)));
    if (!found) return false;
    slices[device] += static_cast<double>(found->tiles() * found->taps() * engine.phases + engine.slices_per_lane * lanes + engine.slices);
    if (slices[device] > there) return false;
  }
  return true;
}

// From `least` on.
double shortest_period(const Plan& plan, const std::vector<Engine>& engines, int64_t lanes, double least) {
  double short_of = least, fits = least;
  constexpr double kLongest = 1e6;
  while (fits < kLongest && !all_fit(plan, engines, lanes, fits)) {
    short_of = fits;
    fits *= 2;
  }
  while (fits > short_of * (1 + kPeriodStep)) {
    const double middle = (fits + short_of) / 2;
    (all_fit(plan, engines, lanes, middle) ? fits : short_of) = middle;
  }
  return fits;
}

double slowest_planned(const Plan& plan, const Graph& graph) {
  double slowest = 0;
  for (const Shard& shard : plan.shards)
    for (const PhaseEngine& engine : shard.phases)
      if (engine.multipliers > 0) slowest = std::max(slowest, planned_seconds(graph.node(graph.index_of(shard.layer)), shard.unit, engine));
  return slowest;
}

bool has_clocks(const Plan& plan, const std::vector<Engine>& engines) {
  return std::ranges::all_of(engines, [&plan](const Engine& engine) {
    return planned_clock(plan, plan.cluster.devices[static_cast<size_t>(engine.device)].device) > 0;
  });
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

bool divides_outputs(const Group& group) { return group.split == Split::kOutputChannels && group.shards.size() > 1; }

HeldChannels held_channels(const Shard& shard, const Group& group, const Node& node, const ConvolutionShape& whole, int64_t lanes) {
  // Channels as streams count them: of a dense layer those of the map.
  const int64_t per_channel = std::holds_alternative<Dense>(node.layer.operation) ? whole.height * whole.width : 1;
  // Whole groups of lanes.
  const auto widened = [lanes](const ChannelRange& range, int64_t count, int64_t channels) {
    const auto first = [&](int64_t index) { return index / count / lanes * lanes; };
    return ChannelRange{first(range.begin), std::min(first(range.end - 1) + lanes, channels)};
  };
  if (divides_outputs(group)) return {{0, whole.inputs}, widened(planned_outputs(shard), 1, whole.outputs)};
  return {widened(planned_inputs(shard), per_channel, whole.inputs), {0, whole.outputs}};
}

ConvolutionShape held_shape(const ConvolutionShape& whole, const HeldChannels& held) {
  ConvolutionShape shape = whole;
  shape.inputs = held.inputs.size();
  shape.outputs = held.outputs.size();
  shape.kernel_h = (whole.kernel_h - 1) * whole.dilation_h + 1;
  shape.kernel_w = (whole.kernel_w - 1) * whole.dilation_w + 1;
  shape.dilation_h = shape.dilation_w = 1;
  if (shape.inputs != whole.inputs || shape.outputs != whole.outputs) shape.groups = 1;
  return shape;
}

int64_t RingPace::cycles_of(const Plan& plan, const std::string& board) const {
  return whole_cycles(period_seconds, planned_clock(plan, board));
}

RingPace ring_pace(const Plan& plan, const Graph& graph) {
  const double planned = slowest_planned(plan, graph);
  if (planned <= 0 || !has_clocks(plan, engines_of(plan, graph, 1))) return {lanes_by_multipliers(plan, graph), 0};
  RingPace best{.lanes = kMostLanes, .period_seconds = std::numeric_limits<double>::infinity()};
  for (int64_t lanes = 1; lanes <= kMostLanes && best.period_seconds > planned; lanes *= 2) {
    const std::vector<Engine> engines = engines_of(plan, graph, lanes);
    const double least = std::max(planned, stream_seconds(plan, engines, lanes));
    if (least >= best.period_seconds) continue;
    if (const double fits = shortest_period(plan, engines, lanes, least); fits < best.period_seconds) best = {lanes, fits};
  }
  return best;
}

EngineParallelism engine_within(const ConvolutionShape& shape, int64_t cycles, int64_t multipliers) {
  if (cycles > 0)
    if (const std::optional<EngineParallelism> engine = smallest_engine(shape, cycles)) return *engine;
  return fastest_engine(shape, multipliers);
}

}  // namespace millrace
