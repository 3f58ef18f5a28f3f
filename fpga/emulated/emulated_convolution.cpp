// Convolutions and dense layers on the functional model of the engine.
#include <algorithm>
#include <variant>

#include "core/base/random.h"
#include "core/device/activation_math.h"
#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/convolution_sums.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

namespace {

std::vector<double> reals_of(std::span<const int16_t> elements, FixedFormat format) {
  std::vector<double> values;
  values.reserve(elements.size());
  for (const int16_t element : elements) values.push_back(real_value(element, format.fraction_bits));
  return values;
}

double error_scale_of(const MicroBatch* batch) { return batch == nullptr ? 1 : batch->error_scale; }

// What both arithmetics share: parameters, and slices of samples.
class EngineKernel : public Kernel {
 public:
  EngineKernel(const KernelSpec& spec, const ConvolutionShape& shape, Device& host)
      : spec_(spec), shape_(shape), host_(host), prototype_(host.make_kernel(spec)) {}

 protected:
  template <typename T>
  std::span<T> input_of(std::span<T> all, int64_t sample) const {
    return all.subspan(static_cast<size_t>(sample) * shape_.input_elements(), shape_.input_elements());
  }
  template <typename T>
  std::span<T> output_of(std::span<T> all, int64_t sample) const {
    return all.subspan(static_cast<size_t>(sample) * shape_.output_elements(), shape_.output_elements());
  }
  std::vector<double> read(const Tensor* tensor) const { return values_of(host_, *host_of(tensor)); }
  void write(Tensor* tensor, std::span<const double> values) const { set_values(host_, *host_of(tensor), values); }

