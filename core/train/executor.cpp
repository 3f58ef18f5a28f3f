#include "core/train/executor.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/plan/schedule.h"
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

int64_t bytes_of(const std::vector<TensorPointer>& tensors) {
  int64_t bytes = 0;
  for (const TensorPointer& tensor : tensors)
    if (tensor) bytes += tensor->bytes();
  return bytes;
}

// Channels of the full tensor as channels of the value that holds a range of it.
ChannelRange within(const Value& value, const ChannelRange& channels) {
  return {channels.begin - value.channels.begin, channels.end - value.channels.begin};
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
  for (const ParameterHome& home : plan.homes)
    if ((home.home == device_index) != (home.user == device_index))
      fail(ErrorCode::kUnavailable, "{}.{}: home {} and user {} differ; balanced parameters need the ring trainer", home.layer, home.tensor,
           home.home, home.user);
  const ScheduleSpec spec = schedule_spec(plan, device_index, 1);
  if (versions_held(spec) > 1)
    fail(ErrorCode::kUnavailable, "alignment stash holds {} weight versions on device {}; that needs the ring trainer", versions_held(spec),
         device_index);
  for (const Step& step : program_.steps) {
    StepRun run;
    if (runs_kernel(step)) {
      const KernelSpec kernel = kernel_spec_of(plan, graph, program_, step);
      const Node& node = graph.node(step.node);
      try {
        run.kernel = device.make_kernel(kernel);
      } catch (const Error& error) {
        throw error.within(fmt::format("layer \"{}\" on device {}", node.layer.name, device_index));
      }
      run.trained = node.trained;
      const auto* recurrent = std::get_if<Recurrent>(&node.layer.operation);
      run.carries = recurrent != nullptr && recurrent->stateful;
      if (run.carries && spec.window > plan.micro_batches() && !drains(plan.alignment))
        fail(ErrorCode::kUnavailable,
             "layer \"{}\" is stateful: what it carries from one mini-batch to the next is there once a mini-batch is through, so at "
             "most {} micro-batches may be under way on device {}, not {}; divide the mini-batch into more of them",
             node.layer.name, plan.micro_batches(), device_index, spec.window);
      run.back = step.node == graph.loss() ? node.input_error_needed : program_.values[static_cast<size_t>(step.output)].error_needed;
      if (step.kind == StepKind::kCompute) {
        run.slices_input = step.block.inputs != program_.values[static_cast<size_t>(step.inputs[0])].channels;
        run.slices_output = kernel.output != program_.values[static_cast<size_t>(step.output)].shape;
      }
      run.slices = parameter_slices_of(graph, step);
      run.parameters = run.kernel->make_parameters();
      if (run.trained) {
        run.gradients = run.kernel->make_gradients();
        for (size_t p = 0; p < run.parameters.size(); ++p) run.optimizer.emplace_back();
        for (int slot = 0; slot < plan.optimizer.slots(); ++slot) {
          std::vector<TensorPointer> made = run.kernel->make_gradients();
          for (size_t p = 0; p < made.size(); ++p) run.optimizer[p].push_back(std::move(made[p]));
        }
      }
      run.state = run.kernel->make_state();
      run.parameter_pointers = raw<const Tensor>(run.parameters);
      run.gradient_pointers = raw<Tensor>(run.gradients);
      run.state_pointers = raw<Tensor>(run.state);
      for (const auto& slots : run.optimizer) run.optimizer_pointers.push_back(raw<Tensor>(slots));
    }
    runs_.push_back(std::move(run));
  }
  find_streams();
  // zero-bubble delays G behind later E's: their errors wait with it.
  const int64_t lag = plan.alignment == Alignment::kZeroBubble ? std::max<int64_t>(0, spec.ring_window - spec.window) : 0;
  slots_.resize(static_cast<size_t>(spec.window + lag));
  errors_.resize(static_cast<size_t>(lag + 1));
}

// A step runs chunk by chunk where its kernel can and all that it reads is there chunk by chunk.
void SegmentExecutor::find_streams() {
  std::vector<bool> streamed(program_.values.size());
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    StepRun& run = runs_[i];
    if (step.kind == StepKind::kLoad) streamed[static_cast<size_t>(step.output)] = true;  // whole, with the first chunk
    if (!run.kernel) continue;
    run.streams = run.kernel->streams() && !run.slices_input && !run.slices_output &&
                  std::ranges::all_of(step.inputs, [&](int64_t input) { return streamed[static_cast<size_t>(input)]; });
    streamed[static_cast<size_t>(step.output)] = run.streams;
  }
}

