// A device whose shards take turns, CPU or GPU: the schedule's list of actions, a micro-batch or a chunk of its time at a time.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/credits.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/recomputation.h"
#include "core/plan/retention.h"
#include "core/plan/seats.h"
#include "node/simulate/compile_context.h"

namespace millrace::simulation {
namespace {

// Picoseconds of a micro-batch, of one phase.
int64_t of_micro_batch(const CompileContext& context, int64_t device, Phase phase, int64_t of_sample) {
  int64_t product = 0;
  if (__builtin_mul_overflow(of_sample, context.plan.micro_batch, &product) || product > kNoLimit)
    fail(ErrorCode::kMismatch, "device {} would need {} ps for a sample in {}: too long to be simulated", device, of_sample,
         name_of(phase));
  return product;
}

int64_t picoseconds_of(const CompileContext& context, int64_t device, Phase phase, bool shared_alone = false) {
  int64_t sum = 0;
  for (const int64_t index : item(context.shards_of, device)) {
    const Shard& shard = item(context.plan.shards, index);
    if (shared_alone && shard.units.empty()) continue;
    const Node& node = context.graph.node(context.graph.index_of(shard.layer));
    if (const PhaseEngine* engine = engine_of(shard, phase)) sum += engine->picoseconds_per_unit * units_of_plan(node, shard.unit, phase);
  }
  return of_micro_batch(context, device, phase, sum);
}

// Whole picoseconds, which add up to all of them.
int64_t share_of(int64_t picoseconds, int64_t begin, int64_t end, int64_t of) {
  __extension__ using Wide = __int128;
  return static_cast<int64_t>(static_cast<Wide>(picoseconds) * end / of - static_cast<Wide>(picoseconds) * begin / of);
}

class SequentialDevice {
 public:
  SequentialDevice(CompileContext& context, const SegmentProgram& program)
      : context_(context),
        program_(program),
        device_(program.device),
        chunks_(context.plan.time_chunks),
        streams_(context.chunking.steps(program)),
        shared_(shared_step_of(program)) {}

  void compile() {
    add_station();
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind == StepKind::kReceive) {
        if (step.forward_flow >= 0) read_flow(step.forward_flow, i, true);
        if (step.backward_flow >= 0) leave(step.backward_flow, i, false);
      }
      if (step.kind == StepKind::kSend) {
        if (step.forward_flow >= 0) leave(step.forward_flow, i, true);
        if (step.backward_flow >= 0) read_flow(step.backward_flow, i, false);
      }
    }
    if (shared_ < 0) return;
    const Step& steps = item(program_.steps, shared_);
    share(steps.states, true);
    share(steps.errors, false);
  }

 private:
  void add_station() {
    const int32_t gradient_out = context_.builder.stream(1);
    const DeviceSchedule& schedule = context_.schedule_of(device_);
    Turns turns;
    turns.schedule = context_.schedule_index(device_);
    turns.chunks = chunks_;
    turns.forward.durations = durations_of(Phase::kForward);
    turns.back.durations = durations_of(Phase::kErrorBack);
    turns.gradient = picoseconds_of(context_, device_, Phase::kParameterGradient);
    for (TurnWay* way : {&turns.forward, &turns.back}) way->out = context_.builder.stream(static_cast<int32_t>(chunks_));
    turns.gradient_out = gradient_out;
    for (const int64_t shard : item(context_.shards_of, device_)) turns.update += item(context_.plan.shards, shard).update_picoseconds;
    if (!context_.options.measured.empty()) {
      const MeasuredActions& measured = item(context_.options.measured, device_);
      turns.forward.durations = {measured.forward + measured.between};
      turns.back.durations = {measured.error_back + measured.between};
      turns.gradient = measured.parameter_gradient + measured.between;
      turns.update = measured.update + measured.between;
    }
    // A place without work takes no time of its card's: it would wait for it behind places that always can go on.
    const bool works = all(turns.forward) + all(turns.back) + turns.gradient + turns.update > 0;
    if (!context_.network.ranks.empty() && works) turns.rank = static_cast<int32_t>(context_.rank_of(device_));
    turns.keeps_card = chunks_ > 1 && folds(context_.plan.cluster) && card_loads();
    turns.held = micro_batches_held(schedule_spec(context_.plan, device_, 1));
    for (const int64_t shard : item(context_.shards_of, device_)) turns.act_bits_held += item(context_.plan.shards, shard).act_ram_bits;
    const double shared_bytes = figures_of_recomputation(context_.plan, context_.graph, device_).bytes_shared;
    turns.act_bits_shared = std::min<int64_t>(std::llround(8 * shared_bytes), turns.act_bits_held);
    Station station;
    station.kind = StationKind::kTurns;
    station.timed = true;
    station.device = static_cast<int32_t>(device_);
    station.cycles = static_cast<int64_t>(schedule.actions.size());
    station.window_cycle = station.cycles / 2;
    station.turns = static_cast<int32_t>(context_.network.turns.size());
    std::vector<int32_t> outs = {turns.forward.out, turns.back.out, gradient_out};
    if (shared_ >= 0) {
      const Step& steps = item(program_.steps, shared_);
      turns.rows_of_step = std::ssize(steps.states);
      turns.rows = turns.rows_of_step * sum_shape(context_.graph.node(steps.node)).plane();
      for (TurnWay* way : {&turns.forward, &turns.back}) {
        const Phase phase = way == &turns.forward ? Phase::kForward : Phase::kErrorBack;
        const bool measured = !context_.options.measured.empty();
        way->shared = measured ? whole_chunk(*way, phase == Phase::kForward) : picoseconds_of(context_, device_, phase, true);
        way->row = context_.builder.stream(static_cast<int32_t>(turns.rows));
        way->early = context_.builder.stream(static_cast<int32_t>(chunks_));
        outs.push_back(way->row);
        outs.push_back(way->early);
      }
    }
    context_.network.turns.push_back(std::move(turns));
    station_ = context_.builder.station(station, -1);
    for (const int32_t out : outs) item(context_.network.streams, out).producer = station_;
    if (device_ == 0) context_.network.first_of_samples = station_;
    context_.gradient_counts[{device_, -1}] = gradient_out;
  }

