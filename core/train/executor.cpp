#include "core/train/executor.h"

#include <algorithm>
#include <map>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/sequence.h"
#include "core/plan/parts.h"
#include "core/plan/recomputation.h"
#include "core/plan/retention.h"
#include "core/plan/time_chunking.h"
#include "core/train/segment_parts.h"

namespace millrace {

namespace {

template <typename T>
std::vector<T*> raw(const std::vector<TensorPointer>& tensors) {
  std::vector<T*> pointers;
  pointers.reserve(tensors.size());
  for (const TensorPointer& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

// Channels of the full tensor as channels of the value that holds a range of it.
ChannelRange within(const Value& value, const ChannelRange& channels) {
  return {channels.begin - value.channels.begin, channels.end - value.channels.begin};
}

void check_chunk(const Plan& plan, const MicroBatch& batch) {
  MILLRACE_CHECK(0 <= batch.chunk && batch.chunk < batch.chunks, "chunk {} of {}", batch.chunk, batch.chunks);
  MILLRACE_CHECK(batch.chunks == 1 || batch.chunks == plan.time_chunks || plan.devices() == 1, "{} chunks, the plan says {}", batch.chunks,
                 plan.time_chunks);
}

// Of a micro-batch taken chunk by chunk, for the steps that take it at once.
MicroBatch whole_of(MicroBatch batch) {
  batch.chunk = 0;
  batch.chunks = 1;
  return batch;
}

}  // namespace

SegmentExecutor::~SegmentExecutor() = default;

SegmentExecutor::SegmentExecutor(const Plan& plan, const Graph& graph, int64_t device_index, Device& device)
    : plan_(plan), graph_(graph), device_(device), program_(compile_segment(plan, graph, device_index)) {
  if (recomputes(plan)) check_recomputation(plan, graph);
  const ScheduleSpec spec = schedule_spec(plan, device_index, 1);
  for (const Step& step : program_.steps) make_run(step, versions_held(spec));
  find_remote();
  find_streams();
  slots_.resize(to_size(micro_batches_held(spec)));
  errors_.resize(to_size(errors_held(spec)));
}

void SegmentExecutor::make_run(const Step& step, int64_t versions) {
  StepRun& run = runs_.emplace_back();
  if (step.kind == StepKind::kGradient) make_gradient_run(step);
  if (!runs_kernel(step)) return;
  KernelSpec kernel = kernel_spec_of(plan_, graph_, program_, step);
  const Node& node = graph_.node(step.node);
  if (step.direction >= 0 && device_.compute_type() == ElementType::kFixed16)
    fail(ErrorCode::kUnavailable,
         "layer \"{}\" on device {}: boards take recurrent layers whole or not at all; multiply its inputs on cpu or a GPU",
         node.layer.name, program_.device);
  run.away = step.kind == StepKind::kFinish && (step.record >= 0 || !step.units.empty());
  if (run.away) kernel.trained = false;
  run.trained = node.trained && !run.away;
  run.remote = node.trained && std::ranges::any_of(plan_.homes, [&](const ParameterHome& home) {
                 return home.user == program_.device && home.home != program_.device && home.layer == node.layer.name;
               });
  for (int64_t v = 0; v < (run.trained && !run.remote ? versions : 1); ++v) {
    StepRun::Version& version = run.versions.emplace_back();
    try {
      version.kernel = device_.make_kernel(kernel);
    } catch (const Error& error) {
      throw error.within(fmt::format("layer \"{}\" on device {}", node.layer.name, program_.device));
    }
    version.parameters = version.kernel->make_parameters();
    version.pointers = raw<const Tensor>(version.parameters);
    if (version.parameters.empty()) break;
  }
  if (run.away && dynamic_cast<StepRecorder*>(&run.kernel()) == nullptr)
    fail(ErrorCode::kUnavailable,
         "layer \"{}\" on device {} ({}): it gives no record of its steps, of which another device could make their gradients; leave the "
         "parameters of the steps with them",
         node.layer.name, program_.device, device_.description());
  if (!step.units.empty()) {
    run.shared = dynamic_cast<UnitSteps*>(&run.kernel());
    if (run.shared == nullptr)
      fail(ErrorCode::kUnavailable,
           "layer \"{}\" on device {} ({}): it does not share the steps of a layer with other devices; boards do, and the reference: give "
           "the "
           "steps one device",
           node.layer.name, program_.device, device_.description());
    shared_ = runs_.size() - 1;
    shared_rows_ = item(program_.values, step.output).shape.height * static_cast<int64_t>(step.states.size());
  }
  run.carries = step.direction < 0 && traits_of(node.layer.operation).keeps_state;
  const int64_t window = item(plan_.windows, program_.device);
  if (run.carries && window > plan_.micro_batches() && !drains(plan_.alignment))
    fail(ErrorCode::kUnavailable,
         "layer \"{}\" is stateful: what it carries from one mini-batch to the next is there once a mini-batch is through, so at "
         "most {} micro-batches may be under way on device {}, not {}; divide the mini-batch into more of them",
         node.layer.name, plan_.micro_batches(), program_.device, window);
  run.back = step.node == graph_.loss() ? node.input_error_needed : item(program_.values, step.output).error_needed;
  if (step.kind == StepKind::kCompute) {
    run.slices_input = step.block.inputs != item(program_.values, step.inputs[0]).channels;
    run.slices_output = kernel.output != item(program_.values, step.output).shape;
  }
  if (role_of(node.layer.operation) == Role::kRecurrence && step.direction < 0 && run.back && !run.remote && run.shared == nullptr &&
      !run.slices_output && !step.adds && recomputes(plan_, program_.device))
    run.again = shared_keep(run.kernel().make_keep());
  run.slices = parameter_slices_of(graph_, step);
  run.state = run.kernel().make_state();
  run.state_pointers = raw<Tensor>(run.state);
  const auto named = to_size(std::ranges::count_if(run.slices, [](const ParameterSlice& slice) { return !slice.trained; }));
  run.gathers = !run.carries && run.state.size() > named;
  if (!run.trained) return;
  run.gradients = run.kernel().make_gradients();
  run.gradient_pointers = raw<Tensor>(run.gradients);
  if (run.remote) return;
  run.optimizer.resize(run.gradients.size());
  for (int slot = 0; slot < plan_.optimizer.slots(); ++slot) {
    std::vector<TensorPointer> made = run.kernel().make_gradients();
    for (size_t p = 0; p < made.size(); ++p) run.optimizer[p].push_back(std::move(made[p]));
  }
  for (const auto& slots : run.optimizer) run.optimizer_pointers.push_back(raw<Tensor>(slots));
}

// Of as many elements, whatever they are: each of its users writes them before it reads any.
Tensor* SegmentExecutor::shared_keep(TensorPointer keep) {
  for (const TensorPointer& known : shared_keeps_)
    if (keep && known->shape() == keep->shape() && known->bytes() == keep->bytes()) return known.get();
  if (!keep) return nullptr;
  return shared_keeps_.emplace_back(std::move(keep)).get();
}

void SegmentExecutor::make_gradient_run(const Step& step) {
  StepRun& run = runs_.back();
  run.of_record = std::make_unique<StepGradient>(steps_spec_of(plan_, graph_, step.node), device_.compute_type());
  const Node& node = graph_.node(step.node);
  size_t position = 0;
  for (const ParameterSpec& parameter : node.parameters) {
    if (!parameter.trained || input_direction_of(parameter) >= 0) continue;
    of_records_.push_back({node.layer.name, parameter.tensor});
    record_places_.push_back({runs_.size() - 1, position++});
  }
}

std::span<const double> SegmentExecutor::gradient_of_record(size_t index) const {
  return runs_[record_places_[index].step].of_record->values(record_places_[index].position);
}

// All trained tensors of steps that use anything of another device's. A shard's vector holds its blocks in order.
void SegmentExecutor::find_remote() {
  std::map<std::pair<std::string, std::string>, int64_t> offsets;
  for (size_t i = 0; i < runs_.size(); ++i) {
    size_t position = 0;
    for (const ParameterSlice& slice : runs_[i].slices) {
      if (!runs_[i].remote || !slice.trained) continue;
      int64_t& offset = offsets[{graph_.name_of(slice.node), slice.tensor}];
      remote_.push_back({graph_.name_of(slice.node), slice.tensor, offset, slice.elements, !runs_[i].away});
      remote_places_.push_back({i, position++});
      offset += slice.elements;
    }
  }
}

void SegmentExecutor::find_streams() {
  const auto returns = std::ranges::find(remote_, true, &RemoteParameter::returns);
  if (plan_.time_chunks > 1 && returns != remote_.end())
    fail(ErrorCode::kUnavailable, "{}.{}: parameters of another device travel once per micro-batch, so time is not taken in {} chunks",
         returns->layer, returns->tensor, plan_.time_chunks);
  const std::vector<bool> steps = TimeChunking(plan_, graph_).steps(program_);
  bool all_can = true;
  for (size_t i = 0; i < runs_.size(); ++i) {
    runs_[i].streams = steps[i];
    if (steps[i] && runs_[i].runs() && !runs_[i].kernel().streams()) all_can = false;
    if (plan_.time_chunks > 1 && steps[i] && runs_[i].runs() && !runs_[i].kernel().streams())
      fail(ErrorCode::kUnavailable, "layer \"{}\": device {} ({}) takes sequences whole; plan without chunks of time",
           graph_.name_of(program_.steps[i].node), program_.device, device_.description());
  }
  for (size_t i = 0; i < runs_.size() && !all_can; ++i) runs_[i].streams = program_.steps[i].kind == StepKind::kLoad;
}

StepRange SegmentExecutor::steps_of(const Step&, size_t index, int64_t value, const MicroBatch& batch) const {
  const int64_t height = item(program_.values, value).shape.height;
  return runs_[index].streams ? chunk_of(batch, height) : StepRange{0, height};
}

std::unique_ptr<SegmentExecutor::Slot> SegmentExecutor::make_slot() const {
  auto slot = std::make_unique<Slot>();
  const int64_t batch = plan_.micro_batch;
  for (const Value& value : program_.values) {
    // A record goes back alone.
    slot->values.push_back(device_.make_tensor({value.record ? Shape{1, 1, 1} : value.shape, batch}));
    device_.zero(*slot->values.back());
  }
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    const StepRun& run = runs_[i];
    slot->keeps.push_back(run.runs() && run.again == nullptr ? run.kernel().make_keep() : nullptr);
    TensorPointer input_slice;
    TensorPointer output_slice;
    if (run.slices_input) {
      Shape shape = item(program_.values, step.inputs[0]).shape;
      shape.channels = step.block.inputs.size();
      input_slice = device_.make_tensor({shape, batch});
    }
    if (run.slices_output) {
      Shape shape = item(program_.values, step.output).shape;
      shape.channels = step.block.outputs.size();
      output_slice = device_.make_tensor({shape, batch});
    }
    std::vector<const Tensor*> inputs;
    for (const int64_t input : step.inputs) inputs.push_back(run.slices_input ? input_slice.get() : item(slot->values, input).get());
    slot->inputs.push_back(std::move(inputs));
    slot->input_slices.push_back(std::move(input_slice));
    slot->output_slices.push_back(std::move(output_slice));
  }
  return slot;
}

std::unique_ptr<SegmentExecutor::ErrorSet> SegmentExecutor::make_errors() const {
  auto set = std::make_unique<ErrorSet>();
  const int64_t batch = plan_.micro_batch;
  for (const Value& value : program_.values) {
    const bool loss = value.node == graph_.loss() && !value.sum;
    set->errors.push_back(value.error_needed && !loss ? device_.make_tensor({value.shape, batch}) : nullptr);
    if (set->errors.back()) device_.zero(*set->errors.back());
  }
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    const StepRun& run = runs_[i];
    TensorPointer input_slice;
    TensorPointer output_slice;
    const bool wanted = run.back && program_.steps[i].kind == StepKind::kCompute;
    if (wanted && run.slices_input && item(set->errors, step.inputs[0])) {
      Shape shape = item(program_.values, step.inputs[0]).shape;
      shape.channels = step.block.inputs.size();
      input_slice = device_.make_tensor({shape, batch});
    }
    if (wanted && run.slices_output) {
      Shape shape = item(program_.values, step.output).shape;
      shape.channels = step.block.outputs.size();
      output_slice = device_.make_tensor({shape, batch});
    }
    std::vector<Tensor*> input_errors;
    for (const int64_t input : step.inputs) input_errors.push_back(input_slice ? input_slice.get() : item(set->errors, input).get());
    set->input_errors.push_back(std::move(input_errors));
    set->input_slices.push_back(std::move(input_slice));
    set->output_slices.push_back(std::move(output_slice));
  }
  return set;
}

SegmentExecutor::Slot& SegmentExecutor::slot_for(const MicroBatch& batch) {
  std::unique_ptr<Slot>& slot = batch.training ? slots_[to_size(batch.index) % slots_.size()] : evaluation_;
  if (!slot) slot = make_slot();
  return *slot;
}

SegmentExecutor::ErrorSet& SegmentExecutor::errors_for(int64_t s) {
  std::unique_ptr<ErrorSet>& set = errors_[to_size(s) % errors_.size()];
  if (!set) set = make_errors();
  return *set;
}

void SegmentExecutor::forward(const MicroBatch& batch, std::span<const float> pixels, FlowPorts* ports, Score* score, int64_t version,
                              int64_t phase) {
  check_chunk(plan_, batch);
  Slot& slot = slot_for(batch);
  const MicroBatch unchunked = whole_of(batch);
  const bool first = batch.chunk == 0, last = batch.chunk + 1 == batch.chunks;
  const bool shares = shared_ != kNone && last;
  for (size_t v = 0; first && phase == 0 && v < program_.values.size(); ++v)
    if (program_.values[v].zero_first) device_.zero(*slot.values[v]);
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    if (step.kind == StepKind::kLoad ? !first : !runs_[i].streams && !last) continue;
    if (shares && !runs_in(i, true, phase)) continue;
    if (shares && i == shared_) {
      forward_phase(i, slot, unchunked, *ports, phase);
      continue;
    }
    switch (step.kind) {
      case StepKind::kReceive:
        if (step.forward_flow < 0) break;
        ports->receive(step.forward_flow, device_, *item(slot.values, step.output),
                       within(item(program_.values, step.output), step.channels), steps_of(step, i, step.output, batch));
        break;
      case StepKind::kLoad: device_.write(*item(slot.values, step.output), item(program_.values, step.output).channels, pixels); break;
      case StepKind::kGradient: break;
      case StepKind::kSend:
        if (step.forward_flow < 0) break;
        ports->send(step.forward_flow, device_, *item(slot.values, step.inputs[0]),
                    within(item(program_.values, step.inputs[0]), step.channels), steps_of(step, i, step.inputs[0], batch));
        break;
      default:
        run_kernel(i, slot, runs_[i].streams ? batch : unchunked, score, version);
        if (ports != nullptr) ports->progress();
        break;
    }
  }
}

