// A whole model on one device the simplest way: layer after layer forward, layer after layer back, one kernel each,
// nothing fused, nothing divided, no plan. What it computes can be told only from the graph and the device's kernels.
//
//   StraightLine line(*device, graph, batch_size);
//   line.write("conv1.weight", values);
//   const Score score = line.forward(input, batch);
//   line.backward(batch);                              // or backward(batch, output_error) without a loss layer
//   line.read("conv1"), line.read("conv1.weight.gradient"), line.read("input.error")
//   line.update(arguments);
//
// Tensors are named as in the golden files. Gradients are those of the last backward alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/device/device.h"
#include "core/graph/graph.h"
#include "tests/core/operation_runner.h"

namespace millrace::testing {

class StraightLine {
 public:
  StraightLine(Device& device, const Graph& graph, int64_t batch) : device_(device), graph_(graph), batch_(batch) {
    input_ = tensor(kNetworkInput);
    input_error_ = tensor(kNetworkInput);
    for (const Node& node : graph.nodes()) {
      Stage stage;
      stage.kernel = device.make_kernel(spec_of(node));
      stage.parameters = stage.kernel->make_parameters();
      stage.gradients = stage.kernel->make_gradients();
      stage.state = stage.kernel->make_state();
      stage.keep = stage.kernel->make_keep();
      stage.output = tensor(graph.index_of(node.layer.name));
      stage.error = tensor(graph.index_of(node.layer.name));
      stages_.push_back(std::move(stage));
    }
  }

  void write(const std::string& name, std::span<const double> values) {
    Tensor* target = find(name);
    device_.write(*target, whole(*target), values);
  }
  std::vector<double> read(const std::string& name) { return values_of(device_, *find(name)); }
  // "conv1.weight", "conv1.bias", ...: what an optimizer changes.
  std::vector<std::string> trained() const {
    std::vector<std::string> names;
    for (const Node& node : graph_.nodes())
      for (const ParameterSpec& parameter : node.parameters)
        if (parameter.trained) names.push_back(node.layer.name + "." + parameter.tensor);
    return names;
  }

  Score forward(std::span<const double> input, const MicroBatch& batch) {
    device_.write(*input_, whole(*input_), input);
    Score score;
    for (int64_t i = 0; i < nodes(); ++i) {
      Stage& stage = at(i);
      const auto inputs = inputs_of(i), parameters = const_pointers(stage.parameters);
      const auto state = pointers(stage.state);
      stage.kernel->parameters_changed(parameters);
      stage.kernel->forward({.inputs = inputs,
                             .output = stage.output.get(),
                             .parameters = parameters,
                             .state = state,
                             .keep = stage.keep.get(),
                             .batch = &batch,
                             .score = i == graph_.loss() ? &score : nullptr});
    }
    device_.synchronize();
    return score;
  }

  // E and G of every layer. Walking down, the errors of a fan-out add up in descending consumer order.
  void backward(const MicroBatch& batch, std::span<const double> output_error = {}) {
    if (graph_.loss() < 0) device_.write(*at(nodes() - 1).error, whole(*at(nodes() - 1).error), output_error);
    std::vector<uint8_t> written(stages_.size() + 1, 0);  // by node + 1: the network's input first
    for (int64_t i = nodes() - 1; i >= 0; --i) {
      Stage& stage = at(i);
      const Node& node = graph_.node(i);
      std::vector<Tensor*> input_errors;
      std::vector<uint8_t> adds;
      for (const int64_t source : node.inputs) {
        input_errors.push_back(source == kNetworkInput ? input_error_.get() : at(source).error.get());
        adds.push_back(written[static_cast<size_t>(source + 1)]);
        written[static_cast<size_t>(source + 1)] = 1;
      }
      const auto inputs = inputs_of(i), parameters = const_pointers(stage.parameters);
      const auto gradients = pointers(stage.gradients), state = pointers(stage.state);
      stage.kernel->error_back({.inputs = inputs,
                                .output = stage.output.get(),
                                .output_error = i == graph_.loss() ? nullptr : stage.error.get(),
                                .input_errors = input_errors,
                                .adds = adds,
                                .parameters = parameters,
                                .keep = stage.keep.get(),
                                .batch = &batch});
      for (Tensor* gradient : gradients) device_.zero(*gradient);
      if (node.trained)
        stage.kernel->parameter_gradient({.inputs = inputs,
                                          .output_error = stage.error.get(),
                                          .gradients = gradients,
                                          .state = state,
                                          .keep = stage.keep.get(),
                                          .batch = &batch});
    }
    device_.synchronize();
  }

