// Which messages an action takes and makes, and its phases where devices share the steps of a recurrent layer.
#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/parts.h"
#include "core/train/segment_parts.h"

namespace millrace {

namespace {

// Of the rows of a step, which follow one another, the one that a phase makes.
template <typename Rows>
const auto& of_row(const Rows& rows, int64_t phase) {
  return rows[to_size(phase) % rows.size()];
}

}  // namespace

void FlowPorts::receive_row(int64_t flow, std::span<double>) { MILLRACE_CHECK(false, "no rows of states arrive here, of flow {}", flow); }
void FlowPorts::send_row(int64_t flow, std::span<const double>) {
  MILLRACE_CHECK(false, "no rows of states leave from here, of flow {}", flow);
}

int64_t SegmentExecutor::phases(int32_t chunk, int32_t chunks) const {
  return shared_ != kNone && chunk + 1 == chunks ? shared_rows_ + 1 : 1;
}

bool SegmentExecutor::runs_in(size_t step, bool forward, int64_t phase) const {
  if (shared_ == kNone || step == shared_) return true;
  return phase == (crosses_first(program_, static_cast<int64_t>(step), forward) ? 0 : shared_rows_);
}

SegmentExecutor::Messages SegmentExecutor::messages(bool forward, bool first, bool last, int64_t phase) const {
  Messages messages;
  const bool shares = shared_ != kNone && (forward ? last : first);
  if (shares) {
    const std::vector<StateFlows>& flows = forward ? program_.steps[shared_].states : program_.steps[shared_].errors;
    if (phase > 0) messages.rows = of_row(flows, phase - 1).in;
    if (phase < shared_rows_) messages.out = of_row(flows, phase).out;
  }
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    const bool send = step.kind == StepKind::kSend;
    if ((!send && step.kind != StepKind::kReceive) || (!runs_[i].streams && !(forward ? last : first))) continue;
    if (shares && !runs_in(i, forward, phase)) continue;
    const int64_t flow = forward ? step.forward_flow : step.backward_flow;
    if (flow >= 0) (send == forward ? messages.out : messages.in).push_back(flow);
  }
  return messages;
}

SegmentExecutor::Messages SegmentExecutor::forward_messages(int32_t chunk, int32_t chunks, int64_t phase) const {
  return messages(true, chunk == 0, chunk + 1 == chunks, phase);
}
SegmentExecutor::Messages SegmentExecutor::error_messages(int32_t chunk, int32_t chunks, int64_t phase) const {
  return messages(false, chunk + 1 == chunks, chunk == 0, phase);
}

// What the phase before made elsewhere.
template <typename Take>
void SegmentExecutor::take_rows(const std::vector<StateFlows>& flows, int64_t phase, FlowPorts& ports, Take take) {
  if (phase == 0) return;
  const int64_t steps = shared_rows_ / static_cast<int64_t>(flows.size());
  for (const int64_t flow : of_row(flows, phase - 1).in) {
    const Flow& spec = item(plan_.flows, flow);
    row_.resize(to_size(spec.elements_per_sample / steps * plan_.micro_batch));
    ports.receive_row(flow, row_);
    take(phase - 1, spec.channels);
  }
}

// The parameters are another device's, so there is one version of them.
void SegmentExecutor::forward_phase(size_t index, Slot& slot, const MicroBatch& batch, FlowPorts& ports, int64_t phase) {
  const Step& step = program_.steps[index];
  StepRun& run = runs_[index];
  ForwardArguments arguments;
  arguments.inputs = slot.inputs[index];
  arguments.output = item(slot.values, step.output).get();
  arguments.parameters = run.version(0).pointers;
  arguments.state = run.state_pointers;
  arguments.keep = slot.keeps[index].get();
  arguments.batch = &batch;
  if (phase == 0) run.shared->begin_forward(arguments);
  take_rows(step.states, phase, ports, [&](int64_t made, const ChannelRange& channels) { run.shared->take_states(made, channels, row_); });
  if (phase == shared_rows_) return run.shared->end_forward(arguments);
  make_row(step, false, phase);
  run.shared->forward_row(phase, row_);
  for (const int64_t flow : of_row(step.states, phase).out) ports.send_row(flow, row_);
}

void SegmentExecutor::back_phase(size_t index, Slot& slot, ErrorSet& errors, const MicroBatch& batch, FlowPorts& ports, int64_t phase) {
  const Step& step = program_.steps[index];
  StepRun& run = runs_[index];
  ErrorBackArguments arguments;
  arguments.inputs = slot.inputs[index];
  arguments.output = item(slot.values, step.output).get();
  arguments.output_error = item(errors.errors, step.output).get();
  arguments.input_errors = errors.input_errors[index];
  arguments.adds = step.error_adds;
  arguments.parameters = run.version(0).pointers;
  arguments.keep = slot.keeps[index].get();
  arguments.batch = &batch;
  if (phase == 0) run.shared->begin_back(arguments);
  take_rows(step.errors, phase, ports, [&](int64_t made, const ChannelRange& channels) { run.shared->take_errors(made, channels, row_); });
  if (phase == shared_rows_) {
    run.shared->end_back(arguments);
    if (step.record >= 0) hand_out_record(index, slot, errors, batch);
    return;
  }
  make_row(step, true, phase);
  run.shared->back_row(phase, row_);
  for (const int64_t flow : of_row(step.errors, phase).out) ports.send_row(flow, row_);
}

void SegmentExecutor::make_row(const Step& step, bool errors, int64_t phase) {
  const auto& cell = std::get<Recurrent>(graph_.node(step.node).layer.operation);
  const std::vector<StateRow> rows = state_rows_of(cell, errors);
  row_.resize(to_size(plan_.micro_batch * elements_of(cell, of_row(rows, phase), step.units)));
}

}  // namespace millrace
