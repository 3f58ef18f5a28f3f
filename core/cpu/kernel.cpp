#include "core/cpu/kernel.h"

#include <utility>

#include "core/base/check.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

CpuKernel::CpuKernel(std::shared_ptr<Engine> engine, KernelSpec spec) : engine_(std::move(engine)), spec_(std::move(spec)) {}

Layout CpuKernel::layout_of(const Shape& shape) const {
  return {.samples = spec_.micro_batch,
          .channels = shape.channels,
          .plane = shape.plane(),
          .block = channel_block(shape, engine_->vector_length)};
}

void CpuKernel::forward(const ForwardArguments& arguments) {
  const ComputeScope scope(threads());
  check_inputs(arguments.inputs);
  check_like_output(arguments.output);
  run_forward(arguments);
  if (spec_.activation && !fuses_activation()) activate_tensor(threads(), *spec_.activation, own(arguments.output));
}

void CpuKernel::error_back(const ErrorBackArguments& arguments) {
  const ComputeScope scope(threads());
  check_inputs(arguments.inputs);
  if (spec_.activation) {
    check_like_output(arguments.output);
    check_like_output(arguments.output_error);
    const float* output = own(arguments.output).data();
    float* error = own(arguments.output_error).data();
    parallel_chunks(threads(), own(arguments.output).stored(),
                    [&](int64_t begin, int64_t size) { multiply_by_derivative(*spec_.activation, output + begin, error + begin, size); });
  }
  for (size_t input = 0; input < arguments.input_errors.size(); ++input) {
    if (arguments.input_errors[input] == nullptr) continue;
    MILLRACE_CHECK(arguments.adds.size() == arguments.input_errors.size(), "{}: {} add flags for {} input errors", spec_.layer,
                   arguments.adds.size(), arguments.input_errors.size());
    MILLRACE_CHECK(arguments.input_errors[input]->shape() == spec_.inputs[input], "{}: error of input {} is {}, expected {}", spec_.layer,
                   input, text_of(arguments.input_errors[input]->shape()), text_of(spec_.inputs[input]));
  }
  run_error_back(arguments);
}

void CpuKernel::parameter_gradient(const GradientArguments& arguments) {
  const ComputeScope scope(threads());
  check_inputs(arguments.inputs);
  run_gradient(arguments);
}

void CpuKernel::check_inputs(std::span<const Tensor* const> inputs) const {
  MILLRACE_CHECK(inputs.size() == spec_.inputs.size(), "{}: {} inputs, expected {}", spec_.layer, inputs.size(), spec_.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    MILLRACE_CHECK(inputs[i]->shape() == spec_.inputs[i] && inputs[i]->batch() == spec_.micro_batch,
                   "{}: input {} is {} x {}, expected {} x {}", spec_.layer, i, inputs[i]->batch(), text_of(inputs[i]->shape()),
                   spec_.micro_batch, text_of(spec_.inputs[i]));
}

void CpuKernel::check_like_output(const Tensor* tensor) const {
  MILLRACE_CHECK(tensor != nullptr && tensor->shape() == spec_.output && tensor->batch() == spec_.micro_batch,
                 "{}: output is {}, expected {} x {}", spec_.layer,
                 tensor == nullptr ? "missing" : fmt::format("{} x {}", tensor->batch(), text_of(tensor->shape())), spec_.micro_batch,
                 text_of(spec_.output));
}

void activate_tensor(int threads, const Activation& activation, CpuTensor& tensor) {
  float* values = tensor.data();
  parallel_chunks(threads, tensor.stored(),
                  [&](int64_t begin, int64_t size) { activate(activation, values + begin, values + begin, size); });
  if (activation.kind == ActivationKind::kSigmoid) clear_padding(threads, tensor.layout(), values);
}

}  // namespace millrace::cpu
