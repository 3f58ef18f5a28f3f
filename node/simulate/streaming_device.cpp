// A device whose shards have engines of their own: FP, EB and PG of every shard side by side, row by row.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "node/simulate/compile_context.h"

namespace millrace::simulation {
namespace {

// What rows depend on: streams, and how many of their rows come before each row.
using Sources = std::map<int32_t, RowTable>;

void merge(Sources& sources, int32_t stream, const RowTable& table) {
  const auto [place, added] = sources.try_emplace(stream, table);
  if (added) return;
  for (size_t r = 0; r < table.size(); ++r) place->second[r] = std::max(place->second[r], table[r]);
}

Sources through(const RowTable& outer, const Sources& inner) {
  Sources sources;
  for (const auto& [stream, table] : inner) sources.emplace(stream, compose(outer, table));
  return sources;
}

class StreamingDevice {
 public:
  StreamingDevice(CompileContext& context, const SegmentProgram& program) : context_(context), program_(program), device_(program.device) {}

  void compile() {
    for (const Step& step : program_.steps) {
      if (step.kind == StepKind::kLoad) add_source(step);
      if (step.kind == StepKind::kCompute) add_engines(step);
    }
    for (auto& [node, engines] : engines_) connect(engines);
    for (const Step& step : program_.steps) {
      if (step.kind == StepKind::kSend && step.forward_flow >= 0)
        add_leaving_rows(step.inputs[0], step.forward_flow, forward_sources(step.inputs[0]), false);
      if (step.kind == StepKind::kReceive && step.backward_flow >= 0)
        add_leaving_rows(step.output, step.backward_flow, error_sources(step.output), true);
    }
  }

 private:
  struct Engines {
    int64_t node = 0;
    int64_t shard = -1;
    int64_t input = -1;  // values
    int64_t output = -1;
    int64_t partial_flow = -1;
    int32_t forward = -1, error_back = -1, gradient = -1;  // stations
  };

  const Graph& graph() const { return context_.graph; }
  const Value& value(int64_t index) const { return item(program_.values, index); }
  int32_t rows_of(int64_t index) const { return context_.rows.of(value(index).node); }
  Station& station(int32_t index) { return item(context_.network.stations, index); }

  void add_source(const Step& step) {
    Station source;
    source.kind = StationKind::kSource;
    source.timed = true;
    source.device = static_cast<int32_t>(device_);
    source.units = rows_of(step.output);
    source.cycles = context_.options.samples;
    if (context_.options.paced) NetworkBuilder::set_duration(source, context_.pace.period);
    source.free_at = parameters_ready();
    source_ = context_.builder.station(source, context_.builder.stream(source.units));
  }

  // Training begins when the first passes of parameters stored elsewhere have come: before that, rows would wait at one device
  // after the other, and engines that work all the time never make up for it.
  int64_t parameters_ready() const {
    const Plan& plan = context_.plan;
    const bool remote = std::any_of(plan.homes.begin(), plan.homes.end(), [](const ParameterHome& home) { return home.home != home.user; });
    if (!remote) return 0;
    int64_t latency = 0;
    for (const Link& link : plan.links) latency += link.latency_picoseconds;
    return (plan.windows.front() + 2) * plan.micro_batch * context_.pace.period + latency;
  }

  int64_t shard_of(int64_t node) const {
    for (const int64_t shard : item(context_.shards_of, device_))
      if (item(context_.plan.shards, shard).layer == graph().node(node).layer.name) return shard;
    MILLRACE_CHECK(false, "device {} computes \"{}\" without a shard", device_, graph().node(node).layer.name);
    return -1;
  }

  int32_t add_engine(const Engines& engines, Phase phase, StationKind kind, int32_t units, bool makes_rows) {
    const Shard& shard = item(context_.plan.shards, engines.shard);
    const PhaseEngine* engine = engine_of(shard, phase);
    Station station;
    station.kind = kind;
    station.timed = true;
    station.device = static_cast<int32_t>(device_);
    station.shard = static_cast<int32_t>(engines.shard);
    station.units = units;
    station.cycles = context_.options.samples;
    station.window_cycle = context_.options.samples / 2;
    if (engine != nullptr) {
      station.multipliers = engine->multipliers;
      NetworkBuilder::set_duration(station, engine->picoseconds_per_unit * units_of_plan(graph().node(engines.node), shard.unit, phase));
    }
    station.done = context_.builder.stream(1);
    return context_.builder.station(station, makes_rows ? context_.builder.stream(units) : -1);
  }

