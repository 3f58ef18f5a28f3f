#include "fpga/conv_ce/generator/ring_engines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/index.h"
#include "core/plan/engine_period.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"

namespace millrace {

namespace {

constexpr double kPeriodStep = 0.005;

// For the whole ring, so that neighbours' streams fit: of a plan that says no times, as wide as squares of lanes would be.
int64_t lanes_by_multipliers(const Plan& plan, const Graph& graph) {
  std::vector<int64_t> tile_multipliers(to_size(plan.devices())), planned(tile_multipliers.size());
  for (const Shard& shard : plan.shards) {
    const std::optional<ConvolutionShape> shape = layer_shape(graph, graph.node(graph.index_of(shard.layer)));
    if (!shape) continue;
    for (const PhaseEngine& phase : shard.phases) {
      item(tile_multipliers, shard.device) += takes_map_flat(*shape) ? 1 : shape->kernel_h * shape->kernel_w;
      item(planned, shard.device) += phase.multipliers;
    }
  }
  int64_t lanes = kMostStreamLanes;
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
  bool error_back = false;
  std::vector<const Node*> after;  // of what follows the sum, where the group ends
  bool owner = false;
};

std::vector<Engine> engines_of(const Plan& plan, const Graph& graph, int64_t lanes) {
  std::vector<Engine> engines;
  for (const Group& group : plan.groups) {
    const Node& node = graph.node(graph.index_of(group.layer));
    const std::optional<ConvolutionShape> whole = layer_shape(graph, node);
    if (!whole) continue;
    for (const int64_t index : group.shards) {
      const Shard& shard = item(plan.shards, index);
      const HeldChannels held = held_channels(shard, group, node, *whole, lanes);
      Engine engine{.device = shard.device, .whole = *whole, .held = {}, .after = {}, .owner = index == group.shards.back()};
      for (const std::string& name : group.after) engine.after.push_back(&graph.node(graph.index_of(name)));
      engine.held = held_shape(*whole, held, lanes);
      for (const PhaseEngine& phase : shard.phases) {
        const bool back = phase.phase == Phase::kErrorBack;
        if (back && reads_network_input(graph, node)) continue;
        ++engine.phases;
        engine.error_back = engine.error_back || back;
      }
      engines.push_back(engine);
    }
  }
  return engines;
}

double board_clock(const Plan& plan, const Engine& engine) { return planned_clock(plan, item(plan.cluster.devices, engine.device).device); }

int64_t whole_cycles(double seconds, double clock) { return static_cast<int64_t>(std::floor(seconds * clock + kCycleRounding)); }

// What the maps before and behind every layer, and those that are joined, take to pass, `lanes` channels at a time, at the clock of the
// slowest board, with work or without, or at that for which the plan says that it has counted its channels; `planned` where it is long
// enough.
double stream_seconds(const Plan& plan, const Graph& graph, const std::vector<Engine>& engines, int64_t lanes, double planned) {
  int64_t most = joined_and_pooled_cycles(graph, lanes);
  double clock = std::numeric_limits<double>::infinity();
  for (const Engine& engine : engines) most = std::max(most, stream_cycles(engine.whole, lanes));
  for (const DeviceEntry& device : plan.cluster.devices)
    if (const double own = planned_clock(plan, device.device); own > 0) clock = std::min(clock, own);
  if (const double stated = stream_clock_of(plan); stated > 0) clock = stated;
  return most <= whole_cycles(planned, clock) ? planned : static_cast<double>(most) / clock;
}

// Whether every board has the slices for engines that keep this period.
bool all_fit(const Plan& plan, const std::vector<Engine>& engines, int64_t lanes, double period) {
  std::vector<double> slices(to_size(plan.devices()));
  for (const Engine& engine : engines) {
    const auto device = to_size(engine.device);
    const std::string& board = plan.cluster.devices[device].device;
    const double there = amount_of_board(plan, board, "dsp_device");
    if (there <= 0) continue;
    const auto found = smallest_engine(engine.held, whole_cycles(period, planned_clock(plan, board)), engine.error_back);
    if (!found) return false;
    slices[device] +=
        static_cast<double>(found->tiles() * found->taps() * engine.phases + (engine.owner ? slices_after_sum(lanes, engine.after) : 0));
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

// Of every board; processors among them have none.
bool has_clocks(const Plan& plan, const std::vector<Engine>& engines) {
  bool some = false;
  for (const Engine& engine : engines) {
    const bool clocked = board_clock(plan, engine) > 0;
    some = some || clocked;
    if (!clocked && amount_of_board(plan, item(plan.cluster.devices, engine.device).device, "dsp_device") > 0) return false;
  }
  return some;
}

}  // namespace

bool divides_outputs(const Group& group) { return group.split == Split::kOutputChannels && group.shards.size() > 1; }

HeldChannels held_channels(const Shard& shard, const Group& group, const Node& node, const ConvolutionShape& whole, int64_t lanes) {
  // Channels as streams count them: of a dense layer those of the map.
  const int64_t per_channel = std::holds_alternative<Dense>(node.layer.operation) ? whole.height * whole.width : 1;
  if (divides_outputs(group)) return {{0, whole.inputs}, whole_lane_groups(planned_outputs(shard), 1, lanes, whole.outputs)};
  return {whole_lane_groups(planned_inputs(shard), per_channel, lanes, whole.inputs), {0, whole.outputs}};
}

int64_t RingPace::cycles_of(const Plan& plan, const std::string& board) const {
  return whole_cycles(period_seconds, planned_clock(plan, board));
}

RingPace ring_pace(const Plan& plan, const Graph& graph) {
  const double asked = engine_period_of(plan);
  const double planned = asked > 0 ? asked : slowest_planned(plan, graph);
  if (planned <= 0 || !has_clocks(plan, engines_of(plan, graph, 1))) return {lanes_by_multipliers(plan, graph), 0, {}};
  RingPace best{.lanes = kMostStreamLanes, .period_seconds = std::numeric_limits<double>::infinity(), .rooms = {}};
  for (int64_t lanes = 1; lanes <= kMostStreamLanes && best.period_seconds > planned; lanes *= 2) {
    const std::vector<Engine> engines = engines_of(plan, graph, lanes);
    const double least = stream_seconds(plan, graph, engines, lanes, planned);
    if (least >= best.period_seconds) continue;
    if (const double fits = shortest_period(plan, engines, lanes, least); fits < best.period_seconds) best = {lanes, fits, {}};
  }
  return best;
}

EngineParallelism engine_within(const ConvolutionShape& shape, bool error_back, int64_t cycles, const EngineAsPlanned& planned) {
  if (cycles <= 0) return fastest_engine(shape, planned.multipliers);
  EngineFront front(shape, error_back);
  const EngineFront::Choice* const smallest = front.smallest(cycles);
  if (smallest == nullptr) return fastest_engine(shape, planned.multipliers);
  const EngineParallelism engine = front.engine(*smallest);
  if (!planned.may_be_larger) return engine;
  const std::vector<EngineFront::Choice> larger = front.keeping_up(cycles, planned.multipliers / engine.taps());
  const bool found = !larger.empty() && larger.back().tiles() * engine.taps() == planned.multipliers;
  return found ? front.engine(larger.back()) : engine;
}

}  // namespace millrace
