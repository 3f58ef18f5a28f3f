// Convolutions and dense layers on the functional model of the engine.
#include <algorithm>
#include <variant>

#include "core/base/index.h"
#include "core/base/random.h"
#include "core/device/activation_math.h"
#include "fpga/conv_ce/arithmetic/convolution_sums.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
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

// What both arithmetics share: parameters, and slices of samples.
class EngineKernel : public Kernel {
 public:
  EngineKernel(const KernelSpec& spec, const ConvolutionShape& shape, Device& host)
      : spec_(spec), shape_(shape), host_(host), prototype_(host.make_kernel(spec)) {}

 protected:
  template <typename T>
  std::span<T> input_of(std::span<T> all, int64_t sample) const {
    return all.subspan(to_size(sample) * shape_.input_elements(), shape_.input_elements());
  }
  template <typename T>
  std::span<T> output_of(std::span<T> all, int64_t sample) const {
    return all.subspan(to_size(sample) * shape_.output_elements(), shape_.output_elements());
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
  FixedConvolution(const KernelSpec& spec, const ConvolutionShape& shape, Device& host, LayerArithmetic& counters,
                   ConvolutionEngine& engine, const LayerFormats& book)
      : EngineKernel(spec, shape, host), counters_(counters), engine_(engine), book_(book) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    const EngineFormats formats = formats_of(book_, spec_.layer, 1);
    auto tensors = wrapped_all(prototype_->make_parameters());
    for (size_t i = 0; i < tensors.size(); ++i)
      static_cast<EmulatedTensor&>(*tensors[i]).role = ParameterRole{spec_.layer, i == 0 ? formats.weight : formats.sum,
                                                                     stream_id(i == 0 ? "weight update" : "bias update", spec_.layer)};
    return tensors;
  }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return wrapped_all(prototype_->make_gradients()); }

  void forward(const ForwardArguments& arguments) override {
    const EngineFormats formats = formats_for(arguments.batch);
    const std::vector<int16_t> input = elements_of(read(arguments.inputs[0]), formats.activation, counters_.inputs);
    const std::vector<int16_t> weight = elements_of(read(arguments.parameters[0]), formats.weight, counters_.weights);
    std::vector<int16_t> before;
    if (spec_.adds_to_output) before = elements_of(read(arguments.output), formats.sum, counters_.inputs);
    std::vector<int16_t> bias;
    if (spec_.bias) bias = elements_of(read(arguments.parameters[1]), formats.sum, counters_.weights);
    PhaseCounters counters;
    const std::vector<int16_t> sums =
        engine_.forward({shape_, spec_.micro_batch, formats.sum_shift()},
                        {.input = input, .weight = weight, .before = before, .bias = bias}, arguments.parameters[0], counters);
    counters_.sums += counters.first;
    counters_.outputs += counters.second;
    std::vector<double> values = reals_of(sums, formats.sum);
    if (spec_.activation) {
      const ActivationMath<double> activation(*spec_.activation);
      for (double& value : values)
        value = real_value(quantized(activation(value), formats.sum, counters_.outputs), formats.sum.fraction_bits);
    }
    write(arguments.output, values);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    const EngineFormats formats = formats_for(arguments.batch);
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
    input_error.resize(shape_.input_elements() * to_size(spec_.micro_batch));
    const std::vector<int16_t> rounded =
        engine_.error_back({shape_, spec_.micro_batch, formats.error_shift()}, raw, weight, arguments.parameters[0], counters_.errors);
    for (size_t i = 0; i < input_error.size(); ++i) {
      const double value = real_value(rounded[i], formats.input_error.fraction_bits) + (adds ? input_error[i] : 0.0);
      input_error[i] =
          adds ? real_value(quantized(value, formats.input_error, counters_.errors), formats.input_error.fraction_bits) : value;
    }
    write(arguments.input_errors[0], input_error);
  }

  void parameter_gradient(const GradientArguments& arguments) override {
    if (arguments.gradients.empty()) return;
    const EngineFormats formats = formats_for(arguments.batch);
    const std::vector<int16_t> input = elements_of(read(arguments.inputs[0]), formats.activation, counters_.inputs);
    const std::vector<int16_t> error = elements_of(read(arguments.output_error), formats.error, counters_.errors);
    const int fraction_bits[] = {formats.gradient_fraction_bits(), formats.error.fraction_bits};
    std::shared_ptr<GradientSum> sum = arguments.adds ? sum_under_way(arguments, fraction_bits) : nullptr;
    if (sum == nullptr) {
      sum = engine_.make_gradient_sum(shape_, spec_.bias, counters_.gradients);
      if (arguments.adds) {
        const std::vector<int32_t> weight = accumulators_of(arguments.gradients[0], fraction_bits[0]);
        sum->set(weight, spec_.bias ? accumulators_of(arguments.gradients[1], fraction_bits[1]) : std::vector<int32_t>{});
      }
    }
    sum->add({shape_, spec_.micro_batch}, input, error);
    for (size_t part = 0; part < (spec_.bias ? 2 : 1); ++part) leave(arguments.gradients[part], {sum, part, fraction_bits[part], {}});
  }

  std::string implementation() const override { return engine_.description(); }

 private:
  EngineFormats formats_for(const MicroBatch* batch) const {
    return counters_.formats = formats_of(book_, spec_.layer, batch == nullptr ? 1 : batch->error_scale);
  }
  // The sum that both gradients still lie in, at the same fraction bits; null where there is none.
  std::shared_ptr<GradientSum> sum_under_way(const GradientArguments& arguments, const int (&fraction_bits)[2]) const {
    std::shared_ptr<GradientSum> sum;
    for (size_t part = 0; part < (spec_.bias ? 2 : 1); ++part) {
      const PendingGradient* pending = static_cast<EmulatedTensor*>(arguments.gradients[part])->pending();
      if (pending == nullptr || pending->part != part || pending->fraction_bits != fraction_bits[part]) return nullptr;
      if (part > 0 && pending->sum != sum) return nullptr;
      sum = pending->sum;
    }
    return sum;
  }
  std::vector<int32_t> accumulators_of(const Tensor* gradient, int fraction_bits) const {
    std::vector<int32_t> accumulators(to_size(gradient->elements()));
    const std::vector<double> values = read(gradient);
    for (size_t i = 0; i < values.size(); ++i) accumulators[i] = wrapped(static_cast<int64_t>(std::ldexp(values[i], fraction_bits)));
    return accumulators;
  }
  void leave(Tensor* gradient, PendingGradient pending) const {
    pending.settle = [&host = host_, sum = pending.sum, part = pending.part, bits = pending.fraction_bits](Tensor& tensor) {
      std::vector<double> values;
      for (const int32_t accumulator : sum->read(part)) values.push_back(real_value(accumulator, bits));
      set_values(host, tensor, values);
    };
    static_cast<EmulatedTensor*>(gradient)->leave_with(std::move(pending));
  }

  LayerArithmetic& counters_;
  ConvolutionEngine& engine_;
  const LayerFormats& book_;
};