void SegmentExecutor::run_kernel(size_t index, Slot& slot, const MicroBatch& batch, Score* score, int64_t version) {
  const Step& step = program_.steps[index];
  StepRun& run = runs_[index];
  if (run.slices_input) {
    const Value& value = item(program_.values, step.inputs[0]);
    copy_part(*item(slot.values, step.inputs[0]), within(value, step.block.inputs), *slot.input_slices[index], 0, false, batch);
  }
  Tensor& output = *item(slot.values, step.output);
  ForwardArguments arguments;
  arguments.inputs = slot.inputs[index];
  arguments.output = run.slices_output ? slot.output_slices[index].get() : &output;
  arguments.parameters = run.version(version).pointers;
  arguments.state = run.state_pointers;
  arguments.keep = keep_of(index, slot);
  arguments.batch = &batch;
  arguments.score = score;
  run.version(version).kernel->forward(arguments);
  if (run.slices_output) {
    const Value& value = item(program_.values, step.output);
    copy_part(*slot.output_slices[index], whole(*slot.output_slices[index]), output, within(value, step.block.outputs).begin, step.adds,
              batch);
  }
}

// Of the part of a sequence that is at hand.
void SegmentExecutor::copy_part(const Tensor& from, ChannelRange channels, Tensor& to, int64_t begin, bool adds, const MicroBatch& batch) {
  if (batch.chunks == 1) return device_.copy_channels(from, channels, to, begin, adds);
  device_.copy_rows(from, channels, to, begin, chunk_of(batch, from.shape().height), adds);
}

