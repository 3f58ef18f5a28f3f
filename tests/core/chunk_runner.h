// Runs one operation case in chunks of time on any device.
//
//   const OperationCase c = case_of(Recurrent{.hidden = 8}, {3, 12, 1}, 2);
//   const CaseResult result = run_in_chunks(*device, c, data_of(c), 4);       // to compare with run_case(*device, c, data)
//
// Of the results, all but the error before a fused activation and the score.
#pragma once

#include <memory>
#include <vector>

#include "core/base/check.h"
#include "tests/core/operation_runner.h"

namespace millrace::testing {

inline OperationCase case_of(const Operation& operation, const Shape& input, int64_t samples) {
  OperationCase c;
  c.spec.layer = "layer";
  c.spec.operation = operation;
  c.spec.inputs = {input};
  c.spec.output = infer_shape(operation, c.spec.inputs, "layer");
  c.spec.micro_batch = samples;
  c.adds = {0};
  c.seed = 5;
  return c;
}

// F of all chunks ascending, E descending, G once.
inline CaseResult run_in_chunks(Device& device, const OperationCase& c, const CaseData& data, int32_t chunks) {
  const auto kernel = device.make_kernel(c.spec);
  MILLRACE_CHECK(kernel->streams(), "{} takes sequences whole", c.spec.layer);
  const auto write_all = [&](std::vector<std::unique_ptr<Tensor>>& tensors, const std::vector<std::vector<double>>& values) {
    for (size_t i = 0; i < tensors.size(); ++i) device.write(*tensors[i], whole(*tensors[i]), std::span<const double>(values.at(i)));
  };
  auto parameters = kernel->make_parameters(), state = kernel->make_state(), gradients = kernel->make_gradients();
  write_all(parameters, data.parameters);
  write_all(state, data.state);
  write_all(gradients, data.gradients_before);
  const auto keep = kernel->make_keep();
  const auto x = tensor_with(device, c.spec.inputs[0], c.spec.micro_batch, data.inputs[0]);
  const auto y = tensor_with(device, c.spec.output, c.spec.micro_batch, data.output_before);
  const auto dy = tensor_with(device, c.spec.output, c.spec.micro_batch, data.output_error);
  const auto dx = tensor_with(device, c.spec.inputs[0], c.spec.micro_batch, data.input_errors_before[0]);
  kernel->parameters_changed(const_pointers(parameters));
  const std::vector<const Tensor*> inputs{x.get()};
  const std::vector<Tensor*> input_errors{dx.get()};
  const auto p = const_pointers(parameters);
  const auto s = pointers(state), g = pointers(gradients);
  MicroBatch batch = micro_batch_of(c, data);
  batch.chunks = chunks;
  for (batch.chunk = 0; batch.chunk < chunks; ++batch.chunk)
    kernel->forward({.inputs = inputs, .output = y.get(), .parameters = p, .state = s, .keep = keep.get(), .batch = &batch});
  for (batch.chunk = chunks - 1; batch.chunk >= 0; --batch.chunk)
    kernel->error_back({.inputs = inputs,
                        .output = y.get(),
                        .output_error = dy.get(),
                        .input_errors = input_errors,
                        .adds = c.adds,
                        .parameters = p,
                        .keep = keep.get(),
                        .batch = &batch});
  batch.chunk = 0;
  kernel->parameter_gradient({.inputs = inputs, .output_error = dy.get(), .gradients = g, .state = s, .keep = keep.get(), .batch = &batch});
  CaseResult result;
  result.output = values_of(device, *y);
  result.input_errors = {values_of(device, *dx)};
  for (const auto& tensor : gradients) result.gradients.push_back(values_of(device, *tensor));
  for (const auto& tensor : state) result.state.push_back(values_of(device, *tensor));
  return result;
}

}  // namespace millrace::testing