  void add_engines(const Step& step) {
    if (engines_.contains(step.node)) return;
    const Node& node = graph().node(step.node);
    Engines engines;
    engines.node = step.node;
    engines.shard = shard_of(step.node);
    engines.input = step.inputs[0];
    engines.output = step.output;
    for (const Step& other : program_.steps)
      if (other.kind == StepKind::kReceive && other.output == step.output) engines.partial_flow = other.forward_flow;
    const Shard& shard = item(context_.plan.shards, engines.shard);
    const int32_t here = context_.rows.of(step.node);
    engines.forward = add_engine(engines, Phase::kForward, StationKind::kForward, here, true);
    forward_streams_.insert(station(engines.forward).out);
    const bool error_comes = value(engines.output).error_needed;
    const bool reads_error = value(engines.input).error_needed;
    if (error_comes && (reads_error || engine_of(shard, Phase::kErrorBack) != nullptr))
      engines.error_back = add_engine(engines, Phase::kErrorBack, StationKind::kErrorBack, rows_of(engines.input), reads_error);
    if (error_comes && (node.trained || engine_of(shard, Phase::kParameterGradient) != nullptr))
      engines.gradient = add_engine(engines, Phase::kParameterGradient, StationKind::kParameterGradient, here, false);
    if (device_ == 0 && context_.network.first_of_samples < 0) context_.network.first_of_samples = engines.forward;
    engines_.emplace(step.node, engines);
  }

  const Step* step_that(StepKind kind, int64_t output) const {
    for (const Step& step : program_.steps)
      if (step.kind == kind && step.output == output) return &step;
    return nullptr;
  }

  const Sources& forward_sources(int64_t index) {
    if (const auto known = forward_.find(index); known != forward_.end()) return known->second;
    Sources sources;
    const int32_t rows = rows_of(index);
    if (const Step* compute = step_that(StepKind::kCompute, index)) {
      merge(sources, station(engines_.at(compute->node).forward).out, identity_rows(rows));
    } else if (const Step* receive = step_that(StepKind::kReceive, index)) {
      merge(sources, context_.stream_of_flow(receive->forward_flow), identity_rows(rows));
    } else if (step_that(StepKind::kLoad, index) != nullptr) {
      merge(sources, station(source_).out, identity_rows(rows));
    } else if (const Step* finish = step_that(StepKind::kFinish, index)) {
      sources = forward_sources(finish->inputs[0]);
    } else if (const Step* apply = step_that(StepKind::kApply, index)) {
      for (size_t i = 0; i < apply->inputs.size(); ++i)
        for (const auto& [stream, table] : through(forward_needs(context_.rows, apply->node, i), forward_sources(apply->inputs[i])))
          merge(sources, stream, table);
    }
    return forward_.emplace(index, std::move(sources)).first->second;
  }

  // Contributions to the error of a value, from those that read it.
  const Sources& error_sources(int64_t index) {
    if (const auto known = errors_.find(index); known != errors_.end()) return known->second;
    Sources sources;
    const int32_t rows = rows_of(index);
    for (const Step& step : program_.steps)
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i] == index) add_contribution(step, i, rows, sources);
    return errors_.emplace(index, std::move(sources)).first->second;
  }

  void add_contribution(const Step& step, size_t input, int32_t rows, Sources& sources) {
    switch (step.kind) {
      case StepKind::kReceive:
      case StepKind::kLoad:
      case StepKind::kGradient: return;
      case StepKind::kSend:
        if (step.backward_flow >= 0) merge(sources, context_.stream_of_flow(step.backward_flow), identity_rows(rows));
        return;
      case StepKind::kCompute:
        if (const int32_t engine = engines_.at(step.node).error_back; engine >= 0 && station(engine).out >= 0)
          merge(sources, station(engine).out, identity_rows(rows));
        return;
      case StepKind::kFinish:
        for (const auto& [stream, table] : error_sources(step.output)) merge(sources, stream, table);
        return;
      case StepKind::kApply: break;
    }
    if (step.node == graph().loss()) {
      // Scores become errors where they are.
      for (const auto& [stream, table] : through(turning_needs(context_.rows, step.node), forward_sources(step.inputs[input])))
        merge(sources, stream, table);
      return;
    }
    for (const auto& [stream, table] : through(backward_needs(context_.rows, step.node, input), error_sources(step.output)))
      merge(sources, stream, table);
  }

  void read_rows(int32_t index, const Sources& sources, int64_t beyond, bool reads_errors) {
    for (const auto& [stream, table] : sources) {
      Input input;
      input.stream = stream;
      input.table = context_.builder.table(table);
      input.per_cycle = item(context_.network.streams, stream).per_sample;
      // A map that comes as one piece has to be all there, unless pixels stream where rows are all there is.
      input.whole = input.per_cycle == 1 && (context_.options.fc_barrier || context_.rows.errors_descend());
      input.slack = context_.fifo(stream) + unevenness_of(table, input.per_cycle) + beyond;
      // Where ways join, one waits for the other as long as it takes.
      if (sources.size() > 1) input.slack += input.per_cycle;
      // At the loss, errors of samples that went forward early wait for the update, or for devices that do all F first.
      if (forward_streams_.contains(stream) && reads_errors) input.slack += context_.samples_ahead() * input.per_cycle;
      context_.builder.read(index, input);
    }
  }

  void read_schedule(int32_t index, int32_t stream, const std::vector<int64_t>& needs, int64_t divisor, int64_t factor, Cause cause) {
    if (needs.empty()) return;
    Input input;
    input.stream = stream;
    input.schedule = context_.builder.schedule(needs);
    input.divisor = static_cast<int32_t>(divisor);
    input.factor = static_cast<int32_t>(factor);
    input.whole = true;
    input.cause = cause;
    context_.builder.read(index, input);
  }

