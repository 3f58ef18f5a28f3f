#include "node/simulate/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/parts.h"
#include "core/plan/seats.h"
#include "node/simulate/compile_context.h"
#include "node/simulate/measured.h"

namespace millrace::simulation {
namespace {

__extension__ using Wide = __int128;

constexpr int64_t kMostSamples = int64_t{1} << 24;
constexpr int64_t kMessagesOfPass = 64;

Service service_of(int64_t bits, int64_t bits_per_second) {
  const Wide time = static_cast<Wide>(bits) * kPicoseconds;
  return {static_cast<int64_t>(time / bits_per_second), static_cast<int64_t>(time % bits_per_second)};
}

class NetworkCompiler {
 public:
  NetworkCompiler(const Plan& plan, const Graph& graph, const SimulationOptions& options, int64_t first, int64_t end) : plan_(plan) {
    network_.first_device = first;
    network_.end_device = end;
    network_.samples = options.samples;
    context_ = std::make_unique<CompileContext>(plan, graph, options, network_);
  }

  Network compile() {
    for (const Group& group : plan_.groups)
      if (context_->pace.streams && shares_steps(plan_, context_->graph, group))
        fail(ErrorCode::kUnavailable,
             "layer \"{}\": several devices share its steps, which is simulated where all devices take turns; this ring has engines side "
             "by side",
             group.layer);
    network_.messages_per_micro_batch = !context_->pace.streams;
    const SimulationOptions& options = context_->options;
    if (folds(plan_.cluster)) {
      if (context_->pace.streams)
        fail(ErrorCode::kUnavailable,
             "cards that fill several places are simulated where devices take turns; some of this ring have engines side by side");
      // A card acts for one of its places at a time, the lowest that can.
      const std::vector<int64_t> seats = seats_of(plan_.cluster);
      network_.ranks.resize(to_size(1 + *std::ranges::max_element(seats)));
      network_.free_cores = static_cast<int64_t>(network_.ranks.size());
    }
    if (options.cores + options.trainer_ranks > 0) {
      network_.oldest_first = takes_oldest_first(plan_.alignment);
      network_.ranks.resize(to_size(options.trainer_ranks > 0 ? options.trainer_ranks : plan_.devices()));
      network_.free_cores = options.cores > 0 ? options.cores : static_cast<int64_t>(network_.ranks.size());
    }
    add_lanes();
    for (size_t f = 0; f < plan_.flows.size(); ++f) add_flow(static_cast<int64_t>(f));
    const Placement placement(plan_, context_->graph);
    for (int64_t device = network_.first_device; device < network_.end_device; ++device) {
      context_->first_station.push_back(static_cast<int32_t>(network_.stations.size()));
      const SegmentProgram program = compile_segment(placement, device);
      if (item(context_->pace.turns, device)) {
        compile_sequential_device(*context_, program);
      } else {
        compile_streaming_device(*context_, program);
      }
    }
    context_->first_station.push_back(static_cast<int32_t>(network_.stations.size()));
    compile_homes(*context_);
    if (options.scenario.replicas.count > 1) add_all_reduces(options.scenario.replicas);
    context_->builder.finish();
    return std::move(network_);
  }

 private:
  // Updates wait for the replicas' sum of their gradients; those of one device follow one another over its column's links.
  void add_all_reduces(const Replicas& replicas) {
    for (Station& station : network_.stations) {
      if (station.kind != StationKind::kUpdate) continue;
      station.timed = true;
      station.duration = all_reduce_picoseconds(replicas, station.parameters * bits_of(plan_.arithmetic.wire));
    }
    for (Station& station : network_.stations)
      if (station.turns >= 0)
        item(network_.turns, station.turns).all_reduce =
            all_reduce_picoseconds(replicas, context_->parameters_of(station.device, -1) * bits_of(plan_.arithmetic.wire));
  }

