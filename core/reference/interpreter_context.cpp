#include "core/reference/interpreter_context.h"

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/validate.h"
#include "core/reference/reference_device.h"

namespace millrace::interpreting {

Context::Context(Plan the_plan, InterpreterOptions the_options)
    : plan(std::move(the_plan)),
      graph(plan.model),
      placement(plan, graph),
      options(std::move(the_options)),
      device(make_reference_device(options.type)) {
  validate(plan, graph, "plan");
}

TensorPointer Context::tensor_of(const Shape& shape, int64_t batch, const Values& values) const {
  TensorPointer tensor = device->make_tensor({shape, batch});
  device->write(*tensor, {0, shape.channels}, std::span<const double>(values));
  return tensor;
}

Values Context::values_of(const Tensor& tensor) const {
  Values values(to_size(tensor.elements()));
  device->read(tensor, whole(tensor), values);
  return values;
}

bool Context::holds(int64_t device_index, int64_t group) const {
  for (const int64_t s : item(plan.groups, group).shards)
    if (item(plan.shards, s).device == device_index) return true;
  return false;
}

bool Context::divided_by_kind(int64_t node) const {
  return placement.group_of(node).shards.size() > 1 && std::holds_alternative<Recurrent>(graph.node(node).layer.operation);
}

bool Context::lends_steps(int64_t node) const {
  if (!divided_by_kind(node)) return false;
  for (const ParameterHome& home : plan.homes)
    if (home.layer == graph.name_of(node) && home.tensor == "weight_hh") return home.home != home.user;
  return false;
}

std::vector<int64_t> Context::steps_devices(int64_t node) const {
  std::vector<int64_t> devices;
  if (!divided_by_kind(node)) return devices;
  for (const int64_t s : placement.group_of(node).shards)
    if (item(plan.shards, s).blocks.empty() && !item(plan.shards, s).after) devices.push_back(item(plan.shards, s).device);
  return devices;
}

int64_t Context::record_channels(int64_t node) const {
  const auto& cell = std::get<Recurrent>(graph.node(node).layer.operation);
  const int64_t taken = cell.projection > 0 ? cell.projection : cell.hidden;
  int64_t channels = taken;
  if (cell.projection > 0) channels += cell.hidden + taken;
  if (cell.cell == CellKind::kGru) channels += cell.hidden;
  return cell.bidirectional ? 2 * channels : channels;
}

int64_t Context::directions_of(int64_t node) const { return std::get<Recurrent>(graph.node(node).layer.operation).directions(); }

ChannelRange Context::sums_of(int64_t node, int64_t direction) const {
  const auto& cell = std::get<Recurrent>(graph.node(node).layer.operation);
  const int64_t rows = gates_of(cell.cell) * cell.hidden;
  return {direction * rows, (direction + 1) * rows};
}

const Shard& Context::shard_of(int64_t node, int64_t device_index) const {
  for (const int64_t s : placement.group_of(node).shards)
    if (item(plan.shards, s).device == device_index) return item(plan.shards, s);
  MILLRACE_CHECK(false, "device {} has no shard of node {}", device_index, node);
}

MicroBatch Memory::micro_batch(int64_t s) const {
  MicroBatch batch;
  batch.index = s;
  batch.epoch = samples_.epoch;
  batch.seed = context_->options.seed;
  batch.sample_ids = samples_.ids;
  batch.labels = samples_.labels;
  batch.error_scale = 1.0 / static_cast<double>(context_->plan.mini_batch);
  batch.lengths = samples_.lengths;
  return batch;
}

}  // namespace millrace::interpreting
