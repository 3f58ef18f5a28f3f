#include "core/cpu/kernel.h"

#include <utility>

#include "core/cpu/vector_math.h"
#include "core/device/activation_math.h"
#include "core/device/kernel_checks.h"

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
  check_inputs(spec_, arguments.inputs);
  check_like_output(spec_, arguments.output);
  run_forward(arguments);
  if (spec_.activation && !fuses_activation()) activate_tensor(threads(), *spec_.activation, own(arguments.output));
}

void CpuKernel::error_back(const ErrorBackArguments& arguments) {
  const ComputeScope scope(threads());
  check_inputs(spec_, arguments.inputs);
  if (spec_.activation) {
    check_like_output(spec_, arguments.output);
    check_like_output(spec_, arguments.output_error);
    const float* output = own(arguments.output).data();
    float* error = own(arguments.output_error).data();
    parallel_chunks(threads(), own(arguments.output).stored(),
                    [&](int64_t begin, int64_t size) { multiply_by_derivative(*spec_.activation, output + begin, error + begin, size); });
  }
  check_input_errors(spec_, arguments);
  run_error_back(arguments);
}

void CpuKernel::parameter_gradient(const GradientArguments& arguments) {
  const ComputeScope scope(threads());
  check_inputs(spec_, arguments.inputs);
  run_gradient(arguments);
}

void activate_tensor(int threads, const Activation& activation, CpuTensor& tensor) {
  float* values = tensor.data();
  parallel_chunks(threads, tensor.stored(),
                  [&](int64_t begin, int64_t size) { activate(activation, values + begin, values + begin, size); });
  if (ActivationMath<float>(activation)(0.0f) != 0.0f) clear_padding(threads, tensor.layout(), values);
}

}  // namespace millrace::cpu
