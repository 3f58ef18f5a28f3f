// Sigmoid and hyperbolic tangent as a board computes them, in fixed point: as a layer of their own, and behind any other kernel.
#include <utility>

#include "fpga/conv_ce/arithmetic/smooth_activation.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

namespace {

std::vector<double> real_values_of(std::span<const int16_t> elements, FixedFormat format) {
  std::vector<double> values;
  values.reserve(elements.size());
  for (const int16_t element : elements) values.push_back(real_value(element, format.fraction_bits));
  return values;
}

// What layers and fused activations share.
class SmoothKernel : public Kernel {
 public:
  SmoothKernel(const KernelSpec& spec, const Activation& activation, Device& host, LayerArithmetic& counters, const LayerFormats& book)
      : spec_(spec), activation_(activation), host_(host), counters_(counters), book_(book) {}

 protected:
  EngineFormats formats_for(const MicroBatch& batch) const { return counters_.formats = formats_of(book_, spec_.layer, batch.error_scale); }
  std::vector<int16_t> elements_in(const Tensor* tensor, FixedFormat format, ArithmeticCounters& counters) const {
    return elements_of(values_of(host_, *host_of(tensor)), format, counters);
  }
  SmoothActivation made_for(FixedFormat format) const { return *smooth_activation(activation_, format); }

  KernelSpec spec_;
  Activation activation_;
  Device& host_;
  LayerArithmetic& counters_;
  const LayerFormats& book_;
};

class SmoothLayer final : public SmoothKernel {
 public:
  using SmoothKernel::SmoothKernel;

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return {}; }

  void forward(const ForwardArguments& arguments) override {
    const FixedFormat format = formats_for(*arguments.batch).sum;
    const std::vector<int16_t> x = elements_in(arguments.inputs[0], format, counters_.inputs);
    set_values(host_, *host_of(arguments.output), real_values_of(smoothed(made_for(format), x, counters_.outputs), format));
  }

  void error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors.empty() || arguments.input_errors[0] == nullptr) return;
    const EngineFormats formats = formats_for(*arguments.batch);
    const FixedFormat format = formats.input_error;
    const SmoothActivation made = made_for(formats.sum);
    // From what it was given: another activation may be behind it.
    ArithmeticCounters again;
    const std::vector<int16_t> y = smoothed(made, elements_in(arguments.inputs[0], formats.sum, again), again);
    const std::vector<int16_t> before =
        smooth_back(made, y, elements_in(arguments.output_error, format, counters_.errors), counters_.errors);
    Tensor& to = *host_of(arguments.input_errors[0]);
    std::vector<double> values = real_values_of(before, format);
    if (arguments.adds[0] != 0) {
      const std::vector<double> there = values_of(host_, to);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = real_value(quantized(there[i] + values[i], format, counters_.errors), format.fraction_bits);
    }
    set_values(host_, to, values);
  }

  std::string implementation() const override { return "conv_ce's smooth activation, 16 bits fixed point"; }
};

// Behind a kernel that knows nothing of it.
class SmoothBehind final : public SmoothKernel {
 public:
  SmoothBehind(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book, std::unique_ptr<Kernel> inner)
      : SmoothKernel(spec, *spec.activation, host, counters, book), inner_(std::move(inner)) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return inner_->make_parameters(); }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return inner_->make_gradients(); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return inner_->make_state(); }
  std::unique_ptr<Tensor> make_keep() override { return inner_->make_keep(); }
  void parameters_changed(std::span<const Tensor* const> parameters) override { inner_->parameters_changed(parameters); }
  void parameter_gradient(const GradientArguments& arguments) override { inner_->parameter_gradient(arguments); }
  void commit_statistics(std::span<Tensor* const> state) override { inner_->commit_statistics(state); }
  std::string implementation() const override { return inner_->implementation(); }

  void forward(const ForwardArguments& arguments) override {
    inner_->forward(arguments);
    const FixedFormat format = formats_for(*arguments.batch).sum;
    const std::vector<int16_t> x = elements_in(arguments.output, format, counters_.outputs);
    set_values(host_, *host_of(arguments.output), real_values_of(smoothed(made_for(format), x, counters_.outputs), format));
  }

  void error_back(const ErrorBackArguments& arguments) override {
    const EngineFormats formats = formats_for(*arguments.batch);
    ArithmeticCounters again;
    const std::vector<int16_t> y = elements_in(arguments.output, formats.sum, again);
    const std::vector<int16_t> error = elements_in(arguments.output_error, formats.error, counters_.errors);
    set_values(host_, *host_of(arguments.output_error),
               real_values_of(smooth_back(made_for(formats.sum), y, error, counters_.errors), formats.error));
    inner_->error_back(arguments);
  }

 private:
  std::unique_ptr<Kernel> inner_;
};

}  // namespace

bool has_fixed_smooth_activation(const KernelSpec& spec, const LayerFormats& book) {
  const auto* layer = std::get_if<Activation>(&spec.operation);
  return layer != nullptr && !spec.activation && smooth_activation(*layer, formats_of(book, spec.layer, 1).sum).has_value();
}

std::unique_ptr<Kernel> make_fixed_smooth_activation(const KernelSpec& spec, Device& host, LayerArithmetic& counters,
                                                     const LayerFormats& book) {
  return std::make_unique<SmoothLayer>(spec, std::get<Activation>(spec.operation), host, counters, book);
}

bool has_fixed_smooth_behind(const KernelSpec& spec, const LayerFormats& book) {
  return spec.activation && role_of(spec.operation) != Role::kRecurrence &&
         smooth_activation(*spec.activation, formats_of(book, spec.layer, 1).sum).has_value();
}

std::unique_ptr<Kernel> make_fixed_smooth_behind(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book,
                                                 std::unique_ptr<Kernel> inner) {
  return std::make_unique<SmoothBehind>(spec, host, counters, book, std::move(inner));
}

}  // namespace millrace::emulated