  // All that this place's card does are steps whose weights are loaded for every F and E.
  bool card_loads() const {
    const std::vector<int64_t> seats = seats_of(context_.plan.cluster);
    for (int64_t device = 0; device < context_.plan.devices(); ++device)
      if (item(seats, device) == item(seats, device_) && !loads_every_pass(context_.plan, device) &&
          std::ranges::any_of(context_.plan.shards, [&](const Shard& shard) { return shard.device == device; }))
        return false;
    return true;
  }

  static int64_t all(const TurnWay& way) { return std::accumulate(way.durations.begin(), way.durations.end(), int64_t{0}); }
  static int64_t whole_chunk(const TurnWay& way, bool forward) { return forward ? way.durations.back() : way.durations.front(); }

  // The chunk's place among those of its action: F takes them from the first on, E from the last.
  int64_t place_of(int64_t chunk, bool forward) const { return forward ? chunk : chunks_ - 1 - chunk; }

  // Picoseconds of a micro-batch, chunk by chunk as they are taken.
  std::vector<int64_t> durations_of(Phase phase) const {
    const bool forward = phase == Phase::kForward;
    if (chunks_ == 1) return {picoseconds_of(context_, device_, phase)};
    std::vector<int64_t> durations(to_size(chunks_), 0);
    int64_t streamed = 0;
    const std::set<std::string> chunked = context_.chunking.layers(program_);  // with what follows them on their owner
    for (const int64_t index : item(context_.shards_of, device_)) {
      const Shard& shard = item(context_.plan.shards, index);
      const Node& node = context_.graph.node(context_.graph.index_of(shard.layer));
      const PhaseEngine* engine = engine_of(shard, phase);
      if (engine == nullptr || !chunked.contains(shard.layer)) continue;
      const int64_t of_sample = engine->picoseconds_per_unit * units_of_plan(node, shard.unit, phase);
      const int64_t picoseconds = of_micro_batch(context_, device_, phase, of_sample);
      const int64_t steps = node.output.height;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk)
        item(durations, place_of(chunk, forward)) += share_of(picoseconds, steps * chunk / chunks_, steps * (chunk + 1) / chunks_, steps);
      streamed += picoseconds;
    }
    (forward ? durations.back() : durations.front()) += picoseconds_of(context_, device_, phase) - streamed;
    return durations;
  }

  bool fetches(int64_t device) const { return context_.options.pair.chunks_fetched > 0 && loads_every_pass(context_.plan, device); }

  // Messages of a micro-batch.
  int32_t messages_of(int64_t flow) const {
    const int32_t messages = context_.messages_of(flow);
    return context_.pace.streams ? messages * static_cast<int32_t>(context_.plan.micro_batch) : messages;
  }

  // Of a flow that passes chunk by chunk: messages up to the end of each chunk, as they are taken, behind so many of other samples.
  RowTable messages_by_chunk(int64_t flow, bool forward, int64_t behind) const {
    const int64_t rows = context_.messages_of(flow);
    RowTable table;
    for (int64_t place = 0; place < chunks_; ++place) {
      const int64_t chunk = place_of(place, forward);
      const int64_t of_sample = forward ? rows * (chunk + 1) / chunks_ : rows - rows * chunk / chunks_;
      table.push_back(static_cast<int32_t>(behind + of_sample));
    }
    return table;
  }

  void read_flow(int64_t flow, size_t step, bool forward) {
    const bool chunked = chunks_ > 1 && streams_[step];
    Input input;
    input.stream = context_.stream_of_flow(flow);
    input.per_cycle = messages_of(flow);
    // Where messages are rows, sample follows sample: a chunk takes rows of all of them.
    const int64_t behind = input.per_cycle - context_.messages_of(flow);
    input.table = context_.builder.table(chunked ? messages_by_chunk(flow, forward, behind) : RowTable{input.per_cycle});
    input.whole = true;
    input.slack = input.per_cycle;
    // As many messages lie unread as the trainer has room for.
    if (!context_.pace.streams) input.slack = messages_ahead(context_.plan, item(context_.plan.flows, flow)) * int64_t{input.per_cycle} - 1;
    if (chunked && fetches(device_)) input.slack = context_.options.pair.chunks_fetched - 1;
    if (chunked || chunks_ == 1)
      input.base = forward ? kOfForward : kOfError;
    else
      input.base = forward ? kAtOnceOfForward : kAtOnceOfError;
    context_.builder.read(station_, input);
  }

  // The rows that the others make and that this one passes on, and its own.
  void share(const std::vector<StateFlows>& flows, bool forward) {
    const int64_t rows_of_step = std::ssize(flows);
    for (int64_t place = 0; place < rows_of_step; ++place) share(item(flows, place), forward, place, rows_of_step);
  }
  void share(const StateFlows& flows, bool forward, int64_t place, int64_t rows_of_step) {
    const int32_t own = context_.network.turns.back().way(forward).row;
    for (const int64_t flow : flows.in) {
      const int32_t rows = messages_of(flow);
      Input input = row_of(context_.stream_of_flow(flow), rows, 0, 1);
      if (const int64_t next = passed_on(item(context_.plan.flows, flow)); next >= 0)
        context_.builder.read(add_leaving(context_, device_, next, rows, context_.micro_batches), input);
      // Of the steps before: none for the first.
      input.table = context_.builder.table({0});
      input.base = place == 0 ? (forward ? kRowOfForward : kRowOfError) : forward ? kSecondRowOfForward : kSecondRowOfError;
      context_.builder.read(station_, input);
    }
    for (const int64_t flow : flows.out) {
      const int32_t rows = messages_of(flow);
      const Input input = row_of(own, rows, static_cast<int32_t>(place), static_cast<int32_t>(rows_of_step));
      context_.builder.read(add_leaving(context_, device_, flow, rows, context_.micro_batches), input);
    }
  }
  // One of so many units of the stream, at that place among them.
  Input row_of(int32_t stream, int32_t rows, int32_t place, int32_t of) {
    Input input;
    input.stream = stream;
    RowTable made = identity_rows(rows);
    for (int32_t& row : made) row = (row - 1) * of + place + 1;
    input.table = context_.builder.table(made);
    input.per_cycle = rows * of;
    input.whole = true;
    input.slack = kFewestCredits * of;  // who is a step behind holds the others back
    return input;
  }
  // The same rows on the next link; -1: they end here.
  int64_t passed_on(const Flow& arriving) const {
    const int64_t link = arriving.direction == Direction::kForward ? device_ : device_ - 1;
    for (size_t f = 0; f < context_.plan.flows.size(); ++f) {
      const Flow& flow = context_.plan.flows[f];
      if (flow.link == link && flow.direction == arriving.direction && flow.stream == Stream::kState && flow.tensor == arriving.tensor &&
          flow.channels == arriving.channels)
        return static_cast<int64_t>(f);
    }
    return -1;
  }

  void leave(int64_t flow, size_t step, bool forward) {
    TurnWay& way = context_.network.turns.back().way(forward);
    const bool early = shared_ >= 0 && crosses_first(program_, static_cast<int64_t>(step), forward);
    const bool chunked = chunks_ > 1 && streams_[step];
    const int32_t messages = messages_of(flow);
    // What takes sequences whole is made with the last chunk of F, and the first that E takes.
    RowTable chunks_before(to_size(messages), static_cast<int32_t>(forward ? chunks_ : 1));
    if (chunked) {
      const RowTable made = messages_by_chunk(flow, forward, 0);
      chunks_before.assign(to_size(messages), static_cast<int32_t>(chunks_));  // samples behind the first wait for all of it
      for (int32_t m = 0; m < made.back(); ++m)
        item(chunks_before, m) = static_cast<int32_t>(1 + (std::ranges::upper_bound(made, m) - made.begin()));
    }
    Input input;
    input.stream = early ? way.early : way.out;
    input.table = context_.builder.table(chunks_before);
    input.per_cycle = static_cast<int32_t>(chunks_);
    input.whole = true;
    input.slack = chunks_;
    context_.builder.read(add_leaving(context_, device_, flow, messages, context_.micro_batches), input);
    if (context_.pace.streams) return;
    const int64_t link = item(context_.plan.flows, flow).link;
    if (chunked && fetches(forward ? link + 1 : link)) return;  // it acts whether or not there is room over there
    const int32_t local = context_.local_flow(flow);
    item(context_.network.flows, local).taker = station_;
    (early ? way.early_flows : way.flows).push_back(local);
    if (chunked) (early ? way.early_chunk_flows : way.chunk_flows).push_back(local);
  }

  CompileContext& context_;
  const SegmentProgram& program_;
  int64_t device_;
  int64_t chunks_;             // of time
  std::vector<bool> streams_;  // by step: it runs with every chunk
  int64_t shared_;             // the step that makes steps which devices share; -1: none
  int32_t station_ = -1;
};

}  // namespace

void compile_sequential_device(CompileContext& context, const SegmentProgram& program) { SequentialDevice(context, program).compile(); }

}  // namespace millrace::simulation