Tensor* SegmentExecutor::keep_of(size_t step, Slot& slot) const {
  return runs_[step].again != nullptr ? runs_[step].again : slot.keeps[step].get();
}

void SegmentExecutor::error_back(const MicroBatch& batch, FlowPorts* ports, int64_t version, int64_t phase) {
  check_chunk(plan_, batch);
  Slot& slot = slot_for(batch);
  ErrorSet& errors = errors_for(batch.index);
  const MicroBatch unchunked = whole_of(batch);
  const bool first = batch.chunk + 1 == batch.chunks;  // errors come from the end
  const bool shares = shared_ != kNone && first;
  for (size_t v = 0; first && phase == 0 && v < program_.values.size(); ++v)
    if (program_.values[v].zero_error_first && errors.errors[v]) device_.zero(*errors.errors[v]);
  for (size_t i = program_.steps.size(); i-- > 0;) {
    const Step& step = program_.steps[i];
    if (!runs_[i].streams && !first) continue;
    if (shares && !runs_in(i, false, phase)) continue;
    if (shares && i == shared_) {
      back_phase(i, slot, errors, unchunked, *ports, phase);
      continue;
    }
    if (step.kind == StepKind::kSend) {
      if (step.backward_flow < 0) continue;
      MILLRACE_CHECK(step.error_adds[0] == 0 || item(program_.values, step.inputs[0]).zero_error_first,
                     "the error from downstream comes first");
      ports->receive(step.backward_flow, device_, *item(errors.errors, step.inputs[0]),
                     within(item(program_.values, step.inputs[0]), step.channels), steps_of(step, i, step.inputs[0], batch));
    } else if (step.kind == StepKind::kReceive) {
      if (step.backward_flow >= 0)
        ports->send(step.backward_flow, device_, *item(errors.errors, step.output),
                    within(item(program_.values, step.output), step.channels), steps_of(step, i, step.output, batch));
    } else if (runs_[i].back) {
      if (runs_[i].again != nullptr) run_kernel(i, slot, unchunked, nullptr, version);
      back_kernel(i, slot, errors, runs_[i].streams ? batch : unchunked, version);
      if (runs_[i].again != nullptr) gradient_kernel(i, slot, errors, unchunked, runs_[i].gradients_in_back++ > 0);
      if (runs_[i].away) hand_out_record(i, slot, errors, runs_[i].streams ? batch : unchunked);
      if (ports != nullptr) ports->progress();
    }
  }
}