  void connect(Engines& engines) {
    const Node& node = graph().node(engines.node);
    const int64_t reach = reach_of(node);
    read_rows(engines.forward, through(forward_needs(context_.rows, engines.node, 0), forward_sources(engines.input)), 0, false);
    if (engines.partial_flow >= 0) {
      Sources partial;
      merge(partial, context_.stream_of_flow(engines.partial_flow), identity_rows(context_.rows.of(engines.node)));
      read_rows(engines.forward, partial, 0, false);
    }
    if (engines.error_back >= 0)
      read_rows(engines.error_back, through(backward_needs(context_.rows, engines.node, 0), error_sources(engines.output)), reach, true);
    if (engines.gradient >= 0) read_rows(engines.gradient, error_sources(engines.output), reach, true);
    add_act_ram(engines);
    if (engines.gradient < 0) return;
    context_.gradient_counts[{device_, engines.shard}] = station(engines.gradient).done;
    if (node.trained) add_update(engines);
  }

  void add_update(const Engines& engines) {
    const DeviceSchedule& schedule = context_.schedule_of(device_);
    const int64_t mu = context_.plan.micro_batch;
    Station update;
    update.kind = StationKind::kUpdate;
    update.device = static_cast<int32_t>(device_);
    update.shard = static_cast<int32_t>(engines.shard);
    if (context_.options.scenario.replicas.count > 1) update.parameters = context_.parameters_of(device_, engines.shard);
    update.cycles = static_cast<int64_t>(schedule.gradients_before.size());
    const int32_t updates = context_.builder.stream(1);
    const int32_t index = context_.builder.station(update, updates);
    read_schedule(index, station(engines.forward).done, schedule.forwards_before, 1, mu, Cause::kUpdate);
    if (engines.error_back >= 0) read_schedule(index, station(engines.error_back).done, schedule.errors_before, 1, mu, Cause::kUpdate);
    read_schedule(index, station(engines.gradient).done, schedule.gradients_before, 1, mu, Cause::kUpdate);
    read_schedule(engines.forward, updates, schedule.forward_version, mu, 1, Cause::kUpdate);
    if (engines.error_back >= 0) read_schedule(engines.error_back, updates, schedule.error_version, mu, 1, Cause::kUpdate);
    read_schedule(engines.gradient, updates, schedule.gradient_version, mu, 1, Cause::kUpdate);
  }

  void add_act_ram(const Engines& engines) {
    const Shard& shard = item(context_.plan.shards, engines.shard);
    ChannelRange held;
    for (const Block& block : shard.blocks) held = hull(held, block.inputs);
    ActRam ram;
    ram.device = static_cast<int32_t>(device_);
    ram.shard = static_cast<int32_t>(engines.shard);
    ram.forward_station = engines.forward;
    ram.rows = rows_of(engines.input);
    ram.gradient = engines.gradient >= 0;
    ram.sample_bits = held.size() * graph().shape_of(value(engines.input).node).plane() * bits_of(context_.plan.arithmetic.wire);
    ram.used_table = context_.builder.table(forward_needs(context_.rows, engines.node, 0));
    const bool until_gradient = ram.gradient;
    ram.released_table =
        context_.builder.table(released_rows(context_.rows, engines.node, until_gradient && context_.rows.errors_descend()));
    if (context_.options.act_ram > 0 && ram.sample_bits > 0) {
      const double samples = static_cast<double>(act_ram_bits_of_plan(shard)) / static_cast<double>(ram.sample_bits);
      const double rows = context_.options.act_ram * samples * ram.rows;
      // Whole rows. Full accounting counts the one being filled; FPDeep's formulas do not, so it comes on top.
      const auto whole = static_cast<int64_t>(std::min(1e15, rows * (1 + 1e-9)));
      const int64_t filled = context_.plan.accounting == Accounting::kFull ? 0 : 1;
      ram.capacity_rows = std::max<int64_t>(std::min(reach_of(graph().node(engines.node)), ram.rows), whole + filled);
    }
    const auto index = static_cast<int32_t>(context_.network.act_rams.size());
    context_.network.act_rams.push_back(ram);
    station(engines.forward).act_ram = index;
    if (until_gradient) station(engines.gradient).act_ram = index;
  }

  void add_leaving_rows(int64_t index, int64_t flow, const Sources& sources, bool errors) {
    if (sources.empty()) return;
    read_rows(add_leaving(context_, device_, flow, rows_of(index), context_.options.samples), sources, 0, errors);
  }

  CompileContext& context_;
  const SegmentProgram& program_;
  int64_t device_;
  int32_t source_ = -1;
  std::set<int32_t> forward_streams_;            // made by FP here
  std::map<int64_t, Engines> engines_;           // by node
  std::map<int64_t, Sources> forward_, errors_;  // by value
};

}  // namespace

void compile_streaming_device(CompileContext& context, const SegmentProgram& program) { StreamingDevice(context, program).compile(); }

}  // namespace millrace::simulation
