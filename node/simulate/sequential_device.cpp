// A device whose shards take turns, CPU or GPU: the schedule's list of actions, a micro-batch at a time.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/credits.h"
#include "core/plan/flows.h"
#include "core/plan/recomputation.h"
#include "node/simulate/compile_context.h"

namespace millrace::simulation {
namespace {

int64_t picoseconds_of(const CompileContext& context, int64_t device, Phase phase, bool shared_alone = false) {
  int64_t sum = 0;
  for (const int64_t index : item(context.shards_of, device)) {
    const Shard& shard = item(context.plan.shards, index);
    if (shared_alone && shard.units.empty()) continue;
    const Node& node = context.graph.node(context.graph.index_of(shard.layer));
    if (const PhaseEngine* engine = engine_of(shard, phase)) sum += engine->picoseconds_per_unit * units_of_plan(node, shard.unit, phase);
  }
  int64_t product = 0;
  if (__builtin_mul_overflow(sum, context.plan.micro_batch, &product) || product > kNoLimit)
    fail(ErrorCode::kMismatch, "device {} would need {} ps for a sample in {}: too long to be simulated", device, sum, name_of(phase));
  return product;
}

class SequentialDevice {
 public:
  SequentialDevice(CompileContext& context, const SegmentProgram& program)
      : context_(context), program_(program), device_(program.device), shared_(shared_step_of(program)) {}

  void compile() {
    add_station();
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind == StepKind::kReceive) {
        if (step.forward_flow >= 0) read_flow(step.forward_flow, false);
        if (step.backward_flow >= 0) leave(step.backward_flow, i, false);
      }
      if (step.kind == StepKind::kSend) {
        if (step.forward_flow >= 0) leave(step.forward_flow, i, true);
        if (step.backward_flow >= 0) read_flow(step.backward_flow, true);
      }
    }
    if (shared_ < 0) return;
    const Step& steps = item(program_.steps, shared_);
    share(steps.states, true);
    share(steps.errors, false);
  }

 private:
  void add_station() {
    forward_out_ = context_.builder.stream(1);
    error_out_ = context_.builder.stream(1);
    const int32_t gradient_out = context_.builder.stream(1);
    const DeviceSchedule& schedule = context_.schedule_of(device_);
    Turns turns;
    turns.schedule = context_.schedule_index(device_);
    turns.forward = picoseconds_of(context_, device_, Phase::kForward);
    turns.error_back = picoseconds_of(context_, device_, Phase::kErrorBack);
    turns.gradient = picoseconds_of(context_, device_, Phase::kParameterGradient);
    turns.forward_out = forward_out_;
    turns.error_out = error_out_;
    turns.gradient_out = gradient_out;
    if (!context_.options.measured.empty()) {
      const MeasuredActions& measured = item(context_.options.measured, device_);
      turns.forward = measured.forward + measured.between;
      turns.error_back = measured.error_back + measured.between;
      turns.gradient = measured.parameter_gradient + measured.between;
      turns.update = measured.update + measured.between;
    }
    // A place without work takes no time of its card's: it would wait for it behind places that always can go on.
    const bool works = turns.forward + turns.error_back + turns.gradient + turns.update > 0;
    if (!context_.network.ranks.empty() && works) turns.rank = static_cast<int32_t>(context_.rank_of(device_));
    turns.window = item(context_.plan.windows, device_);
    for (const int64_t shard : item(context_.shards_of, device_))
      turns.act_bits_of_window += item(context_.plan.shards, shard).act_ram_bits;
    const double shared_bytes = figures_of_recomputation(context_.plan, context_.graph, device_).bytes_shared;
    turns.act_bits_shared = std::min<int64_t>(std::llround(8 * shared_bytes), turns.act_bits_of_window);
    Station station;
    station.kind = StationKind::kTurns;
    station.timed = true;
    station.device = static_cast<int32_t>(device_);
    station.cycles = static_cast<int64_t>(schedule.actions.size());
    station.window_cycle = station.cycles / 2;
    station.turns = static_cast<int32_t>(context_.network.turns.size());
    std::vector<int32_t> outs = {forward_out_, error_out_, gradient_out};
    if (shared_ >= 0) {
      turns.steps = sum_shape(context_.graph.node(item(program_.steps, shared_).node)).plane();
      const bool measured = !context_.options.measured.empty();
      turns.shared_forward = measured ? turns.forward : picoseconds_of(context_, device_, Phase::kForward, true);
      turns.shared_back = measured ? turns.error_back : picoseconds_of(context_, device_, Phase::kErrorBack, true);
      const auto row = static_cast<int32_t>(turns.steps);
      turns.forward_row = context_.builder.stream(row);
      turns.error_row = context_.builder.stream(row);
      turns.forward_early = context_.builder.stream(1);
      turns.error_early = context_.builder.stream(1);
      for (const int32_t out : {turns.forward_row, turns.error_row, turns.forward_early, turns.error_early}) outs.push_back(out);
    }
    context_.network.turns.push_back(std::move(turns));
    station_ = context_.builder.station(station, -1);
    for (const int32_t out : outs) item(context_.network.streams, out).producer = station_;
    if (device_ == 0) context_.network.first_of_samples = station_;
    context_.gradient_counts[{device_, -1}] = gradient_out;
  }