void SegmentExecutor::back_kernel(size_t index, Slot& slot, ErrorSet& errors, const MicroBatch& batch, int64_t version) {
  const Step& step = program_.steps[index];
  StepRun& run = runs_[index];
  Tensor* output_error = item(errors.errors, step.output).get();
  const Tensor* output = item(slot.values, step.output).get();
  if (run.slices_output) {
    const Value& value = item(program_.values, step.output);
    copy_part(*output_error, within(value, step.block.outputs), *errors.output_slices[index], 0, false, batch);
    output_error = errors.output_slices[index].get();
    output = slot.output_slices[index].get();
  }
  constexpr uint8_t kOverwrite = 0;
  const bool through_slice = errors.input_slices[index] != nullptr;
  ErrorBackArguments arguments;
  arguments.inputs = slot.inputs[index];
  arguments.output = output;
  arguments.output_error = output_error;
  arguments.input_errors = errors.input_errors[index];
  arguments.adds = through_slice ? std::span<const uint8_t>(&kOverwrite, 1) : std::span<const uint8_t>(step.error_adds);
  arguments.parameters = run.version(version).pointers;
  arguments.keep = keep_of(index, slot);
  arguments.batch = &batch;
  run.version(version).kernel->error_back(arguments);
  if (through_slice) {
    const Value& value = item(program_.values, step.inputs[0]);
    copy_part(*errors.input_slices[index], whole(*errors.input_slices[index]), *item(errors.errors, step.inputs[0]),
              within(value, step.block.inputs).begin, step.error_adds[0] != 0, batch);
  }
}