std::unique_ptr<SegmentExecutor::Slot> SegmentExecutor::make_slot() const {
  auto slot = std::make_unique<Slot>();
  const int64_t batch = plan_.micro_batch;
  for (const Value& value : program_.values) {
    slot->values.push_back(device_.make_tensor({value.shape, batch}));
    device_.zero(*slot->values.back());
  }
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    const StepRun& run = runs_[i];
    slot->keeps.push_back(run.kernel ? run.kernel->make_keep() : nullptr);
    TensorPointer input_slice;
    TensorPointer output_slice;
    if (run.slices_input) {
      Shape shape = program_.values[static_cast<size_t>(step.inputs[0])].shape;
      shape.channels = step.block.inputs.size();
      input_slice = device_.make_tensor({shape, batch});
    }
    if (run.slices_output) {
      Shape shape = program_.values[static_cast<size_t>(step.output)].shape;
      shape.channels = step.block.outputs.size();
      output_slice = device_.make_tensor({shape, batch});
    }
    std::vector<const Tensor*> inputs;
    for (const int64_t input : step.inputs)
      inputs.push_back(run.slices_input ? input_slice.get() : slot->values[static_cast<size_t>(input)].get());
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
    if (wanted && run.slices_input && set->errors[static_cast<size_t>(step.inputs[0])]) {
      Shape shape = program_.values[static_cast<size_t>(step.inputs[0])].shape;
      shape.channels = step.block.inputs.size();
      input_slice = device_.make_tensor({shape, batch});
    }
    if (wanted && run.slices_output) {
      Shape shape = program_.values[static_cast<size_t>(step.output)].shape;
      shape.channels = step.block.outputs.size();
      output_slice = device_.make_tensor({shape, batch});
    }
    std::vector<Tensor*> input_errors;
    for (const int64_t input : step.inputs)
      input_errors.push_back(input_slice ? input_slice.get() : set->errors[static_cast<size_t>(input)].get());
    set->input_errors.push_back(std::move(input_errors));
    set->input_slices.push_back(std::move(input_slice));
    set->output_slices.push_back(std::move(output_slice));
  }
  return set;
}

void SegmentExecutor::refuse_chunks_between_devices(const MicroBatch& batch) const {
  MILLRACE_CHECK(0 <= batch.chunk && batch.chunk < batch.chunks, "chunk {} of {}", batch.chunk, batch.chunks);
  if (batch.chunks > 1 && plan_.devices() > 1)
    fail(ErrorCode::kUnavailable, "chunks of time travel between devices in no message yet; {} devices take micro-batches whole",
         plan_.devices());
}

SegmentExecutor::Slot& SegmentExecutor::slot_for(const MicroBatch& batch) {
  std::unique_ptr<Slot>& slot = batch.training ? slots_[static_cast<size_t>(batch.index) % slots_.size()] : evaluation_;
  if (!slot) slot = make_slot();
  return *slot;
}

SegmentExecutor::ErrorSet& SegmentExecutor::errors_for(int64_t s) {
  std::unique_ptr<ErrorSet>& set = errors_[static_cast<size_t>(s) % errors_.size()];
  if (!set) set = make_errors();
  return *set;
}

void SegmentExecutor::forward(const MicroBatch& batch, std::span<const float> pixels, FlowPorts* ports, Score* score) {
  Slot& slot = slot_for(batch);
  refuse_chunks_between_devices(batch);
  const MicroBatch unchunked = whole_of(batch);
  const bool first = batch.chunk == 0, last = batch.chunk + 1 == batch.chunks;
  for (size_t v = 0; first && v < program_.values.size(); ++v)
    if (program_.values[v].zero_first) device_.zero(*slot.values[v]);
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    if (step.kind == StepKind::kLoad ? !first : !runs_[i].streams && !last) continue;
    switch (step.kind) {
      case StepKind::kReceive:
        ports->receive(step.forward_flow, device_, *slot.values[static_cast<size_t>(step.output)],
                       within(program_.values[static_cast<size_t>(step.output)], step.channels));
        break;
      case StepKind::kLoad:
        device_.write(*slot.values[static_cast<size_t>(step.output)], program_.values[static_cast<size_t>(step.output)].channels, pixels);
        break;
      case StepKind::kSend:
        ports->send(step.forward_flow, device_, *slot.values[static_cast<size_t>(step.inputs[0])],
                    within(program_.values[static_cast<size_t>(step.inputs[0])], step.channels));
        break;
      default: run_kernel(i, slot, runs_[i].streams ? batch : unchunked, score); break;
    }
  }
}