  KernelSpec spec_;
  ConvolutionShape shape_;
  Device& host_;
  std::unique_ptr<Kernel> prototype_;  // makes the parameters
};

class FixedConvolution final : public EngineKernel {
 public:
  FixedConvolution(const KernelSpec& spec, const ConvolutionShape& shape, Device& host, LayerArithmetic& counters)
      : EngineKernel(spec, shape, host), counters_(counters) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    const EngineFormats formats;
    auto tensors = wrapped_all(prototype_->make_parameters());
    for (size_t i = 0; i < tensors.size(); ++i)
      static_cast<EmulatedTensor&>(*tensors[i]).role = ParameterRole{spec_.layer, i == 0 ? formats.weight : formats.sum,
                                                                     stream_id(i == 0 ? "weight update" : "bias update", spec_.layer)};
    return tensors;
  }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return wrapped_all(prototype_->make_gradients()); }

  void forward(const ForwardArguments& arguments) override {
    const EngineFormats formats;
    const std::vector<int16_t> input = elements_of(read(arguments.inputs[0]), formats.activation, counters_.inputs);
    const std::vector<int16_t> weight = elements_of(read(arguments.parameters[0]), formats.weight, counters_.weights);
    std::vector<int16_t> before;
    if (spec_.adds_to_output) before = elements_of(read(arguments.output), formats.sum, counters_.inputs);
    std::vector<int16_t> sums;
    for (int64_t sample = 0; sample < spec_.micro_batch; ++sample) {
      std::vector<int32_t> accumulators(shape_.output_elements());
      if (spec_.adds_to_output)
        accumulators = from_partials(output_of(std::span<const int16_t>(before), sample), formats.sum_shift(), counters_.sums);
      accumulate_forward(shape_, input_of(std::span<const int16_t>(input), sample), weight, accumulators, counters_.sums);
      const std::vector<int16_t> rounded = to_elements(accumulators, formats.sum_shift(), counters_.sums);
      sums.insert(sums.end(), rounded.begin(), rounded.end());
    }
    if (spec_.bias) {
      const std::vector<int16_t> bias = elements_of(read(arguments.parameters[1]), formats.sum, counters_.weights);
      const std::vector<int16_t> ones(bias.size(), 1);
      std::vector<int16_t> biased;
      for (int64_t sample = 0; sample < spec_.micro_batch; ++sample) {
        const std::vector<int16_t> some = scaled_and_offset(output_of(std::span<const int16_t>(sums), sample), shape_.outputs,
                                                            {.scale = ones, .offset = bias}, counters_.outputs);
        biased.insert(biased.end(), some.begin(), some.end());
      }
      sums = std::move(biased);
    }
    std::vector<double> values = reals_of(sums, formats.sum);
    if (spec_.activation) {
      const ActivationMath<double> activation(*spec_.activation);
      for (double& value : values)
        value = real_value(quantized(activation(value), formats.activation, counters_.outputs), formats.activation.fraction_bits);
    }
    write(arguments.output, values);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    const EngineFormats formats = default_formats(error_scale_of(arguments.batch));
    std::vector<double> error = read(arguments.output_error);
    if (spec_.activation) {
      const ActivationMath<double> activation(*spec_.activation);
      const std::vector<double> output = read(arguments.output);
      for (size_t i = 0; i < error.size(); ++i) error[i] *= activation.derivative(output[i]);
    }
    const std::vector<int16_t> raw = elements_of(error, formats.error, counters_.errors);
    write(arguments.output_error, reals_of(raw, formats.error));
    if (arguments.input_errors.empty() || arguments.input_errors[0] == nullptr) return;
    const std::vector<int16_t> weight = elements_of(read(arguments.parameters[0]), formats.weight, counters_.weights);
    const bool adds = arguments.adds[0] != 0;
    std::vector<double> input_error;
    if (adds) input_error = read(arguments.input_errors[0]);
    input_error.resize(shape_.input_elements() * static_cast<size_t>(spec_.micro_batch));
    for (int64_t sample = 0; sample < spec_.micro_batch; ++sample) {
      std::vector<int32_t> accumulators(shape_.input_elements());
      accumulate_error_back(shape_, output_of(std::span<const int16_t>(raw), sample), weight, accumulators, counters_.errors);
      const std::vector<int16_t> rounded = to_elements(accumulators, formats.error_shift(), counters_.errors);
      const std::span<double> target = input_of(std::span<double>(input_error), sample);
      for (size_t i = 0; i < target.size(); ++i) {
        const double value = real_value(rounded[i], formats.error.fraction_bits) + (adds ? target[i] : 0.0);
        target[i] = adds ? real_value(quantized(value, formats.error, counters_.errors), formats.error.fraction_bits) : value;
      }
    }
    write(arguments.input_errors[0], input_error);
  }

  void parameter_gradient(const GradientArguments& arguments) override {
    if (arguments.gradients.empty()) return;
    const EngineFormats formats = default_formats(error_scale_of(arguments.batch));
    const std::vector<int16_t> input = elements_of(read(arguments.inputs[0]), formats.activation, counters_.inputs);
    const std::vector<int16_t> error = elements_of(read(arguments.output_error), formats.error, counters_.errors);
    std::vector<int32_t> weight = accumulators_of(arguments, 0, formats.gradient_fraction_bits());
    for (int64_t sample = 0; sample < spec_.micro_batch; ++sample)
      accumulate_gradient(shape_, input_of(std::span<const int16_t>(input), sample), output_of(std::span<const int16_t>(error), sample),
                          weight, counters_.gradients);
    store(arguments.gradients[0], weight, formats.gradient_fraction_bits());
    if (!spec_.bias) return;
    std::vector<int32_t> bias = accumulators_of(arguments, 1, formats.error.fraction_bits);
    for (int64_t sample = 0; sample < spec_.micro_batch; ++sample)
      accumulate_bias_gradient(shape_, output_of(std::span<const int16_t>(error), sample), bias, counters_.gradients);
    store(arguments.gradients[1], bias, formats.error.fraction_bits);
  }

  std::string implementation() const override { return "conv_ce, 16 bits fixed point"; }

 private:
  std::vector<int32_t> accumulators_of(const GradientArguments& arguments, size_t index, int fraction_bits) const {
    std::vector<int32_t> accumulators(static_cast<size_t>(arguments.gradients[index]->elements()));
    if (!arguments.adds) return accumulators;
    const std::vector<double> values = read(arguments.gradients[index]);
    for (size_t i = 0; i < values.size(); ++i) accumulators[i] = wrapped(static_cast<int64_t>(std::ldexp(values[i], fraction_bits)));
    return accumulators;
  }
  void store(Tensor* tensor, std::span<const int32_t> accumulators, int fraction_bits) const {
    std::vector<double> values;
    values.reserve(accumulators.size());
    for (const int32_t accumulator : accumulators) values.push_back(real_value(accumulator, fraction_bits));
    write(tensor, values);
  }

  LayerArithmetic& counters_;
};