void SegmentExecutor::hand_out_record(size_t index, Slot& slot, ErrorSet& errors, const MicroBatch& batch) {
  Tensor& to = *item(errors.errors, program_.steps[index].record);
  record_.resize(to_size(to.elements()));
  dynamic_cast<StepRecorder&>(runs_[index].kernel()).read_record(*slot.keeps[index], batch, record_);
  device_.write(to, whole(to), std::span<const double>(record_));
}

void SegmentExecutor::gradient_from_record(size_t index, ErrorSet& errors, const MicroBatch& batch) {
  const auto values_of = [&](int64_t value, std::vector<double>& values) {
    const Tensor& tensor = *item(errors.errors, value);
    values.resize(to_size(tensor.elements()));
    device_.read(tensor, whole(tensor), std::span<double>(values));
  };
  const Step& step = program_.steps[index];
  values_of(step.record, record_);
  values_of(step.inputs[0], record_errors_);
  runs_[index].of_record->make(record_, record_errors_, batch);
}

void SegmentExecutor::parameter_gradient(const MicroBatch& chunk) {
  if (chunk.chunk > 0) return;
  const MicroBatch batch = whole_of(chunk);
  Slot& slot = slot_for(batch);
  ErrorSet& errors = errors_for(batch.index);
  for (size_t i = program_.steps.size(); i-- > 0;) {
    StepRun& run = runs_[i];
    if (run.of_record) gradient_from_record(i, errors, batch);
    if (run.again == nullptr) gradient_kernel(i, slot, errors, batch, gradients_summed_ > 0 && !run.remote);
  }
  ++gradients_summed_;
}

