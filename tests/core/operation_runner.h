// Runs one operation case (operation_cases.h) on any device: F, E, G, with all results back as doubles.
//
//   const CaseResult result = run_case(*make_reference_device(ElementType::kFloat64), c, data_of(c));
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "tests/core/operation_cases.h"

namespace millrace::testing {

struct CaseResult {
  std::vector<double> output;
  std::vector<double> output_error;  // before the fused activation
  std::vector<std::vector<double>> input_errors;
  std::vector<std::vector<double>> gradients;
  std::vector<std::vector<double>> state;
  Score score;
};

inline std::unique_ptr<Tensor> tensor_with(Device& device, const Shape& shape, int64_t batch, std::span<const double> values) {
  std::unique_ptr<Tensor> tensor = device.make_tensor({.shape = shape, .batch = batch});
  device.write(*tensor, whole(*tensor), values);
  return tensor;
}

inline std::vector<double> values_of(Device& device, const Tensor& tensor, ChannelRange channels) {
  std::vector<double> values(static_cast<size_t>(channels.size() * tensor.shape().plane() * tensor.batch()));
  device.read(tensor, channels, std::span<double>(values));
  return values;
}
inline std::vector<double> values_of(Device& device, const Tensor& tensor) { return values_of(device, tensor, whole(tensor)); }

inline std::vector<Tensor*> pointers(const std::vector<std::unique_ptr<Tensor>>& tensors) {
  std::vector<Tensor*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}
inline std::vector<const Tensor*> const_pointers(const std::vector<std::unique_ptr<Tensor>>& tensors) {
  std::vector<const Tensor*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

// A kernel with the tensors of its case; F can be run again after writing to `inputs` or `parameters`.
class CaseRun {
 public:
  CaseRun(Device& device, const OperationCase& c, const CaseData& data) : device_(device), case_(c), data_(data) {
    kernel_ = device.make_kernel(c.spec);
    for (size_t i = 0; i < c.spec.inputs.size(); ++i)
      inputs.push_back(tensor_with(device, c.spec.inputs[i], c.spec.micro_batch, data.inputs[i]));
    parameters = kernel_->make_parameters();
    write_all(parameters, data.parameters);
    state = kernel_->make_state();
    write_all(state, data.state);
    output = device.make_tensor({.shape = c.spec.output, .batch = c.spec.micro_batch});
    keep_ = kernel_->make_keep();
  }

  Score forward() {
    device_.write(*output, whole(*output), std::span<const double>(data_.output_before));
    kernel_->parameters_changed(const_pointers(parameters));
    const MicroBatch batch = micro_batch_of(case_, data_);
    Score score;
    const auto x = const_pointers(inputs), p = const_pointers(parameters);
    const auto s = pointers(state);
    kernel_->forward({.inputs = x,
                      .output = output.get(),
                      .parameters = p,
                      .state = s,
                      .keep = keep_.get(),
                      .batch = &batch,
                      .score = data_.labels.empty() ? nullptr : &score});
    device_.synchronize();
    return score;
  }

  CaseResult everything() {
    CaseResult result;
    result.score = forward();
    result.output = values_of(device_, *output);

    const MicroBatch batch = micro_batch_of(case_, data_);
    const KernelSpec& spec = case_.spec;
    const auto output_error = tensor_with(device_, spec.output, spec.micro_batch, data_.output_error);
    std::vector<std::unique_ptr<Tensor>> input_errors;
    for (size_t i = 0; i < spec.inputs.size(); ++i)
      input_errors.push_back(tensor_with(device_, spec.inputs[i], spec.micro_batch, data_.input_errors_before[i]));
    const auto x = const_pointers(inputs), p = const_pointers(parameters);
    const auto dx = pointers(input_errors), s = pointers(state);
    kernel_->error_back({.inputs = x,
                         .output = output.get(),
                         .output_error = output_error.get(),
                         .input_errors = dx,
                         .adds = case_.adds,
                         .parameters = p,
                         .keep = keep_.get(),
                         .batch = &batch});
    auto gradients = kernel_->make_gradients();
    write_all(gradients, data_.gradients_before);
    const auto g = pointers(gradients);
    if (spec.trained)
      kernel_->parameter_gradient(
          {.inputs = x, .output_error = output_error.get(), .gradients = g, .state = s, .keep = keep_.get(), .batch = &batch});
    device_.synchronize();

    result.output_error = values_of(device_, *output_error);
    for (const auto& tensor : input_errors) result.input_errors.push_back(values_of(device_, *tensor));
    for (const auto& tensor : gradients) result.gradients.push_back(values_of(device_, *tensor));
    for (const auto& tensor : state) result.state.push_back(values_of(device_, *tensor));
    return result;
  }

  Kernel& kernel() { return *kernel_; }
  Tensor* keep() { return keep_.get(); }

  std::vector<std::unique_ptr<Tensor>> inputs;
  std::vector<std::unique_ptr<Tensor>> parameters;
  std::vector<std::unique_ptr<Tensor>> state;
  std::unique_ptr<Tensor> output;

 private:
  void write_all(std::vector<std::unique_ptr<Tensor>>& tensors, const std::vector<std::vector<double>>& values) {
    for (size_t i = 0; i < tensors.size(); ++i) device_.write(*tensors[i], whole(*tensors[i]), std::span<const double>(values.at(i)));
  }

  Device& device_;
  const OperationCase& case_;
  const CaseData& data_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Tensor> keep_;
};

inline CaseResult run_case(Device& device, const OperationCase& c, const CaseData& data) { return CaseRun(device, c, data).everything(); }

// |a - b| / |b| over the Euclidean norms; |a - b| where b vanishes.
inline double normwise_difference(std::span<const double> a, std::span<const double> b) {
  double difference = a.size() == b.size() ? 0 : INFINITY;
  double norm = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

}  // namespace millrace::testing
