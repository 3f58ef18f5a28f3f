// Recurrent layers divided by kind of product: x W block by block where the plan puts it, and the steps, on the group's last device, of
// the sums that arrive there.
#include <array>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/kernel_spec.h"
#include "core/device/step_record.h"
#include "core/reference/interpreter_layers.h"

namespace millrace::interpreting {

// Visits the parts of this device's blocks that lie in one direction, with their weight's name and place in the device's vector of it.
template <typename Visit>
void LayerRunner::for_each_product(int64_t device, int64_t node, bool reverse, Visit visit) const {
  struct Product {
    int64_t direction;
    Block block;
    int64_t offset, count;
  };
  std::vector<Product> products;
  std::array<int64_t, 2> offsets{};
  for (const Block& block : context_.shard_of(node, device).blocks)
    for (int64_t direction = 0; direction < context_.directions_of(node); ++direction) {
      const ChannelRange outputs = intersection(block.outputs, context_.sums_of(node, direction));
      if (outputs.empty()) continue;
      const int64_t count = block.inputs.size() * outputs.size();
      int64_t& offset = fast_item(offsets, direction);
      products.push_back({direction, {block.inputs, outputs}, offset, count});
      offset += count;
    }
  if (reverse) std::reverse(products.begin(), products.end());
  for (const Product& product : products)
    visit(product.direction, product.direction == 0 ? "weight_ih" : "weight_ih_reverse", product.block, product.offset, product.count);
}

Kernel& LayerRunner::product_kernel(int64_t node, int64_t direction, const Block& block) {
  const Shape input = context_.graph.shape_of(context_.graph.node(node).inputs[0]);
  Step step;
  step.kind = StepKind::kCompute;
  step.node = node;
  step.block = block;
  step.direction = direction;
  return kernel_for(step, std::array{Shape{block.inputs.size(), input.height, input.width}}, block_output(node, block));
}

namespace {

bool belongs_to_steps(const ParameterSpec& parameter) { return parameter.trained && !parameter.tensor.starts_with("weight_ih"); }

}  // namespace

void LayerRunner::products(int64_t device, int64_t node, Memory& memory, const Action& action) {
  const MicroBatch batch = memory.micro_batch(action.index);
  for_each_product(device, node, false, [&](int64_t direction, std::string_view tensor, const Block& block, int64_t offset, int64_t count) {
    const Values vector = parameters_.vector_of(node, tensor, device, action.version);
    forward_block(product_kernel(node, direction, block), node, block, part(vector, offset, count), memory, batch);
  });
}

void LayerRunner::products_back(int64_t device, int64_t node, Memory& memory, const Action& action) {
  if (!context_.graph.node(node).input_error_needed) return;
  const MicroBatch batch = memory.micro_batch(action.index);
  for_each_product(device, node, true, [&](int64_t direction, std::string_view tensor, const Block& block, int64_t offset, int64_t count) {
    const Values vector = parameters_.vector_of(node, tensor, device, action.version);
    block_back(product_kernel(node, direction, block), node, block, part(vector, offset, count), memory, batch);
  });
}

void LayerRunner::products_gradient(int64_t device, int64_t node, Memory& memory, const Action& action) {
  if (!context_.graph.node(node).trained) return;
  const MicroBatch batch = memory.micro_batch(action.index);
  std::map<std::string_view, Values> vectors;
  for_each_product(device, node, false, [&](int64_t direction, std::string_view tensor, const Block& block, int64_t, int64_t) {
    const Values gradient = block_gradient(product_kernel(node, direction, block), node, block, memory, batch);
    vectors[tensor].insert(vectors[tensor].end(), gradient.begin(), gradient.end());
  });
  for (const auto& [tensor, vector] : vectors) parameters_.add_gradient(node, tensor, device, vector);
}

std::vector<TensorPointer> LayerRunner::steps_parameters(Kernel& kernel, int64_t node, int64_t version) const {
  std::vector<Values> values;
  for (const ParameterSpec& parameter : context_.graph.node(node).parameters)
    if (belongs_to_steps(parameter)) values.push_back(parameters_.of_steps(node, parameter.tensor, version));
  return load_parameters(kernel, values);
}

void LayerRunner::steps(int64_t node, Memory& memory, const Action& action) {
  Kernel& kernel = layer_kernel(StepKind::kFinish, node);
  const MicroBatch batch = memory.micro_batch(action.index);
  const Patch& raw = memory.sum(node);
  const TensorPointer sums = tensor_from(raw, raw.whole(), "sum");
  const auto parameters = steps_parameters(kernel, node, action.version);
  const std::array<const Tensor*, 1> inputs = {sums.get()};
  const auto weights = pointers<const Tensor>(parameters);
  const auto state = pointers<Tensor>(state_of(node, kernel));
  const TensorPointer y = make_tensor(context_.graph.shape_of(node));
  TensorPointer keep = kernel.make_keep();
  kernel.forward(
      {.inputs = inputs, .output = y.get(), .parameters = weights, .state = state, .keep = keep.get(), .batch = &batch, .score = nullptr});
  memory.keep(node) = std::move(keep);
  memory.output(node).put({0, context_.graph.shape_of(node).channels}, context_.values_of(*y), context_.rounder());
}

void LayerRunner::steps_back(int64_t node, Memory& memory, const Action& action) {
  if (!context_.graph.node(node).error_needed) return;
  Kernel& kernel = layer_kernel(StepKind::kFinish, node);
  const MicroBatch batch = memory.micro_batch(action.index);
  const Patch& raw = memory.sum(node);
  const Patch& result = memory.output(node);
  const TensorPointer sums = tensor_from(raw, raw.whole(), "sum");
  const TensorPointer y = tensor_from(result, result.whole(), context_.graph.name_of(node));
  const TensorPointer dy = tensor_from(memory.error(node), result.whole(), "error");
  const TensorPointer errors = make_tensor(raw.shape());
  const auto parameters = steps_parameters(kernel, node, action.version);
  const std::array<const Tensor*, 1> inputs = {sums.get()};
  const std::array<Tensor*, 1> input_errors = {errors.get()};
  const std::array<uint8_t, 1> adds = {0};
  const auto weights = pointers<const Tensor>(parameters);
  kernel.error_back({.inputs = inputs,
                     .output = y.get(),
                     .output_error = dy.get(),
                     .input_errors = input_errors,
                     .adds = adds,
                     .parameters = weights,
                     .keep = memory.keep(node).get(),
                     .batch = &batch});
  memory.sum_error(node).put(raw.whole(), context_.values_of(*errors), context_.rounder());
  if (!context_.lends_steps(node)) return;
  Patch& record = memory.record(node);
  Values values(to_size(record.shape().elements() * context_.plan.micro_batch));
  dynamic_cast<StepRecorder&>(kernel).read_record(*memory.keep(node), batch, values);
  record.put(record.whole(), values, context_.rounder());
}

// Where the steps are, of what their kernel kept, whoever makes the gradients: a record has to say the same.
void LayerRunner::steps_gradient(int64_t node, Memory& memory, const Action& action) {
  if (!context_.graph.node(node).trained) return;
  Kernel& kernel = layer_kernel(StepKind::kFinish, node);
  const MicroBatch batch = memory.micro_batch(action.index);
  const Patch& raw = memory.sum(node);
  const Patch& error = memory.error(node);
  const TensorPointer sums = tensor_from(raw, raw.whole(), "sum");
  const TensorPointer dy = tensor_from(error, error.whole(), "error");
  const std::vector<Values> gradients = gradients_of(kernel, {sums.get()}, *dy, state_of(node, kernel), memory.keep(node).get(), batch);
  size_t position = 0;
  for (const ParameterSpec& parameter : context_.graph.node(node).parameters)
    if (belongs_to_steps(parameter)) parameters_.add_gradient_of_steps(node, parameter.tensor, gradients[position++]);
}

}  // namespace millrace::interpreting