class FloatConvolution final : public EngineKernel {
 public:
  using EngineKernel::EngineKernel;

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return wrapped_all(prototype_->make_parameters()); }

  void forward(const ForwardArguments& arguments) override {
    const std::vector<float> input = floats(arguments.inputs[0]);
    const std::vector<float> weight = floats(arguments.parameters[0]);
    std::vector<float> sums(shape_.output_elements() * static_cast<size_t>(spec_.micro_batch));
    for (int64_t sample = 0; sample < spec_.micro_batch; ++sample)
      add_forward<float, float>(shape_, input_of(std::span<const float>(input), sample), weight, output_of(std::span<float>(sums), sample));
    if (spec_.bias) {
      const std::vector<float> bias = floats(arguments.parameters[1]);
      const size_t plane = shape_.output_elements() / bias.size();
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += bias[i / plane % bias.size()];
    }
    if (spec_.adds_to_output) {
      const std::vector<float> before = floats(arguments.output);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += before[i];
    }
    if (spec_.activation) {
      const ActivationMath<float> activation(*spec_.activation);
      for (float& sum : sums) sum = activation(sum);
    }
    store(arguments.output, sums);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    std::vector<float> error = floats(arguments.output_error);
    if (spec_.activation) {
      const ActivationMath<float> activation(*spec_.activation);
      const std::vector<float> output = floats(arguments.output);
      for (size_t i = 0; i < error.size(); ++i) error[i] *= activation.derivative(output[i]);
      store(arguments.output_error, error);
    }
    if (arguments.input_errors.empty() || arguments.input_errors[0] == nullptr) return;
    const std::vector<float> weight = floats(arguments.parameters[0]);
    std::vector<float> input_error(shape_.input_elements() * static_cast<size_t>(spec_.micro_batch));
    for (int64_t sample = 0; sample < spec_.micro_batch; ++sample)
      add_error_back<float, float>(shape_, output_of(std::span<const float>(error), sample), weight,
                                   input_of(std::span<float>(input_error), sample));
    if (arguments.adds[0] != 0) {
      const std::vector<float> before = floats(arguments.input_errors[0]);
      for (size_t i = 0; i < input_error.size(); ++i) input_error[i] += before[i];
    }
    store(arguments.input_errors[0], input_error);
  }

  void parameter_gradient(const GradientArguments& arguments) override {
    if (arguments.gradients.empty()) return;
    const std::vector<float> input = floats(arguments.inputs[0]);
    const std::vector<float> error = floats(arguments.output_error);
    std::vector<float> weight(shape_.weight_elements());
    for (int64_t sample = 0; sample < spec_.micro_batch; ++sample)
      add_gradient<float, float>(shape_, input_of(std::span<const float>(input), sample), output_of(std::span<const float>(error), sample),
                                 weight);
    add_to(arguments.gradients[0], weight, arguments.adds);
    if (!spec_.bias) return;
    std::vector<float> bias(static_cast<size_t>(shape_.outputs));
    const size_t plane = shape_.output_elements() / bias.size();
    for (size_t i = 0; i < error.size(); ++i) bias[i / plane % bias.size()] += error[i];
    add_to(arguments.gradients[1], bias, arguments.adds);
  }

  std::string implementation() const override { return "conv_ce, single precision"; }

 private:
  std::vector<float> floats(const Tensor* tensor) const {
    std::vector<float> values(static_cast<size_t>(tensor->elements()));
    host_.read(*host_of(tensor), whole(*tensor), std::span<float>(values));
    return values;
  }
  void store(Tensor* tensor, std::span<const float> values) const { host_.write(*host_of(tensor), whole(*tensor), values); }
  void add_to(Tensor* gradient, std::vector<float>& values, bool adds) const {
    if (adds) {
      const std::vector<float> before = floats(gradient);
      for (size_t i = 0; i < values.size(); ++i) values[i] += before[i];
    }
    store(gradient, values);
  }
};

}  // namespace

std::optional<ConvolutionShape> convolution_shape_of(const KernelSpec& spec) {
  const Shape& in = spec.inputs[0];
  if (const auto* conv = std::get_if<Conv2d>(&spec.operation))
    return ConvolutionShape{in.channels,      spec.output.channels, in.height,      in.width,    conv->kernel_h,
                            conv->kernel_w,   conv->stride_h,       conv->stride_w, conv->pad_h, conv->pad_w,
                            conv->dilation_h, conv->dilation_w,     conv->groups};
  if (std::holds_alternative<Dense>(spec.operation)) return ConvolutionShape{in.channels, spec.output.channels, in.height, in.width};
  return std::nullopt;
}

std::unique_ptr<Kernel> make_fixed_convolution(const KernelSpec& spec, const ConvolutionShape& shape, Device& host,
                                               LayerArithmetic& counters) {
  return std::make_unique<FixedConvolution>(spec, shape, host, counters);
}
std::unique_ptr<Kernel> make_float_convolution(const KernelSpec& spec, const ConvolutionShape& shape, Device& host) {
  return std::make_unique<FloatConvolution>(spec, shape, host);
}

}  // namespace millrace::emulated
