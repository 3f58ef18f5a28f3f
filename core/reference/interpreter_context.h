// What every part of the interpreter reads (the plan, its graph, where its pieces lie, the device that computes) and
// what a device remembers of a micro-batch. Used by the interpreter only. Internal to core/reference.
//
//   const Context context(plan, {.type = ElementType::kFloat64});
//   Memory memory(context, samples);
//   memory.output(node).put(channels, values, context.rounder());
//
// The context owns plan, graph and device and outlives all that refers to it. Limits: those of core/reference/interpreter.h.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/device/device.h"
#include "core/graph/graph.h"
#include "core/plan/flows.h"
#include "core/reference/interpreter.h"
#include "core/reference/patch.h"

namespace millrace::interpreting {

using Values = std::vector<double>;
using TensorPointer = std::unique_ptr<Tensor>;

inline Values part(const Values& vector, int64_t offset, int64_t count) {
  return {vector.begin() + offset, vector.begin() + offset + count};
}

template <typename T>
std::vector<T*> pointers(const std::vector<TensorPointer>& tensors) {
  std::vector<T*> raw;
  for (const TensorPointer& tensor : tensors) raw.push_back(tensor.get());
  return raw;
}

struct Context {
  // Validates the plan.
  Context(Plan the_plan, InterpreterOptions the_options);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Plan plan;
  const Graph graph;
  const Placement placement;
  const InterpreterOptions options;
  const std::unique_ptr<Device> device;

  // To the arithmetic's type, so that sums on the host are those of a device.
  double round(double value) const {
    return options.type == ElementType::kFloat32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
  auto rounder() const {
    return [this](double value) { return round(value); };
  }
  TensorPointer tensor_of(const Shape& shape, int64_t batch, const Values& values) const;
  Values values_of(const Tensor& tensor) const;

  bool holds(int64_t device_index, int64_t group) const;
  // A recurrent layer whose group has several devices: x W on all but the last, the steps there.
  bool divided_by_kind(int64_t node) const;
  // Its steps load their parameters, which another device has, for every F and E.
  bool lends_steps(int64_t node) const;
  // The devices of its steps, one or several.
  std::vector<int64_t> steps_devices(int64_t node) const;
  int64_t directions_of(int64_t node) const;
  int64_t record_channels(int64_t node) const;
  ChannelRange sums_of(int64_t node, int64_t direction) const;
  const Shard& shard_of(int64_t node, int64_t device_index) const;
};

// What one device remembers of one micro-batch. Tensors appear, with no channel there yet, when first asked for.
class Memory {
 public:
  Memory(const Context& context, Samples samples) : context_(&context), samples_(std::move(samples)) {}

  const Samples& samples() const { return samples_; }
  MicroBatch micro_batch(int64_t s) const;

  Patch& output(int64_t node) { return patch(outputs_, node, context_->graph.shape_of(node)); }  // kNetworkInput too
  Patch& error(int64_t node) { return patch(errors_, node, context_->graph.shape_of(node)); }
  Patch& sum(int64_t head) { return patch(sums_, head, sum_shape(context_->graph.node(head))); }
  Patch& record(int64_t head) {
    Shape shape = sum_shape(context_->graph.node(head));
    shape.channels = context_->record_channels(head);
    return patch(records_, head, shape);
  }
  Patch& sum_error(int64_t head) { return patch(sum_errors_, head, sum_shape(context_->graph.node(head))); }
  TensorPointer& keep(int64_t node) { return keeps_[node]; }

 private:
  using Patches = std::map<int64_t, Patch>;  // by node
  Patch& patch(Patches& held, int64_t node, const Shape& shape) {
    return held.try_emplace(node, shape, context_->plan.micro_batch).first->second;
  }

  const Context* context_;
  Samples samples_;
  Patches outputs_, errors_, sums_, sum_errors_, records_;
  std::map<int64_t, TensorPointer> keeps_;
};

}  // namespace millrace::interpreting