class FloatConvolution final : public EngineKernel {
 public:
  using EngineKernel::EngineKernel;

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return wrapped_all(prototype_->make_parameters()); }

  void forward(const ForwardArguments& arguments) override {
    const std::vector<float> input = floats(arguments.inputs[0]);
    const std::vector<float> weight = floats(arguments.parameters[0]);
    std::vector<float> sums(shape_.output_elements() * to_size(spec_.micro_batch));
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
    std::vector<float> input_error(shape_.input_elements() * to_size(spec_.micro_batch));
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
    std::vector<float> bias(to_size(shape_.outputs));
    const size_t plane = shape_.output_elements() / bias.size();
    for (size_t i = 0; i < error.size(); ++i) bias[i / plane % bias.size()] += error[i];
    add_to(arguments.gradients[1], bias, arguments.adds);
  }

  std::string implementation() const override { return "conv_ce, single precision"; }

 private:
  std::vector<float> floats(const Tensor* tensor) const {
    std::vector<float> values(to_size(tensor->elements()));
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
                                               LayerArithmetic& counters, ConvolutionEngine& engine, const LayerFormats& book) {
  return std::make_unique<FixedConvolution>(spec, shape, host, counters, engine, book);
}
std::unique_ptr<Kernel> make_float_convolution(const KernelSpec& spec, const ConvolutionShape& shape, Device& host) {
  return std::make_unique<FloatConvolution>(spec, shape, host);
}

}  // namespace millrace::emulated