  void add_lanes() {
    loads_ = lane_loads(plan_);
    const std::vector<int64_t> loads = loads_;
    const std::vector<int64_t> cables = cables_of(plan_.cluster);
    for (size_t lane = 0; lane < loads.size(); ++lane)
      if (const auto cable = to_size(cables[lane]); cable != lane) loads_[cable] += loads[lane];
    for (size_t lane = 0; lane < loads.size(); ++lane) loads_[lane] = item(loads_, cables[lane]);
    network_.lane_of_link.assign(2 * plan_.links.size(), -1);
    for (size_t lane = 0; lane < loads.size(); ++lane) {
      const Link& link = plan_.links[lane / 2];
      const Direction direction = lane % 2 == 0 ? Direction::kForward : Direction::kBackward;
      if (!context_->here(direction == Direction::kForward ? link.from : link.to)) continue;
      if (const auto cable = to_size(cables[lane]); cable != lane) {
        network_.lane_of_link[lane] = network_.lane_of_link[cable];
        continue;
      }
      network_.lane_of_link[lane] = static_cast<int32_t>(network_.lanes.size());
      LinkSide made;
      made.bits_per_second = lane_bits_per_second(plan_, static_cast<int64_t>(lane / 2), direction, loads);
      network_.lanes.push_back(made);
    }
    network_.flow_index.assign(plan_.flows.size(), -1);
  }

  void add_flow(int64_t index) {
    const Flow& flow = item(plan_.flows, index);
    const Link& link = item(plan_.links, flow.link);
    const bool forward = flow.direction == Direction::kForward;
    FlowState state;
    state.plan_flow = static_cast<int32_t>(index);
    state.sender_here = context_->here(forward ? link.from : link.to);
    state.receiver_here = context_->here(forward ? link.to : link.from);
    if (!state.sender_here && !state.receiver_here) return;
    state.latency = link.latency_picoseconds;
    const auto local = static_cast<int32_t>(network_.flows.size());
    item(network_.flow_index, index) = local;
    int64_t elements = elements_at_once(flow);
    if (carries_parameters(flow)) {
      state.per_sample = chunks_of(elements, plan_);
    } else {
      state.per_sample = context_->messages_of(index);
      if (!context_->pace.streams) elements *= plan_.micro_batch;
    }
    const int64_t bits = bits_of(flow.wire);
    // Messages differ by an element, chunks of time by a step.
    const int64_t steps = context_->steps_of_chunks(index);
    const int64_t unit = steps > 0 ? elements / steps : 1;
    state.larger = static_cast<int32_t>(elements / unit % state.per_sample);
    state.more_bits = unit * bits;
    state.spread = steps > 0;
    state.descending = flow.direction == Direction::kBackward;
    state.bits = elements / unit / state.per_sample * state.more_bits;
    if (state.sender_here) {
      state.lane = item(network_.lane_of_link, 2 * flow.link + (forward ? 0 : 1));
      const int64_t speed = item(network_.lanes, state.lane).bits_per_second;
      state.services = {service_of(state.bits + state.more_bits, speed), service_of(state.bits, speed)};
      const Wide whole = item(loads_, 2 * flow.link + (forward ? 0 : 1));
      const Wide part = std::max<int64_t>(1, bits_per_mini_batch(flow, plan_));
      for (size_t i = 0; i < state.services.size(); ++i)
        state.in_turn[i] = static_cast<int64_t>(std::min<Wide>(kNoLimit, (state.services[i].picoseconds + 1) * whole / part));
    }
    if (state.receiver_here) {
      state.stream = context_->builder.stream(state.per_sample);
      item(network_.streams, state.stream).flow = local;
    }
    network_.flows.push_back(std::move(state));
  }

