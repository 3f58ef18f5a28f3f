#include "core/reference/interpreter_layers.h"

#include <array>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/kernel_spec.h"

namespace millrace::interpreting {

// ---- kernels and their tensors -------------------------------------------------------------------------------------

// One layer, or one block of it, alone and unfused: a program of a single step.
Kernel& LayerRunner::kernel_for(const Step& like, std::span<const Shape> inputs, const Shape& output) {
  const Block& block = like.block;
  const KernelKey key{like.kind, like.node, block.inputs.begin, block.inputs.end, block.outputs.begin, block.outputs.end};
  std::unique_ptr<Kernel>& kernel = kernels_[key];
  if (kernel) return *kernel;
  SegmentProgram program;
  Step step = like;
  for (const Shape& shape : inputs) {
    step.inputs.push_back(static_cast<int64_t>(program.values.size()));
    program.values.push_back({.node = 0, .channels = {0, shape.channels}, .shape = shape});
  }
  step.output = static_cast<int64_t>(program.values.size());
  program.values.push_back({.node = like.node, .channels = {0, output.channels}, .shape = output});
  kernel = context_.device->make_kernel(kernel_spec_of(context_.plan, context_.graph, program, step));
  return *kernel;
}

Kernel& LayerRunner::block_kernel(int64_t node, const Block& block) {
  const Shape input = context_.graph.shape_of(context_.graph.node(node).inputs[0]);
  Step step;
  step.kind = StepKind::kCompute;
  step.node = node;
  step.block = block;
  return kernel_for(step, std::array{Shape{block.inputs.size(), input.height, input.width}}, block_output(node, block));
}

Kernel& LayerRunner::layer_kernel(StepKind kind, int64_t node) {
  std::vector<Shape> inputs;
  if (kind == StepKind::kFinish) inputs = {sum_shape(context_.graph.node(node))};
  if (kind == StepKind::kApply) inputs = context_.graph.node(node).input_shapes;
  Step step;
  step.kind = kind;
  step.node = node;
  step.bias = kind == StepKind::kFinish;
  return kernel_for(step, inputs, context_.graph.shape_of(node));
}

Shape LayerRunner::block_output(int64_t node, const Block& block) const {
  Shape shape = sum_shape(context_.graph.node(node));
  shape.channels = block.outputs.size();
  return shape;
}

TensorPointer LayerRunner::make_tensor(const Shape& shape) const {
  return context_.device->make_tensor({shape, context_.plan.micro_batch});
}

TensorPointer LayerRunner::tensor_from(const Patch& patch, const ChannelRange& channels, std::string_view what) const {
  return context_.tensor_of(patch.shape_of(channels), context_.plan.micro_batch, patch.take(channels, what));
}

// Parameter tensors of a kernel from host values, in the kernel's order.
std::vector<TensorPointer> LayerRunner::load_parameters(Kernel& kernel, const std::vector<Values>& values) const {
  std::vector<TensorPointer> tensors = kernel.make_parameters();
  MILLRACE_CHECK(tensors.size() == values.size(), "kernel wants {} parameters, {} are there", tensors.size(), values.size());
  for (size_t i = 0; i < tensors.size(); ++i) context_.device->write(*tensors[i], whole(*tensors[i]), std::span<const double>(values[i]));
  kernel.parameters_changed(pointers<const Tensor>(tensors));
  return tensors;
}

std::vector<TensorPointer> LayerRunner::layer_parameters(Kernel& kernel, int64_t node, int64_t version) const {
  std::vector<Values> values;
  for (const ParameterSpec& parameter : context_.graph.node(node).parameters)
    if (parameter.trained) values.push_back(parameters_.vector_of(node, parameter.tensor, context_.placement.owner_of(node), version));
  return load_parameters(kernel, values);
}

std::vector<TensorPointer> LayerRunner::layer_inputs(int64_t node, Memory& memory) const {
  std::vector<TensorPointer> inputs;
  for (const int64_t input : context_.graph.node(node).inputs) {
    const Patch& source = memory.output(input);
    inputs.push_back(tensor_from(source, source.whole(), context_.graph.name_of(input)));
  }
  return inputs;
}

std::vector<TensorPointer>& LayerRunner::state_of(int64_t node, Kernel& kernel) {
  auto [found, fresh] = states_.try_emplace(node);
  if (!fresh) return found->second;
  found->second = kernel.make_state();
  size_t position = 0;
  for (const ParameterSpec& parameter : context_.graph.node(node).parameters) {
    if (parameter.trained) continue;
    Tensor& tensor = *found->second[position++];
    const Values start(to_size(parameter.elements()), parameter.tensor == "running_var" ? 1.0 : 0.0);
    context_.device->write(tensor, whole(tensor), std::span<const double>(start));
  }
  return found->second;
}

// Whether training uses running statistics and gathers those of the next version.
bool LayerRunner::gathers(int64_t node) const {
  const auto* norm = std::get_if<BatchNorm>(&context_.graph.node(node).layer.operation);
  return norm != nullptr && norm->statistics == Statistics::kRunning && context_.graph.node(node).trained;
}

// All but what is gathered.
std::vector<Values> LayerRunner::statistics_in(const std::vector<TensorPointer>& state) const {
  std::vector<Values> values;
  for (size_t i = 0; i + 1 < state.size(); ++i) values.push_back(context_.values_of(*state[i]));
  return values;
}

// F normalises by those of its version, whatever has been committed since; G gathers around those of the mini-batch it belongs to.
void LayerRunner::use_statistics(int64_t node, int64_t version) {
  std::vector<TensorPointer>& state = state_of(node, layer_kernel(StepKind::kApply, node));
  if (version == 0 && !statistics_.contains({node, 0})) {
    statistics_[{node, 0}] = statistics_in(state);
    context_.device->zero(*state.back());
  }
  const std::vector<Values>& values = statistics_.at({node, version});
  for (size_t i = 0; i < values.size(); ++i) context_.device->write(*state[i], whole(*state[i]), std::span<const double>(values[i]));
}

void LayerRunner::commit_statistics(int64_t device, int64_t mini_batch) {
  for (int64_t node = 0; node < std::ssize(context_.graph.nodes()); ++node) {
    if (!gathers(node) || context_.placement.owner_of(node) != device) continue;
    use_statistics(node, mini_batch);
    Kernel& kernel = layer_kernel(StepKind::kApply, node);
    std::vector<TensorPointer>& state = state_of(node, kernel);
    const auto states = pointers<Tensor>(state);
    kernel.commit_statistics(states);
    statistics_[{node, mini_batch + 1}] = statistics_in(state);
  }
}

Values LayerRunner::statistic(int64_t node, std::string_view tensor) const {
  const std::vector<TensorPointer>& state = states_.at(node);
  size_t position = 0;
  for (const ParameterSpec& parameter : context_.graph.node(node).parameters) {
    if (parameter.trained) continue;
    if (parameter.tensor == tensor) return context_.values_of(*state[position]);
    ++position;
  }
  fail(ErrorCode::kNotFound, "layer \"{}\" has no statistic \"{}\"", context_.graph.name_of(node), tensor);
}

std::vector<Values> LayerRunner::gradients_of(Kernel& kernel, const std::vector<const Tensor*>& inputs, const Tensor& output_error,
                                              const std::vector<TensorPointer>& state, Tensor* keep, const MicroBatch& batch) const {
  const std::vector<TensorPointer> gradients = kernel.make_gradients();
  for (const TensorPointer& gradient : gradients) context_.device->zero(*gradient);
  const auto targets = pointers<Tensor>(gradients);
  const auto states = pointers<Tensor>(state);
  kernel.parameter_gradient(
      {.inputs = inputs, .output_error = &output_error, .gradients = targets, .state = states, .keep = keep, .batch = &batch});
  std::vector<Values> values;
  for (const TensorPointer& gradient : gradients) values.push_back(context_.values_of(*gradient));
  return values;
}

// ---- blocks: what one device computes of a divided layer -----------------------------------------------------------

// Visits the blocks of this device's shard with their slice of the shard's parameter vector.
template <typename Visit>
void LayerRunner::for_each_block(int64_t device, int64_t node, bool reverse, Visit visit) const {
  const std::vector<Block>& blocks = context_.shard_of(node, device).blocks;
  std::vector<int64_t> offsets;
  int64_t offset = 0;
  for (const Block& block : blocks) {
    offsets.push_back(offset);
    offset += weight_elements(context_.graph, node, block);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t b = reverse ? blocks.size() - 1 - i : i;
    visit(blocks[b], offsets[b], weight_elements(context_.graph, node, blocks[b]));
  }
}

void LayerRunner::forward_block(Kernel& kernel, int64_t node, const Block& block, const Values& weight, Memory& memory,
                                const MicroBatch& batch) {
  const int64_t input = context_.graph.node(node).inputs[0];
  const auto parameters = load_parameters(kernel, {weight});
  const TensorPointer x = tensor_from(memory.output(input), block.inputs, context_.graph.name_of(input));
  const TensorPointer y = make_tensor(block_output(node, block));
  const std::array<const Tensor*, 1> inputs = {x.get()};
  const auto weights = pointers<const Tensor>(parameters);
  kernel.forward({.inputs = inputs, .output = y.get(), .parameters = weights, .state = {}, .batch = &batch});
  memory.sum(node).put(block.outputs, context_.values_of(*y), context_.rounder());
}

void LayerRunner::block_back(Kernel& kernel, int64_t node, const Block& block, const Values& weight, Memory& memory,
                             const MicroBatch& batch) {
  const int64_t input = context_.graph.node(node).inputs[0];
  const auto parameters = load_parameters(kernel, {weight});
  const Patch& source = memory.output(input);
  const TensorPointer x = tensor_from(source, block.inputs, context_.graph.name_of(input));
  const TensorPointer dy = tensor_from(memory.sum_error(node), block.outputs, "error");
  const TensorPointer y = make_tensor(block_output(node, block));
  const TensorPointer dx = make_tensor(source.shape_of(block.inputs));
  const std::array<const Tensor*, 1> inputs = {x.get()};
  const std::array<Tensor*, 1> errors = {dx.get()};
  const std::array<uint8_t, 1> adds = {0};
  const auto weights = pointers<const Tensor>(parameters);
  kernel.error_back({.inputs = inputs,
                     .output = y.get(),
                     .output_error = dy.get(),
                     .input_errors = errors,
                     .adds = adds,
                     .parameters = weights,
                     .batch = &batch});
  memory.error(input).put(block.inputs, context_.values_of(*dx), context_.rounder());
}

Values LayerRunner::block_gradient(Kernel& kernel, int64_t node, const Block& block, Memory& memory, const MicroBatch& batch) {
  const int64_t input = context_.graph.node(node).inputs[0];
  const TensorPointer x = tensor_from(memory.output(input), block.inputs, context_.graph.name_of(input));
  const TensorPointer dy = tensor_from(memory.sum_error(node), block.outputs, "error");
  return gradients_of(kernel, {x.get()}, *dy, {}, nullptr, batch).front();
}

void LayerRunner::forward_blocks(int64_t device, int64_t node, Memory& memory, const Action& action) {
  const Values vector = parameters_.vector_of(node, "weight", device, action.version);
  const MicroBatch batch = memory.micro_batch(action.index);
  for_each_block(device, node, false, [&](const Block& block, int64_t offset, int64_t count) {
    forward_block(block_kernel(node, block), node, block, part(vector, offset, count), memory, batch);
  });
}

void LayerRunner::blocks_back(int64_t device, int64_t node, Memory& memory, const Action& action) {
  if (!context_.graph.node(node).input_error_needed) return;
  const Values vector = parameters_.vector_of(node, "weight", device, action.version);
  const MicroBatch batch = memory.micro_batch(action.index);
  for_each_block(device, node, true, [&](const Block& block, int64_t offset, int64_t count) {
    block_back(block_kernel(node, block), node, block, part(vector, offset, count), memory, batch);
  });
}

void LayerRunner::blocks_gradient(int64_t device, int64_t node, Memory& memory, const Action& action) {
  if (!context_.graph.node(node).trained) return;
  const MicroBatch batch = memory.micro_batch(action.index);
  Values vector;
  for_each_block(device, node, false, [&](const Block& block, int64_t, int64_t) {
    const Values gradient = block_gradient(block_kernel(node, block), node, block, memory, batch);
    vector.insert(vector.end(), gradient.begin(), gradient.end());
  });
  parameters_.add_gradient(node, "weight", device, vector);
}

// ---- finish: the bias behind the sum, on the group's last device ---------------------------------------------------

bool LayerRunner::has_bias(int64_t node) const {
  const auto& parameters = context_.graph.node(node).parameters;
  return parameters.size() > 1 && parameters[1].tensor == "bias";
}

void LayerRunner::finish(int64_t node, Memory& memory, const Action& action) {
  const Patch& raw = memory.sum(node);
  Values values = raw.take(raw.whole(), sum_name(context_.graph.name_of(node)));
  if (has_bias(node)) {
    const Values bias = parameters_.vector_of(node, "bias", context_.placement.owner_of(node), action.version);
    const int64_t plane = raw.shape().plane();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = context_.round(values[i] + item(bias, static_cast<int64_t>(i) / plane % raw.shape().channels));
  }
  memory.output(node).put(raw.whole(), values, context_.rounder());
}

// The bias passes the error on unchanged.
void LayerRunner::finish_back(int64_t node, Memory& memory) {
  if (!context_.graph.node(node).error_needed) return;
  const Patch& finished = memory.error(node);
  memory.sum_error(node).put(finished.whole(), finished.take(finished.whole(), context_.graph.name_of(node)), context_.rounder());
}

void LayerRunner::finish_gradient(int64_t node, Memory& memory, const Action& action) {
  if (!context_.graph.node(node).trained || !has_bias(node)) return;
  const MicroBatch batch = memory.micro_batch(action.index);
  Kernel& kernel = layer_kernel(StepKind::kFinish, node);
  const Patch& raw_error = memory.sum_error(node);
  const Patch& raw = memory.sum(node);
  const TensorPointer dy = tensor_from(raw_error, raw_error.whole(), "error");
  const TensorPointer x = tensor_from(raw, raw.whole(), "sum");
  const int64_t owner = context_.placement.owner_of(node);
  parameters_.add_gradient(node, "bias", owner, gradients_of(kernel, {x.get()}, *dy, {}, nullptr, batch).front());
}

// ---- apply: a whole layer, behind a sum or without one -------------------------------------------------------------

void LayerRunner::apply(int64_t node, Memory& memory, const Action& action, Score& score) {
  Kernel& kernel = layer_kernel(StepKind::kApply, node);
  const MicroBatch batch = memory.micro_batch(action.index);
  const auto inputs = layer_inputs(node, memory);
  const auto parameters = layer_parameters(kernel, node, action.version);
  const auto input_pointers = pointers<const Tensor>(inputs);
  const auto weights = pointers<const Tensor>(parameters);
  if (gathers(node)) use_statistics(node, action.version);
  const auto state = pointers<Tensor>(state_of(node, kernel));
  const TensorPointer y = make_tensor(context_.graph.shape_of(node));
  TensorPointer keep = kernel.make_keep();
  kernel.forward({.inputs = input_pointers,
                  .output = y.get(),
                  .parameters = weights,
                  .state = state,
                  .keep = keep.get(),
                  .batch = &batch,
                  .score = &score});
  memory.keep(node) = std::move(keep);
  memory.output(node).put({0, context_.graph.shape_of(node).channels}, context_.values_of(*y), context_.rounder());
}

void LayerRunner::apply_back(int64_t node, Memory& memory, const Action& action) {
  const Graph& graph = context_.graph;
  const Node& layer = graph.node(node);
  // A layer of steps makes the errors of its sums in E, for G.
  const bool recurrent = role_of(layer.layer.operation) == Role::kRecurrence;
  if (!layer.input_error_needed && !(recurrent && layer.trained)) return;
  Kernel& kernel = layer_kernel(StepKind::kApply, node);
  const MicroBatch batch = memory.micro_batch(action.index);
  const auto inputs = layer_inputs(node, memory);
  const auto parameters = layer_parameters(kernel, node, action.version);
  const Patch& result = memory.output(node);
  const TensorPointer y = tensor_from(result, result.whole(), layer.layer.name);
  TensorPointer dy = make_tensor(result.shape());
  if (node != graph.loss()) dy = tensor_from(memory.error(node), result.whole(), layer.layer.name + "'s error");
  std::vector<TensorPointer> errors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool needed = layer.inputs[i] != kNetworkInput && graph.node(layer.inputs[i]).error_needed;
    errors.push_back(needed ? make_tensor(layer.input_shapes[i]) : nullptr);
  }
  const auto error_pointers = pointers<Tensor>(errors);
  const std::vector<uint8_t> adds(inputs.size(), 0);
  const auto input_pointers = pointers<const Tensor>(inputs);
  const auto weights = pointers<const Tensor>(parameters);
  kernel.error_back({.inputs = input_pointers,
                     .output = y.get(),
                     .output_error = dy.get(),
                     .input_errors = error_pointers,
                     .adds = adds,
                     .parameters = weights,
                     .keep = memory.keep(node).get(),
                     .batch = &batch});
  for (size_t i = 0; i < inputs.size(); ++i)
    if (errors[i])
      memory.error(layer.inputs[i]).put({0, layer.input_shapes[i].channels}, context_.values_of(*errors[i]), context_.rounder());
}

void LayerRunner::apply_gradient(int64_t node, Memory& memory, const Action& action) {
  const Node& layer = context_.graph.node(node);
  if (!layer.trained) return;
  Kernel& kernel = layer_kernel(StepKind::kApply, node);
  const MicroBatch batch = memory.micro_batch(action.index);
  const auto inputs = layer_inputs(node, memory);
  if (gathers(node)) use_statistics(node, action.index / context_.plan.micro_batches());
  const Patch& result_error = memory.error(node);
  const TensorPointer dy = tensor_from(result_error, result_error.whole(), layer.layer.name);
  const std::vector<Values> gradients =
      gradients_of(kernel, pointers<const Tensor>(inputs), *dy, state_of(node, kernel), memory.keep(node).get(), batch);
  size_t position = 0;
  for (const ParameterSpec& parameter : layer.parameters)
    if (parameter.trained) parameters_.add_gradient(node, parameter.tensor, context_.placement.owner_of(node), gradients[position++]);
}

}  // namespace millrace::interpreting