  // Messages of a micro-batch.
  int32_t messages_of(int64_t flow) const {
    const int32_t messages = context_.messages_of(item(context_.plan.flows, flow));
    return context_.pace.streams ? messages * static_cast<int32_t>(context_.plan.micro_batch) : messages;
  }

  void read_flow(int64_t flow, bool error) {
    Input input;
    input.stream = context_.stream_of_flow(flow);
    input.per_cycle = messages_of(flow);
    input.table = context_.builder.table({input.per_cycle});
    input.whole = true;
    input.slack = input.per_cycle;
    // As many messages lie unread as the trainer has room for.
    if (!context_.pace.streams) input.slack = messages_ahead(context_.plan, item(context_.plan.flows, flow)) - 1;
    input.base = error ? kOfError : kOfForward;
    context_.builder.read(station_, input);
  }

  // The rows that the others make and that this one passes on, and its own.
  void share(const StateFlows& flows, bool forward) {
    const Turns turns = context_.network.turns.back();
    for (const int64_t flow : flows.in) {
      const int32_t rows = messages_of(flow);
      Input input = row_of(context_.stream_of_flow(flow), rows);
      if (const int64_t next = passed_on(item(context_.plan.flows, flow)); next >= 0)
        context_.builder.read(add_leaving(context_, device_, next, rows, context_.micro_batches), input);
      // Of the steps before: none for the first.
      input.table = context_.builder.table({0});
      input.base = forward ? kRowOfForward : kRowOfError;
      context_.builder.read(station_, input);
    }
    for (const int64_t flow : flows.out) {
      const int32_t rows = messages_of(flow);
      context_.builder.read(add_leaving(context_, device_, flow, rows, context_.micro_batches),
                            row_of(forward ? turns.forward_row : turns.error_row, rows));
    }
  }
  Input row_of(int32_t stream, int32_t rows) {
    Input input;
    input.stream = stream;
    input.table = context_.builder.table(identity_rows(rows));
    input.per_cycle = rows;
    input.whole = true;
    input.slack = kFewestCredits;  // who is a step behind holds the others back
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
    Turns& turns = context_.network.turns.back();
    const bool early = shared_ >= 0 && crosses_first(program_, static_cast<int64_t>(step), forward);
    const int32_t stream = early ? (forward ? turns.forward_early : turns.error_early) : forward ? forward_out_ : error_out_;
    const int32_t messages = messages_of(flow);
    Input input;
    input.stream = stream;
    input.table = context_.builder.table(RowTable(to_size(messages), 1));
    input.per_cycle = 1;
    input.whole = true;
    input.slack = 1;
    context_.builder.read(add_leaving(context_, device_, flow, messages, context_.micro_batches), input);
    if (context_.pace.streams) return;
    const int32_t local = context_.local_flow(flow);
    item(context_.network.flows, local).taker = station_;
    (early     ? forward ? turns.forward_early_flows : turns.error_early_flows
     : forward ? turns.forward_flows
               : turns.error_flows)
        .push_back(local);
  }

  CompileContext& context_;
  const SegmentProgram& program_;
  int64_t device_;
  int64_t shared_;  // the step that makes steps which devices share; -1: none
  int32_t station_ = -1;
  int32_t forward_out_ = -1, error_out_ = -1;
};

}  // namespace

void compile_sequential_device(CompileContext& context, const SegmentProgram& program) { SequentialDevice(context, program).compile(); }

}  // namespace millrace::simulation
