#include "core/cpu/trial.h"

#include <array>
#include <utility>

#include "core/base/index.h"
#include "core/base/random.h"

namespace millrace::cpu {

double read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

clockid_t clock_for(int threads) { return threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC; }

Trial::Trial(std::unique_ptr<Device> device, const KernelSpec& spec) : device_(std::move(device)), kernel_(device_->make_kernel(spec)) {
  input_ = filled(spec.inputs[0], spec.micro_batch);
  output_ = filled(spec.output, spec.micro_batch);
  output_error_ = filled(spec.output, spec.micro_batch);
  input_error_ = filled(spec.inputs[0], spec.micro_batch);
  parameters_ = kernel_->make_parameters();
  gradients_ = kernel_->make_gradients();
  for (const auto& parameter : parameters_) {
    fill(*parameter);
    parameter_pointers_.push_back(parameter.get());
  }
  for (const auto& gradient : gradients_) gradient_pointers_.push_back(gradient.get());
}

double Trial::seconds(Phase phase, int threads) {
  const double begin = read_clock(clock_for(threads));
  run(phase);
  return read_clock(clock_for(threads)) - begin;
}

double Trial::seconds_after_update(Phase phase, int threads) {
  kernel_->parameters_changed(parameter_pointers_);
  return seconds(phase, threads);
}

void Trial::fill(Tensor& tensor) {
  const Philox draw(1, stream_id("tune"));
  std::vector<float> values(to_size(tensor.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = draw.uniform(i) - 0.5f;
  device_->write(tensor, whole(tensor), std::span<const float>(values));
}

std::unique_ptr<Tensor> Trial::filled(const Shape& shape, int64_t batch) {
  auto tensor = device_->make_tensor({.shape = shape, .batch = batch});
  fill(*tensor);
  return tensor;
}

void Trial::run(Phase phase) {
  const std::array<const Tensor*, 1> inputs{input_.get()};
  const std::array<Tensor*, 1> input_errors{input_error_.get()};
  const std::array<uint8_t, 1> adds{0};
  switch (phase) {
    case Phase::kForward: {
      ForwardArguments arguments;
      arguments.inputs = inputs;
      arguments.output = output_.get();
      arguments.parameters = parameter_pointers_;
      return kernel_->forward(arguments);
    }
    case Phase::kErrorBack: {
      ErrorBackArguments arguments;
      arguments.inputs = inputs;
      arguments.output = output_.get();
      arguments.output_error = output_error_.get();
      arguments.input_errors = input_errors;
      arguments.adds = adds;
      arguments.parameters = parameter_pointers_;
      return kernel_->error_back(arguments);
    }
    case Phase::kParameterGradient: {
      GradientArguments arguments;
      arguments.inputs = inputs;
      arguments.output_error = output_error_.get();
      arguments.gradients = gradient_pointers_;
      arguments.adds = false;
      return kernel_->parameter_gradient(arguments);
    }
  }
}

}  // namespace millrace::cpu