void SegmentExecutor::gradient_kernel(size_t index, Slot& slot, ErrorSet& errors, const MicroBatch& batch, bool adds) {
  StepRun& run = runs_[index];
  // A frozen batch norm uses its running statistics and commits none; a frozen layer that carries a state does commit.
  if (!run.trained && !run.carries) return;
  GradientArguments arguments;
  arguments.inputs = slot.inputs[index];
  arguments.output_error = run.slices_output ? errors.output_slices[index].get() : item(errors.errors, program_.steps[index].output).get();
  arguments.gradients = run.gradient_pointers;
  arguments.adds = adds;
  arguments.state = run.state_pointers;
  arguments.keep = keep_of(index, slot);
  arguments.batch = &batch;
  run.kernel().parameter_gradient(arguments);
}

void SegmentExecutor::update(const UpdateArguments& arguments, int64_t version) {
  for (StepRun& run : runs_) {
    run.gradients_in_back = 0;
    if (!run.trained || run.remote || !run.runs()) continue;
    StepRun::Version& old = run.version(version);
    StepRun::Version& next = run.version(version + 1);
    run.kernel().commit_statistics(run.state_pointers);
    for (size_t p = 0; p < next.parameters.size(); ++p) {
      if (&next != &old) device_.copy(*old.parameters[p], *next.parameters[p]);
      device_.update(arguments, *next.parameters[p], *run.gradients[p], run.optimizer_pointers[p]);
    }
    next.kernel->parameters_changed(next.pointers);
  }
  gradients_summed_ = 0;
  newest_version_ = version + 1;
}

double SegmentExecutor::squared_gradient_norm() {
  double sum = 0;
  for (StepRun& run : runs_)
    for (size_t p = 0; p < run.gradients.size() && !run.remote; ++p) sum += device_.squared_norm(*run.gradients[p]);
  return sum;
}

}  // namespace millrace