void SegmentExecutor::run_kernel(size_t index, Slot& slot, const MicroBatch& batch, Score* score) {
  const Step& step = program_.steps[index];
  StepRun& run = runs_[index];
  if (run.slices_input) {
    const Value& value = program_.values[static_cast<size_t>(step.inputs[0])];
    device_.copy_channels(*slot.values[static_cast<size_t>(step.inputs[0])], within(value, step.block.inputs), *slot.input_slices[index], 0,
                          false);
  }
  Tensor& output = *slot.values[static_cast<size_t>(step.output)];
  ForwardArguments arguments;
  arguments.inputs = slot.inputs[index];
  arguments.output = run.slices_output ? slot.output_slices[index].get() : &output;
  arguments.parameters = run.parameter_pointers;
  arguments.state = run.state_pointers;
  arguments.keep = slot.keeps[index].get();
  arguments.batch = &batch;
  arguments.score = score;
  run.kernel->forward(arguments);
  if (run.slices_output) {
    const Value& value = program_.values[static_cast<size_t>(step.output)];
    device_.copy_channels(*slot.output_slices[index], whole(*slot.output_slices[index]), output, within(value, step.block.outputs).begin,
                          step.adds);
  }
}

void SegmentExecutor::error_back(const MicroBatch& batch, FlowPorts* ports) {
  Slot& slot = slot_for(batch);
  ErrorSet& errors = errors_for(batch.index);
  refuse_chunks_between_devices(batch);
  const MicroBatch unchunked = whole_of(batch);
  const bool first = batch.chunk + 1 == batch.chunks;  // errors come from the end
  for (size_t v = 0; first && v < program_.values.size(); ++v)
    if (program_.values[v].zero_error_first && errors.errors[v]) device_.zero(*errors.errors[v]);
  for (size_t i = program_.steps.size(); i-- > 0;) {
    const Step& step = program_.steps[i];
    if (!runs_[i].streams && !first) continue;
    if (step.kind == StepKind::kSend) {
      if (step.backward_flow < 0) continue;
      MILLRACE_CHECK(step.error_adds[0] == 0 || program_.values[static_cast<size_t>(step.inputs[0])].zero_error_first,
                     "the error from downstream comes first");
      ports->receive(step.backward_flow, device_, *errors.errors[static_cast<size_t>(step.inputs[0])],
                     within(program_.values[static_cast<size_t>(step.inputs[0])], step.channels));
    } else if (step.kind == StepKind::kReceive) {
      if (step.backward_flow >= 0)
        ports->send(step.backward_flow, device_, *errors.errors[static_cast<size_t>(step.output)],
                    within(program_.values[static_cast<size_t>(step.output)], step.channels));
    } else if (runs_[i].back) {
      back_kernel(i, slot, errors, runs_[i].streams ? batch : unchunked);
    }
  }
}

