// Layers that are no convolution, on the host; in fixed point what they give out is rounded.
#include <algorithm>
#include <cmath>

#include "core/base/index.h"
#include "core/base/random.h"
#include "core/device/sequence.h"
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
    on_host(arguments, [&](const ForwardArguments& inner) {
      kernel_->forward(inner);
      if (gathers_integers(*arguments.batch)) add_up_integers(*inner.inputs[0], *inner.keep, *arguments.batch);
      if (rounds_ && inner.output != nullptr) round_values(host_, *inner.output, formats_for(arguments.batch).sum, counters_.outputs);
    });
  }

  void error_back(const ErrorBackArguments& arguments) override {
    on_host(arguments, [&](const ErrorBackArguments& inner) {
      kernel_->error_back(inner);
      if (!rounds_) return;
      // What is made for the raw sum is the error of a convolution's output.
      const EngineFormats formats = formats_for(arguments.batch);
      const FixedFormat format = spec_.finish ? formats.error : formats.input_error;
      for (Tensor* error : inner.input_errors)
        if (error != nullptr) round_values(host_, *error, format, counters_.errors);
    });
  }

  void commit_statistics(std::span<Tensor* const> state) override { kernel_->commit_statistics(hosts_of(state)); }

  void parameter_gradient(const GradientArguments& arguments) override {
    on_host(arguments, [&](const GradientArguments& inner) { kernel_->parameter_gradient(inner); });
  }

  std::string implementation() const override { return kernel_->implementation(); }

 private:
  bool gathers_integers(const MicroBatch& batch) const {
    const auto* norm = std::get_if<BatchNorm>(&spec_.operation);
    return rounds_ && norm != nullptr && norm->statistics == Statistics::kRunning && spec_.trained && batch.training;
  }

  // A batch norm's sums as a board makes them: whole numbers of 64 bits, around a mean rounded to the inputs' own steps. What the host
  // kernel kept of them (core/reference/batch_norm.cpp) is written over.
  void add_up_integers(const Tensor& input, Tensor& keep, const MicroBatch& batch) {
    constexpr int kMostFraction = 24;
    constexpr int64_t kKept = 8;  // values per channel
    const Shape& shape = spec_.output;
    const auto channels = to_size(shape.channels);
    const std::vector<double> x = values_of(host_, input);
    int fraction = formats_for(&batch).sum.fraction_bits;
    const auto whole_at = [&](double value) { return std::ldexp(value, fraction) == std::nearbyint(std::ldexp(value, fraction)); };
    while (fraction < kMostFraction && !std::ranges::all_of(x, whole_at)) ++fraction;
    std::vector<double> kept = values_of(host_, keep);
    std::vector<int64_t> centres(channels), sums(channels), squares(channels);
    for (size_t c = 0; c < channels; ++c) centres[c] = std::llrint(std::ldexp(kept[c * kKept], fraction));
    for (int64_t n = 0; n < spec_.micro_batch; ++n) {
      const int64_t rows = valid_steps(spec_, batch, n);
      for (int64_t i = 0; i < shape.elements(); ++i) {
        if (i / shape.width % shape.height >= rows) continue;
        const auto c = to_size(i / shape.plane());
        const int64_t distance = std::llrint(std::ldexp(fast_item(x, n * shape.elements() + i), fraction)) - centres[c];
        sums[c] += distance;
        squares[c] += distance * distance;
      }
    }
    for (size_t c = 0; c < channels; ++c) {
      kept[c * kKept + 2] = std::ldexp(static_cast<double>(centres[c]), -fraction);
      kept[c * kKept + 3] = std::ldexp(static_cast<double>(sums[c]), -fraction);
      kept[c * kKept + 4] = std::ldexp(static_cast<double>(squares[c]), -2 * fraction);
    }
    set_values(host_, keep, kept);
  }

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