  void update(const UpdateArguments& arguments) {
    for (Stage& stage : stages_)
      for (size_t p = 0; p < stage.parameters.size(); ++p) {
        if (stage.slots.size() <= p) stage.slots.push_back(make_slots(stage, p, arguments.optimizer.slots()));
        device_.update(arguments, *stage.parameters[p], *stage.gradients[p], pointers(stage.slots[p]));
      }
  }

 private:
  struct Stage {
    std::unique_ptr<Kernel> kernel;
    std::vector<std::unique_ptr<Tensor>> parameters, gradients, state;
    std::vector<std::vector<std::unique_ptr<Tensor>>> slots;  // per parameter
    std::unique_ptr<Tensor> keep, output, error;
  };

  KernelSpec spec_of(const Node& node) const {
    KernelSpec spec;
    spec.layer = node.layer.name;
    spec.operation = node.layer.operation;
    spec.inputs = node.input_shapes;
    spec.output = node.output;
    spec.micro_batch = batch_;
    if (const auto* conv = std::get_if<Conv2d>(&spec.operation)) spec.bias = conv->bias;
    if (const auto* dense = std::get_if<Dense>(&spec.operation)) spec.bias = dense->bias;
    spec.trained = node.trained;
    spec.steps = step_map_of(graph_, node.inputs[0]);
    return spec;
  }

  std::vector<std::unique_ptr<Tensor>> make_slots(const Stage& stage, size_t parameter, int count) {
    std::vector<std::unique_ptr<Tensor>> slots;
    for (int i = 0; i < count; ++i) {
      slots.push_back(std::move(stage.kernel->make_gradients()[parameter]));
      device_.zero(*slots.back());
    }
    return slots;
  }

  std::unique_ptr<Tensor> tensor(int64_t node) { return device_.make_tensor({.shape = graph_.shape_of(node), .batch = batch_}); }
  int64_t nodes() const { return static_cast<int64_t>(stages_.size()); }
  Stage& at(int64_t node) { return stages_[static_cast<size_t>(node)]; }

  std::vector<const Tensor*> inputs_of(int64_t node) {
    std::vector<const Tensor*> inputs;
    for (const int64_t source : graph_.node(node).inputs)
      inputs.push_back(source == kNetworkInput ? input_.get() : at(source).output.get());
    return inputs;
  }

  Tensor* find(const std::string& name) {
    if (name == "input") return input_.get();
    if (name == "input.error") return input_error_.get();
    const size_t dot = name.find('.');
    const int64_t index = graph_.index_of(name.substr(0, dot));
    Stage& stage = at(index);
    if (dot == std::string::npos) return stage.output.get();
    const bool gradient = name.ends_with(".gradient");
    std::string tensor = name.substr(dot + 1);
    for (const std::string_view suffix : {".gradient", ".after"})
      if (tensor.ends_with(suffix)) tensor.resize(tensor.size() - suffix.size());
    size_t parameter = 0, statistic = 0;
    for (const ParameterSpec& spec : graph_.node(index).parameters) {
      if (spec.tensor == tensor) {
        if (!spec.trained) return stage.state[statistic].get();
        return (gradient ? stage.gradients : stage.parameters)[parameter].get();
      }
      ++(spec.trained ? parameter : statistic);
    }
    MILLRACE_CHECK(false, "no tensor called {}", name);
  }

  Device& device_;
  const Graph& graph_;
  int64_t batch_;
  std::unique_ptr<Tensor> input_, input_error_;
  std::vector<Stage> stages_;
};

}  // namespace millrace::testing
