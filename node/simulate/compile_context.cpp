#include "node/simulate/compile_context.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/seats.h"
#include "node/simulate/device_schedule.h"
#include "transport/streams/ring_layout.h"

namespace millrace::simulation {
namespace {

__extension__ using Wide = __int128;

int64_t checked_product(int64_t a, int64_t b, const Shard& shard) {
  int64_t product = 0;
  if (a < 0 || __builtin_mul_overflow(a, b, &product) || product > kNoLimit)
    fail(ErrorCode::kMismatch,
         "shard of \"{}\" on device {}: {} ps for each of {} units of a sample is no time that can be simulated; check the "
         "rates of the device in the catalogue",
         shard.layer, shard.device, a, b);
  return product;
}

}  // namespace

int64_t units_of_plan(const Node& node, StreamingUnit unit, Phase phase) {
  if (unit == StreamingUnit::kSample) return 1;
  return phase == Phase::kErrorBack ? node.input_shapes[0].height : node.output.height;
}

int64_t act_ram_bits_of_plan(const Shard& shard) {
  for (const NamedAmount& buffer : shard.buffers)
    if (buffer.name == "act_ram") return static_cast<int64_t>(std::clamp(buffer.amount, 0.0, 1e18));
  return shard.act_ram_bits;
}

const PhaseEngine* engine_of(const Shard& shard, Phase phase) {
  for (const PhaseEngine& engine : shard.phases)
    if (engine.phase == phase) return &engine;
  return nullptr;
}

int64_t lane_bits_per_second(const Plan& plan, int64_t link, Direction direction, const std::vector<int64_t>& load) {
  const Link& own = item(plan.links, link);
  const bool forward = direction == Direction::kForward;
  const int64_t speed = forward ? own.forward_bits_per_second : own.backward_bits_per_second;
  if (own.shared_bits_per_second <= 0) return speed;
  const int64_t ahead = item(load, 2 * link);
  const int64_t back = item(load, 2 * link + 1);
  if (ahead + back == 0) return std::min(speed, own.shared_bits_per_second);
  const Wide part = static_cast<Wide>(own.shared_bits_per_second) * (forward ? ahead : back) / (static_cast<Wide>(ahead) + back);
  return std::max<int64_t>(1, std::min<int64_t>(speed, static_cast<int64_t>(part)));
}

PlanPace pace_of(const Plan& plan, const Graph& graph) {
  PlanPace pace;
  if (graph.loss() < 0) fail(ErrorCode::kMismatch, "model \"{}\" has no loss layer, so no error ever comes back; add one", plan.model.name);
  std::vector<int64_t> taking_turns(to_size(plan.devices()));
  std::vector<int64_t> side_by_side(taking_turns);
  std::vector<int64_t> engines(taking_turns);
  for (const Shard& shard : plan.shards) {
    const auto device = to_size(shard.device);
    const Node& node = graph.node(graph.index_of(shard.layer));
    for (const PhaseEngine& engine : shard.phases) {
      const int64_t time = checked_product(engine.picoseconds_per_unit, units_of_plan(node, shard.unit, engine.phase), shard);
      if (engine.multipliers > 0) {
        ++engines[device];
        side_by_side[device] = std::max(side_by_side[device], time);
      } else {
        taking_turns[device] = checked_product(taking_turns[device] + time, 1, shard);
      }
    }
  }
  bool timed = false;
  const std::vector<int64_t> seats = seats_of(plan.cluster), cables = cables_of(plan.cluster);
  std::vector<int64_t> of_seat(engines.size());
  for (size_t d = 0; d < engines.size(); ++d) {
    if (engines[d] > 0 && taking_turns[d] > 0)
      fail(ErrorCode::kMismatch, "device {} has shards with engines of their own and shards that take turns; it must be one or the other",
           d);
    pace.streams = pace.streams || engines[d] > 0;
    timed = timed || engines[d] > 0 || taking_turns[d] > 0;
    item(of_seat, seats[d]) += taking_turns[d];
    pace.period = std::max({pace.period, item(of_seat, seats[d]), side_by_side[d]});
  }
  if (!timed)
    fail(ErrorCode::kMismatch, "the plan carries no engine times, so nothing can be said about its speed; plan it with millrace plan");
  for (size_t d = 0; d < engines.size(); ++d) pace.turns.push_back(taking_turns[d] > 0 || !pace.streams);
  const std::vector<int64_t> loads = lane_loads(plan);
  std::vector<Wide> on_cable(loads.size());
  for (size_t lane = 0; lane < loads.size(); ++lane) item(on_cable, cables[lane]) += loads[lane];
  for (size_t lane = 0; lane < loads.size(); ++lane) {
    const int64_t speed =
        lane_bits_per_second(plan, static_cast<int64_t>(lane / 2), lane % 2 == 0 ? Direction::kForward : Direction::kBackward, loads);
    const Wide time = item(on_cable, cables[lane]) * kPicoseconds / speed / plan.mini_batch;
    if (time > kNoLimit)
      fail(ErrorCode::kMismatch, "link {} would need more than {} s for a sample; it is too slow to be simulated", lane / 2,
           kNoLimit / kPicoseconds);
    pace.period = std::max(pace.period, static_cast<int64_t>(time));
  }
  return pace;
}

CompileContext::CompileContext(const Plan& the_plan, const Graph& the_graph, const SimulationOptions& the_options, Network& the_network)
    : plan(the_plan),
      graph(the_graph),
      options(the_options),
      network(the_network),
      builder(the_network),
      rows(the_graph, the_options.fc_barrier),
      pace(pace_of(the_plan, the_graph)),
      chunking(the_plan, the_graph),
      micro_batches(the_options.samples / the_plan.micro_batch),
      shards_of(to_size(the_plan.devices())) {
  for (size_t s = 0; s < plan.shards.size(); ++s) item(shards_of, plan.shards[s].device).push_back(static_cast<int64_t>(s));
}

int32_t CompileContext::schedule_index(int64_t device) {
  const bool side_by_side = !item(pace.turns, device);
  const ScheduleSpec spec = schedule_spec(plan, device, 0);
  const auto [place, added] =
      schedules_.try_emplace({spec.window, side_by_side, spec.loads_every_pass}, static_cast<int32_t>(network.device_schedules.size()));
  if (added) network.device_schedules.push_back(device_schedule(spec, micro_batches, side_by_side));
  return place->second;
}

int64_t CompileContext::rank_of(int64_t device) const {
  if (folds(plan.cluster)) return item(seats_of(plan.cluster), device);
  if (!options.trainer_rank_of.empty()) return item(options.trainer_rank_of, device);
  return ring_layout(plan.devices(), options.trainer_ranks > 0 ? options.trainer_ranks : plan.devices()).rank_of(device);
}

int32_t CompileContext::messages_of(int64_t flow) const {
  const FlowTensor tensor = tensor_of(graph, item(plan.flows, flow));
  if (tensor.state) return static_cast<int32_t>(sum_shape(graph.node(tensor.node)).plane());
  if (pace.streams) return rows.of(tensor.node);
  return chunking.flow(flow) ? static_cast<int32_t>(plan.time_chunks) : 1;
}

int64_t CompileContext::steps_of_chunks(int64_t flow) const {
  if (pace.streams || !chunking.flow(flow)) return 0;
  return graph.shape_of(tensor_of(graph, item(plan.flows, flow)).node).height;
}

int32_t CompileContext::stream_of_flow(int64_t flow) const {
  const int32_t local = local_flow(flow);
  MILLRACE_CHECK(local >= 0 && item(network.flows, local).stream >= 0, "flow {} does not end in this block", flow);
  return item(network.flows, local).stream;
}

int64_t CompileContext::shard_of(const ParameterHome& home) const {
  const Node& node = graph.node(graph.index_of(home.layer));
  const std::string& head = graph.node(item(graph.groups(), node.group).head).layer.name;
  for (const int64_t shard : item(shards_of, home.user))
    if (item(plan.shards, shard).layer == head) return shard;
  return -1;
}

int64_t CompileContext::parameters_of(int64_t device, int64_t shard) const {
  int64_t count = 0;
  for (const ParameterHome& home : plan.homes)
    if (home.home == device && home.user == device && (shard < 0 || shard_of(home) == shard)) count += home.count;
  return count;
}

int64_t CompileContext::fifo(int32_t stream) const {
  if (options.fifo_rows > 0) return options.fifo_rows;
  const UnitQueue& read = item(network.streams, stream);
  if (read.flow < 0 || pace.period == 0) return 2;
  // A credit comes back after twice the latency: until then rows go on arriving at the pipeline's pace.
  const int64_t latency = item(network.flows, read.flow).latency;
  const Wide way = static_cast<Wide>(2) * latency + options.scenario.jitter_picoseconds;
  const Wide rows_on_the_way = (way * read.per_sample + pace.period - 1) / pace.period;
  return 2 + static_cast<int64_t>(std::min<Wide>(rows_on_the_way, int64_t{1} << 20));
}

int64_t CompileContext::samples_ahead() const {
  const bool some_turn = std::find(pace.turns.begin(), pace.turns.end(), true) != pace.turns.end();
  const bool all_forward_first = plan.alignment == Alignment::kFlush && some_turn;
  return plan.micro_batch * (all_forward_first ? plan.micro_batches() : plan.windows.front());
}

int32_t add_leaving(CompileContext& context, int64_t device, int64_t plan_flow, int32_t units, int64_t cycles) {
  Station leaving;
  leaving.kind = StationKind::kLeaving;
  leaving.device = static_cast<int32_t>(device);
  leaving.units = units;
  leaving.cycles = cycles;
  leaving.flow = context.local_flow(plan_flow);
  const int32_t station = context.builder.station(leaving, -1);
  item(context.network.flows, leaving.flow).sender = station;
  return station;
}

}  // namespace millrace::simulation
