#include "node/simulate/collect.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/off_chip.h"
#include "core/plan/seats.h"
#include "node/simulate/compile_context.h"
#include "node/simulate/device_schedule.h"

namespace millrace::simulation {
namespace {

// Of the steps that an engine of streamed weights took, at what the plan says of all steps of a sample.
int64_t fetched_words(const Shard& shard, const Station& station) {
  for (const NamedAmount& amount : shard.resources)
    if (amount.name == kWeightWordsPerSample) {
      const double steps = static_cast<double>(station.cycle) * static_cast<double>(station.units) + static_cast<double>(station.unit);
      return std::llround(amount.amount * steps / static_cast<double>(station.units));
    }
  return 0;
}

void collect_stages(const Network& network, const Plan& plan, SimulationResult& result) {
  for (const Station& s : network.stations) {
    if (s.kind > StationKind::kTurns) continue;
    SimulatedStage stage;
    stage.device = s.device;
    stage.shard = s.kind == StationKind::kTurns ? -1 : s.shard;
    stage.multipliers = s.multipliers;
    if (s.kind == StationKind::kErrorBack) stage.phase = Phase::kErrorBack;
    if (s.kind == StationKind::kParameterGradient) stage.phase = Phase::kParameterGradient;
    if (s.kind == StationKind::kForward) stage.weight_words = fetched_words(item(plan.shards, s.shard), s);
    stage.busy = s.busy - s.window_busy;
    stage.window = s.window_end - s.window_start;
    for (size_t c = 0; c < kCauses; ++c) stage.waited[c] = s.waited[c] - s.window_waited[c];
    result.stages.push_back(stage);
  }
}

void collect_memory(const Network& network, const Plan& plan, SimulationResult& result) {
  for (int64_t d = network.first_device; d < network.end_device; ++d) {
    SimulatedDevice device;
    device.index = d;
    result.devices.push_back(device);
  }
  const auto device_of = [&](int64_t d) -> SimulatedDevice& { return item(result.devices, d - network.first_device); };
  for (const ActRam& ram : network.act_rams) {
    const Shard& shard = item(plan.shards, ram.shard);
    const int64_t plan_bits = act_ram_bits_of_plan(shard);
    const auto peak_bits = static_cast<int64_t>(std::ceil(ram.peak_rows * static_cast<double>(ram.sample_bits) / ram.rows));
    result.shards.push_back({ram.shard, peak_bits, plan_bits});
    device_of(ram.device).act_ram_peak_bits += peak_bits;
    device_of(ram.device).act_ram_plan_bits += plan_bits;
  }
  for (const Station& s : network.stations) {
    if (s.turns < 0) continue;
    const Turns& turns = item(network.turns, s.turns);
    for (size_t m = 0; m < turns.updated.size(); ++m) result.updates.push_back({s.device, static_cast<int64_t>(m), turns.updated[m]});
    device_of(s.device).act_ram_plan_bits = turns.act_bits_held;
    const int64_t each = (turns.act_bits_held - turns.act_bits_shared) / turns.held;
    device_of(s.device).act_ram_peak_bits = each * turns.peak_in_flight + turns.act_bits_shared;
  }
  for (const UnitQueue& stream : network.streams) {
    if (stream.flow < 0 || stream.peak_waiting <= 0) continue;
    const FlowState& state = item(network.flows, stream.flow);
    const Flow& flow = item(plan.flows, state.plan_flow);
    const Link& link = item(plan.links, flow.link);
    const int64_t largest = state.bits + (state.larger > 0 ? state.more_bits : 0);
    device_of(flow.direction == Direction::kForward ? link.to : link.from).fifo_peak_bits += stream.peak_waiting * largest;
  }
}

void append(SimulationResult& all, SimulationResult&& block) {
  const auto join = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  join(all.devices, block.devices);
  join(all.flows, block.flows);
  join(all.stages, block.stages);
  join(all.shards, block.shards);
  join(all.trace, block.trace);
  join(all.updates, block.updates);
  join(all.ranks, block.ranks);
  for (size_t l = 0; l < block.links.size(); ++l) {
    all.links[l].forward_bits += block.links[l].forward_bits;
    all.links[l].backward_bits += block.links[l].backward_bits;
  }
  for (size_t s = 0; s < block.finished.size(); ++s) {
    all.finished[s] = std::max(all.finished[s], block.finished[s]);
    all.begun[s] = std::max(all.begun[s], block.begun[s]);
  }
  all.events += block.events;
  all.state_bytes += block.state_bytes;
}

// Samples [first, last) of the steady part: the second half, in whole mini-batches where there are two or more.
struct Steady {
  int64_t first = 0, last = 0;
};
Steady steady_part(const Plan& plan, int64_t samples) {
  Steady steady{samples / 2, samples};
  const int64_t batch = samples >= 2 * plan.mini_batch ? plan.mini_batch : plan.micro_batch;
  steady.last = samples / batch * batch;
  steady.first = std::max(batch, samples / 2 / batch * batch);
  return steady;
}

void find_rates(const Plan& plan, SimulationResult& result) {
  for (size_t s = 1; s < result.finished.size(); ++s) result.finished[s] = std::max(result.finished[s], result.finished[s - 1]);
  const Steady steady = steady_part(plan, result.samples);
  const int64_t begin = item(result.finished, steady.first - 1);
  const int64_t end = item(result.finished, steady.last - 1);
  if (end > begin) result.images_per_second = 1e12 * static_cast<double>(steady.last - steady.first) / static_cast<double>(end - begin);
  // Of a ring that runs ahead the second half ends faster than it goes on: nothing goes forward behind it.
  if (mini_batches_of_window_behind(plan, result) > 0) result.images_per_second = mini_batch_rate(plan, result);
  result.picoseconds = result.finished.back();
  result.fill_picoseconds = result.finished.front() - result.begun.front();
  size_t gone = 0;
  for (int64_t s = steady.first; s < steady.last; ++s) {
    const int64_t now = item(result.begun, s);
    while (gone < result.finished.size() && result.finished[gone] <= now) ++gone;
    auto begun = static_cast<int64_t>(std::upper_bound(result.begun.begin(), result.begun.end(), now) - result.begun.begin());
    result.in_flight_samples = std::max(result.in_flight_samples, begun - static_cast<int64_t>(gone));
  }
}

// The ring's by card, as the plan counts it: a card computes for one of its places at a time.
void find_idle(const Plan& plan, SimulationResult& result) {
  std::vector<double> weights(result.devices.size());
  for (const SimulatedStage& stage : result.stages) {
    const double engines = stage.shard < 0 ? 1 : static_cast<double>(stage.multipliers);
    const double window = static_cast<double>(stage.window) * engines;
    if (window <= 0) continue;
    SimulatedDevice& device = item(result.devices, stage.device);
    item(weights, stage.device) += window;
    device.idle.input += engines * static_cast<double>(stage.waited[0]);
    device.idle.output += engines * static_cast<double>(stage.waited[1]);
    device.idle.parameters += engines * static_cast<double>(stage.waited[2]);
    device.idle.update += engines * static_cast<double>(stage.waited[3]);
    device.idle.core += engines * static_cast<double>(stage.waited[4]);
    device.idle_fraction += engines * static_cast<double>(stage.window - stage.busy);
  }
  for (SimulatedDevice& device : result.devices) {
    const double weight = item(weights, device.index);
    if (weight <= 0) {
      device.idle_fraction = 1;
    } else {
      for (double* share : {&device.idle.input, &device.idle.output, &device.idle.parameters, &device.idle.update, &device.idle.core,
                            &device.idle_fraction})
        *share /= weight;
    }
  }
  const std::vector<int64_t> seats = seats_of(plan.cluster);
  std::vector<double> busy(to_size(*std::ranges::max_element(seats) + 1));
  for (const SimulatedDevice& device : result.devices) item(busy, item(seats, device.index)) += 1 - device.idle_fraction;
  for (const double share : busy) result.idle_fraction += std::max(0.0, 1 - share) / static_cast<double>(busy.size());
}

// What a whole mini-batch moves, per image: samples as they are, and the passes that belong to it.
void find_link_loads(const Plan& plan, SimulationResult& result) {
  std::map<std::pair<int64_t, bool>, double> passes;  // by window, and whether every F and E loads
  const auto passes_of = [&](int64_t device) {
    const ScheduleSpec spec = schedule_spec(plan, device, 0);
    const auto [place, added] = passes.try_emplace({spec.window, spec.loads_every_pass}, 0);
    if (added) place->second = passes_per_mini_batch(device_schedule(spec, result.samples / plan.micro_batch, false));
    return place->second;
  };
  const std::vector<int64_t> loads = lane_loads(plan);
  std::vector<std::array<double, 2>> per_batch(plan.links.size());
  const auto batch = static_cast<double>(plan.mini_batch);
  for (const SimulatedFlow& moved : result.flows) {
    const Flow& flow = item(plan.flows, moved.flow);
    const auto bits = static_cast<double>(bits_of(flow.wire));
    double elements = 0;
    if (flow.stream == Stream::kGradient) {
      elements = static_cast<double>(flow.elements_per_pass) * static_cast<double>(plan.micro_batches());
    } else if (flow.stream == Stream::kParameter) {
      elements = static_cast<double>(flow.elements_per_pass) * passes_of(user_of(flow, plan));
    } else {
      elements = static_cast<double>(moved.elements / result.samples) * batch;
    }
    item(per_batch, flow.link)[flow.direction == Direction::kForward ? 0 : 1] += elements * bits;
  }
  for (size_t l = 0; l < plan.links.size(); ++l) {
    SimulatedLink& link = result.links[l];
    link.forward_bits_per_image = per_batch[l][0] / batch;
    link.backward_bits_per_image = per_batch[l][1] / batch;
    const auto index = static_cast<int64_t>(l);
    const auto use = [&](double bits, Direction direction) {
      return bits * result.images_per_second / static_cast<double>(lane_bits_per_second(plan, index, direction, loads));
    };
    link.utilisation =
        std::max(use(link.forward_bits_per_image, Direction::kForward), use(link.backward_bits_per_image, Direction::kBackward));
  }
}

}  // namespace

SimulationResult collect(Engine& engine, const Network& network, const Plan& plan) {
  SimulationResult result;
  result.samples = network.samples;
  collect_stages(network, plan, result);
  collect_memory(network, plan, result);
  for (const Link& link : plan.links) {
    result.links.emplace_back();
    result.links.back().from = link.from;
    result.links.back().to = link.to;
  }
  for (const FlowState& state : network.flows) {
    if (!state.sender_here) continue;
    const Flow& flow = item(plan.flows, state.plan_flow);
    MILLRACE_CHECK(state.sent % state.per_sample == 0, "flow {} ends amid a sample", state.plan_flow);
    const int64_t wholes = state.sent / state.per_sample;
    const int64_t elements = wholes * (network.messages_per_micro_batch ? elements_of_message(flow, plan) : elements_at_once(flow));
    result.flows.push_back({state.plan_flow, state.sent, elements});
    SimulatedLink& link = item(result.links, flow.link);
    (flow.direction == Direction::kForward ? link.forward_bits : link.backward_bits) +=
        wholes * (state.per_sample * state.bits + state.larger * state.more_bits);
  }
  result.begun = engine.begun();
  result.finished = engine.finished();
  result.events = engine.events();
  result.state_bytes = static_cast<int64_t>(engine.bytes());
  result.trace = std::move(engine.trace());
  return result;
}

SimulationResult combine(const Plan& plan, const Graph&, std::vector<SimulationResult> blocks) {
  MILLRACE_CHECK(!blocks.empty(), "no blocks to combine");
  SimulationResult all = std::move(blocks.front());
  for (size_t b = 1; b < blocks.size(); ++b) append(all, std::move(blocks[b]));
  std::sort(all.flows.begin(), all.flows.end(), [](const auto& a, const auto& b) { return a.flow < b.flow; });
  std::sort(all.trace.begin(), all.trace.end());
  find_rates(plan, all);
  find_idle(plan, all);
  find_link_loads(plan, all);
  return all;
}

}  // namespace millrace::simulation