void SegmentExecutor::back_kernel(size_t index, Slot& slot, ErrorSet& errors, const MicroBatch& batch) {
  const Step& step = program_.steps[index];
  StepRun& run = runs_[index];
  Tensor* output_error = errors.errors[static_cast<size_t>(step.output)].get();
  const Tensor* output = slot.values[static_cast<size_t>(step.output)].get();
  if (run.slices_output) {
    const Value& value = program_.values[static_cast<size_t>(step.output)];
    device_.copy_channels(*output_error, within(value, step.block.outputs), *errors.output_slices[index], 0, false);
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
  arguments.parameters = run.parameter_pointers;
  arguments.keep = slot.keeps[index].get();
  arguments.batch = &batch;
  run.kernel->error_back(arguments);
  if (through_slice) {
    const Value& value = program_.values[static_cast<size_t>(step.inputs[0])];
    device_.copy_channels(*errors.input_slices[index], whole(*errors.input_slices[index]),
                          *errors.errors[static_cast<size_t>(step.inputs[0])], within(value, step.block.inputs).begin,
                          step.error_adds[0] != 0);
  }
}

void SegmentExecutor::parameter_gradient(const MicroBatch& chunk) {
  if (chunk.chunk > 0) return;
  const MicroBatch batch = whole_of(chunk);
  Slot& slot = slot_for(batch);
  ErrorSet& errors = errors_for(batch.index);
  for (size_t i = program_.steps.size(); i-- > 0;) {
    StepRun& run = runs_[i];
    // A frozen batch norm uses its running statistics and commits none; a frozen layer that carries a state does commit.
    if (!run.trained && !run.carries) continue;
    const Step& step = program_.steps[i];
    GradientArguments arguments;
    arguments.inputs = slot.inputs[i];
    arguments.output_error = run.slices_output ? errors.output_slices[i].get() : errors.errors[static_cast<size_t>(step.output)].get();
    arguments.gradients = run.gradient_pointers;
    arguments.adds = gradients_summed_ > 0;
    arguments.state = run.state_pointers;
    arguments.keep = slot.keeps[i].get();
    arguments.batch = &batch;
    run.kernel->parameter_gradient(arguments);
  }
  ++gradients_summed_;
}

void SegmentExecutor::update(const UpdateArguments& arguments) {
  for (StepRun& run : runs_) {
    if (!run.trained) continue;
    for (size_t p = 0; p < run.parameters.size(); ++p)
      device_.update(arguments, *run.parameters[p], *run.gradients[p], run.optimizer_pointers[p]);
    run.kernel->parameters_changed(run.parameter_pointers);
  }
  gradients_summed_ = 0;
}

double SegmentExecutor::squared_gradient_norm() {
  double sum = 0;
  for (StepRun& run : runs_)
    for (const TensorPointer& gradient : run.gradients) sum += device_.squared_norm(*gradient);
  return sum;
}

void SegmentExecutor::read_scores(bool training, std::span<float> scores) {
  const std::unique_ptr<Slot>& slot = training ? slots_.front() : evaluation_;
  MILLRACE_CHECK(slot != nullptr, "no forward has run");
  for (size_t v = 0; v < program_.values.size(); ++v)
    if (program_.values[v].node == graph_.scores() && !program_.values[v].sum)
      return device_.read(*slot->values[v], whole(*slot->values[v]), scores);
  fail(ErrorCode::kUsage, "the network's scores are computed on another device");
}

std::string SegmentExecutor::first_non_finite(int64_t s) {
  const Slot* slot = slots_[static_cast<size_t>(s) % slots_.size()].get();
  if (slot == nullptr) return "";
  for (const Step& step : program_.steps)
    if (step.output >= 0 && !device_.all_finite(*slot->values[static_cast<size_t>(step.output)]))
      return graph_.name_of(program_.values[static_cast<size_t>(step.output)].node);
  return "";
}

bool SegmentExecutor::read_output(int64_t s, std::string_view layer, std::span<double> full) {
  const Slot* slot = slots_[static_cast<size_t>(s) % slots_.size()].get();
  for (size_t v = 0; slot != nullptr && v < program_.values.size(); ++v) {
    const Value& value = program_.values[v];
    if (value.sum || value.node == kNetworkInput || graph_.name_of(value.node) != layer) continue;
    device_.read(*slot->values[v], whole(*slot->values[v]), full);
    return true;
  }
  return false;
}

SegmentMemory SegmentExecutor::memory() const {
  SegmentMemory memory;
  for (const StepRun& run : runs_) {
    memory.parameter_bytes += bytes_of(run.parameters) + bytes_of(run.state);
    memory.gradient_bytes += bytes_of(run.gradients);
    for (const auto& slots : run.optimizer) memory.optimizer_bytes += bytes_of(slots);
  }
  // All slots are alike; measure one that exists, or make one for the purpose.
  const std::unique_ptr<Slot> made = slots_.front() ? nullptr : make_slot();
  const Slot& slot = made ? *made : *slots_.front();
  memory.activation_bytes = (bytes_of(slot.values) + bytes_of(slot.keeps) + bytes_of(slot.input_slices) + bytes_of(slot.output_slices)) *
                            static_cast<int64_t>(slots_.size());
  const std::unique_ptr<ErrorSet> made_errors = errors_.front() ? nullptr : make_errors();
  const ErrorSet& set = made_errors ? *made_errors : *errors_.front();
  memory.error_bytes =
      (bytes_of(set.errors) + bytes_of(set.input_slices) + bytes_of(set.output_slices)) * static_cast<int64_t>(errors_.size());
  return memory;
}

std::vector<std::string> SegmentExecutor::implementations() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < runs_.size(); ++i)
    if (runs_[i].kernel) lines.push_back(fmt::format("{}: {}", graph_.name_of(program_.steps[i].node), runs_[i].kernel->implementation()));
  return lines;
}

}  // namespace millrace
