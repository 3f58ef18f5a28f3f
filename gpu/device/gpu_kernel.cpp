#include "gpu/device/gpu_kernel.h"

#include <fmt/format.h>

#include "core/device/kernel_checks.h"
#include "core/device/sequence.h"

namespace millrace::gpu {

std::vector<std::unique_ptr<Tensor>> GpuKernel::tensors_of(const std::vector<Shape>& shapes, std::string_view what) const {
  return translated([&] {
    std::vector<std::unique_ptr<Tensor>> tensors;
    for (const Shape& shape : shapes)
      tensors.push_back(std::make_unique<GpuTensor>(*context_, TensorSpec{.shape = shape, .batch = 1},
                                                    fmt::format("layer \"{}\": {}", spec_.layer, what)));
    return tensors;
  });
}

std::vector<std::unique_ptr<Tensor>> GpuKernel::make_parameters() { return tensors_of(parameter_shapes(), "parameters"); }
std::vector<std::unique_ptr<Tensor>> GpuKernel::make_state() { return tensors_of(state_shapes(), "state"); }

std::unique_ptr<Tensor> GpuKernel::make_keep() {
  if (keep_shape().elements() == 0) return nullptr;
  return std::move(tensors_of({keep_shape()}, "what a micro-batch keeps").front());
}

PartOfTime GpuKernel::part_of(const MicroBatch& batch) const {
  if (batch.chunks == 1) return {};
  const StepRange steps = chunk_of(batch, spec_.output.height);
  return {.steps = spec_.output.height, .begin = steps.begin, .count = steps.size()};
}

void GpuKernel::forward(const ForwardArguments& arguments) {
  translated([&] {
    check_inputs(spec_, arguments.inputs);
    check_like_output(spec_, arguments.output);
    run_forward(arguments);
    if (spec_.activation) {
      const GpuTensor& output = own(arguments.output);
      context_->run(Activate{.from = output.data(),
                             .to = output.data(),
                             .activation = ActivationMath<float>(*spec_.activation),
                             .elements = output_elements()},
                    {}, {&output.buffer()});
    }
    context_->end_of_calculation();
  });
}

void GpuKernel::error_back(const ErrorBackArguments& arguments) {
  translated([&] {
    check_inputs(spec_, arguments.inputs);
    if (spec_.activation) {
      check_like_output(spec_, arguments.output);
      check_like_output(spec_, arguments.output_error);
      const GpuTensor& output = own(arguments.output);
      const GpuTensor& error = own(arguments.output_error);
      context_->run(MultiplyByDerivative{.output = output.data(),
                                         .error = error.data(),
                                         .activation = ActivationMath<float>(*spec_.activation),
                                         .elements = output_elements()},
                    {&output.buffer()}, {&error.buffer()});
    }
    check_input_errors(spec_, arguments);
    run_error_back(arguments);
    context_->end_of_calculation();
  });
}

void GpuKernel::parameter_gradient(const GradientArguments& arguments) {
  translated([&] {
    check_inputs(spec_, arguments.inputs);
    run_gradient(arguments);
    context_->end_of_calculation();
  });
}

void GpuKernel::add_bias(const GpuTensor& bias, const GpuTensor& values) const {
  context_->run(AddBias{.values = values.data(),
                        .bias = bias.data(),
                        .channels = spec_.output.channels,
                        .plane = spec_.output.plane(),
                        .elements = output_elements()},
                {&bias.buffer()}, {&values.buffer()});
}

void GpuKernel::sum_channels(const GpuTensor& error, const GpuTensor& gradient, bool adds) const {
  context_->reduce(ChannelSum{.values = error.data(),
                              .sums = gradient.data(),
                              .plane = spec_.output.plane(),
                              .adds = adds,
                              .groups = spec_.output.channels,
                              .length = samples() * spec_.output.plane()},
                   {&error.buffer()}, {&gradient.buffer()});
}

const int32_t* ValidRows::write(Context& context, const KernelSpec& spec, const MicroBatch& batch) {
  const int64_t height = spec.inputs[0].height;
  valid_.clear();
  rows_ = 0;
  for (int64_t sample = 0; sample < spec.micro_batch; ++sample) {
    const int64_t valid = valid_steps(spec, batch, sample);
    valid_.push_back(static_cast<int32_t>(valid));
    rows_ += valid;
  }
  if (rows_ == height * spec.micro_batch) return nullptr;
  return numbers_.write(context, std::span<const int32_t>(valid_), "layer \"" + spec.layer + "\": lengths");
}

}  // namespace millrace::gpu