  const Plan& plan_;
  Network network_;
  std::vector<int64_t> loads_;  // by lane
  std::unique_ptr<CompileContext> context_;
};

// At every moment some engine works, some link sends or some message is on its way, or the run is stuck: so no run lasts longer
// than all of them one after the other.
void check_horizon(const Plan& plan, const Graph& graph, const SimulationOptions& options) {
  const Wide samples = options.samples;
  Wide horizon = samples * pace_of(plan, graph).period, longest = 0;
  std::string slowest = "the ring";
  const auto add = [&](Wide picoseconds, const auto& name) {
    horizon += picoseconds;
    if (picoseconds <= longest) return;
    longest = picoseconds;
    slowest = name();
  };
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    Wide picoseconds = samples * shard.update_picoseconds;
    for (const PhaseEngine& engine : shard.phases)
      picoseconds += samples * engine.picoseconds_per_unit * units_of_plan(node, shard.unit, engine.phase);
    add(picoseconds, [&] { return fmt::format("layer \"{}\" on device {}", shard.layer, shard.device); });
  }
  for (size_t d = 0; d < options.measured.size(); ++d)
    add(samples * (Wide{4} * options.measured[d].between + options.measured[d].update),
        [&] { return fmt::format("the updates of device {} and what it does between its actions", d); });
  const std::vector<int64_t> loads = lane_loads(plan);
  for (const Flow& flow : plan.flows) {
    const Link& link = item(plan.links, flow.link);
    const Wide passes = 2 * samples + plan.mini_batch;
    const Wide elements = samples * flow.elements_per_sample + passes * flow.elements_per_pass;
    const Wide messages = samples * std::max<int64_t>({1, plan.model.input.height, plan.time_chunks}) + passes * kMessagesOfPass;
    add(elements * bits_of(flow.wire) * kPicoseconds / lane_bits_per_second(plan, flow.link, flow.direction, loads) +
            messages * (Wide{2} * link.latency_picoseconds + options.scenario.jitter_picoseconds + 2),
        [&] { return fmt::format("link {}", flow.link); });
  }
  Wide reduced = 0;
  if (options.scenario.replicas.count > 1)
    for (const int64_t bits : column_bits(plan))
      reduced += Wide{all_reduce_picoseconds(options.scenario.replicas, bits)} +
                 Wide{kMessagesOfPass} * all_reduce_picoseconds(options.scenario.replicas, 1);
  add(Wide{options.samples / plan.mini_batch + 1} * reduced, [] { return std::string("the all-reduce of the replicas"); });
  if (horizon <= (Wide{1} << 62)) return;
  // Whoever plans asks for no samples.
  const std::string_view remedy =
      options.pace_alone ? "check its rates in the catalogue and the cluster, or take a faster one" : "simulate fewer";
  fail(ErrorCode::kUsage, "{} samples could take more virtual time than 2^62 picoseconds (53 days) hold, the most of it on {}; {}",
       options.samples, slowest, remedy);
}

}  // namespace

void check_options(const Plan& plan, const Graph& graph, const SimulationOptions& options) {
  if (options.samples < 2) fail(ErrorCode::kUsage, "{} samples: a slope needs two at least", options.samples);
  if (options.samples > kMostSamples)
    fail(ErrorCode::kUsage, "{} samples are too many to simulate: {} at most; fewer --images, or a smaller --mini-batch", options.samples,
         kMostSamples);
  if (options.samples % plan.micro_batch != 0)
    fail(ErrorCode::kUsage, "{} samples are not whole micro-batches of {}; simulate {}", options.samples, plan.micro_batch,
         (options.samples / plan.micro_batch + 1) * plan.micro_batch);
  if (options.samples / plan.micro_batch < 2)
    fail(ErrorCode::kUsage, "{} samples are one micro-batch of {}: a slope needs two at least", options.samples, plan.micro_batch);
  if (options.fifo_rows < 0) fail(ErrorCode::kUsage, "a FIFO of {} rows: it holds one at least", options.fifo_rows);
  check_measured(plan, graph, options);
  check_scenario(plan, options.scenario, options.samples);
  if (!options.measured.empty() && (!options.scenario.stragglers.empty() || options.scenario.straggler_share > 0))
    fail(ErrorCode::kUsage, "measured times say already how slow each device is; leave the stragglers or the measured times out");
  check_horizon(plan_as_run(plan, options), graph, options);
}

Plan plan_as_run(const Plan& plan, const SimulationOptions& options) {
  return with_stragglers(options.measured.empty() ? plan : with_measured_times(plan, options.measured), options.scenario);
}

Network compile(const Plan& plan, const Graph& graph, const SimulationOptions& options, int64_t first_device, int64_t end_device) {
  return NetworkCompiler(plan, graph, options, first_device, end_device).compile();
}

size_t Network::bytes() const {
  size_t bytes = stations.capacity() * sizeof(Station) + inputs.capacity() * sizeof(Input) + streams.capacity() * sizeof(UnitQueue) +
                 readers.capacity() * sizeof(Reader) + lanes.capacity() * sizeof(LinkSide) + flows.capacity() * sizeof(FlowState) +
                 flow_index.capacity() * sizeof(int32_t) + act_rams.capacity() * sizeof(ActRam);
  for (const RowTable& table : tables) bytes += table.capacity() * sizeof(int32_t);
  for (const auto& schedule : schedules) bytes += schedule.capacity() * sizeof(int64_t);
  for (const FlowState& flow : flows) bytes += flow.credits.bytes() + flow.in_flight.bytes();
  for (const DeviceSchedule& schedule : device_schedules)
    bytes += schedule.actions.capacity() * sizeof(Action) + 8 * sizeof(int64_t) * schedule.forward_version.capacity();
  return bytes;
}

}  // namespace millrace::simulation
