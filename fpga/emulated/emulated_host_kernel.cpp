// Layers that are no convolution, on the host; in fixed point what they give out is rounded.
#include "core/base/random.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

namespace {

class HostKernel final : public Kernel {
 public:
  HostKernel(const KernelSpec& spec, Device& host, LayerArithmetic& counters, bool rounds, const LayerFormats& book)
      : spec_(spec), host_(host), counters_(counters), rounds_(rounds), book_(book), kernel_(host.make_kernel(spec)) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    auto tensors = wrapped_all(kernel_->make_parameters());
    // The bias behind a divided sum is the engine's own.
    if (rounds_ && spec_.finish)
      for (auto& tensor : tensors)
        static_cast<EmulatedTensor&>(*tensor).role =
            ParameterRole{spec_.layer, formats_of(book_, spec_.layer, 1).sum, stream_id("bias update", spec_.layer)};
    return tensors;
  }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return wrapped_all(kernel_->make_gradients()); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return wrapped_all(kernel_->make_state()); }
  std::unique_ptr<Tensor> make_keep() override {
    auto keep = kernel_->make_keep();
    return keep == nullptr ? nullptr : std::make_unique<EmulatedTensor>(std::move(keep));
  }
  bool streams() const override { return kernel_->streams(); }
  void parameters_changed(std::span<const Tensor* const> parameters) override { kernel_->parameters_changed(hosts_of(parameters)); }

  void forward(const ForwardArguments& arguments) override {
    const auto inputs = hosts_of(arguments.inputs);
    const auto parameters = hosts_of(arguments.parameters);
    const auto state = hosts_of(arguments.state);
    ForwardArguments inner = arguments;
    inner.inputs = inputs;
    inner.output = host_of(arguments.output);
    inner.parameters = parameters;
    inner.state = state;
    inner.keep = host_of(arguments.keep);
    kernel_->forward(inner);
    if (rounds_ && inner.output != nullptr) round_values(host_, *inner.output, formats_for(arguments.batch).sum, counters_.outputs);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    const auto inputs = hosts_of(arguments.inputs);
    const auto errors = hosts_of(arguments.input_errors);
    const auto parameters = hosts_of(arguments.parameters);
    ErrorBackArguments inner = arguments;
    inner.inputs = inputs;
    inner.output = host_of(arguments.output);
    inner.output_error = host_of(arguments.output_error);
    inner.input_errors = errors;
    inner.parameters = parameters;
    inner.keep = host_of(arguments.keep);
    kernel_->error_back(inner);
    if (!rounds_) return;
    // What is made for the raw sum is the error of a convolution's output.
    const EngineFormats formats = formats_for(arguments.batch);
    const FixedFormat format = spec_.finish ? formats.error : formats.input_error;
    for (Tensor* error : errors)
      if (error != nullptr) round_values(host_, *error, format, counters_.errors);
  }

  void parameter_gradient(const GradientArguments& arguments) override {
    const auto inputs = hosts_of(arguments.inputs);
    const auto gradients = hosts_of(arguments.gradients);
    const auto state = hosts_of(arguments.state);
    GradientArguments inner = arguments;
    inner.inputs = inputs;
    inner.output_error = host_of(arguments.output_error);
    inner.gradients = gradients;
    inner.state = state;
    inner.keep = host_of(arguments.keep);
    kernel_->parameter_gradient(inner);
  }

  std::string implementation() const override { return kernel_->implementation(); }

 private:
  EngineFormats formats_for(const MicroBatch* batch) const {
    return counters_.formats = formats_of(book_, spec_.layer, batch == nullptr ? 1 : batch->error_scale);
  }

  KernelSpec spec_;
  Device& host_;
  LayerArithmetic& counters_;
  bool rounds_;
  const LayerFormats& book_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> make_host_kernel(const KernelSpec& spec, Device& host, LayerArithmetic& counters, bool rounds,
                                         const LayerFormats& book) {
  return std::make_unique<HostKernel>(spec, host, counters, rounds, book);
}

}  // namespace millrace::emulated
