// Batch norm with running statistics as a board computes it, in fixed point. What is gathered of the inputs, and gradients, are the host
// kernel's: whole numbers, and sums of exact products in double precision.
#include <algorithm>

#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/running_norm.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

namespace {

class FixedRunningNorm final : public Kernel {
 public:
  FixedRunningNorm(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book)
      : spec_(spec),
        epsilon_(std::get<BatchNorm>(spec.operation).epsilon),
        host_(host),
        counters_(counters),
        book_(book),
        inner_(make_host_kernel(spec, host, counters, /*rounds=*/true, book)) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return inner_->make_parameters(); }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return inner_->make_gradients(); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return inner_->make_state(); }
  std::unique_ptr<Tensor> make_keep() override { return inner_->make_keep(); }
  bool streams() const override { return inner_->streams(); }
  void parameters_changed(std::span<const Tensor* const> parameters) override { inner_->parameters_changed(parameters); }
  void commit_statistics(std::span<Tensor* const> state) override { inner_->commit_statistics(state); }
  void parameter_gradient(const GradientArguments& arguments) override { inner_->parameter_gradient(arguments); }

  // The host's kernel copies the statistics to what is kept, and gathers.
  void forward(const ForwardArguments& arguments) override {
    inner_->forward(arguments);
    if (arguments.output == nullptr || !streams_rows(*arguments.batch)) return;
    const FixedFormat format = formats_for(*arguments.batch).sum;
    const std::vector<int16_t> x = elements_of(read(arguments.inputs[0]), format, counters_.inputs);
    const Statistics kept = kept_of(*arguments.keep, *arguments.parameters[0]);
    const std::vector<double> shift = read(arguments.parameters[1]);
    const FoldedNormalisation folded = fold(kept, shift, format);
    const std::optional<Activation>& activation = spec_.activation;
    const std::optional<double> below = activation ? activation->slope_below_zero() : std::nullopt;
    const auto size = to_size(spec_.output.elements());
    std::vector<double> values;
    values.reserve(x.size());
    for (size_t first = 0; first < x.size(); first += size)
      for (const int16_t y : scaled_and_offset(std::span(x).subspan(first, size), spec_.output.channels,
                                               {.scale = folded.scale,
                                               .offset = folded.offset,
                                               .offset_shift = folded.shift,
                                               .shift = folded.shift,
                                               .relu = below.has_value(),
                                               .slope = below ? slope_bits(*below) : int16_t{0}},
                                               counters_.outputs))
        values.push_back(real_value(y, format.fraction_bits));
    set_values(host_, *host_of(arguments.output), values);
  }

  // The host's kernel takes the error through the fused activation, in place.
  void error_back(const ErrorBackArguments& arguments) override {
    const bool makes = !arguments.input_errors.empty() && arguments.input_errors[0] != nullptr && arguments.batch->training &&
                       streams_rows(*arguments.batch);
    std::vector<double> values;
    if (makes && arguments.adds[0] != 0) values = read(arguments.input_errors[0]);
    inner_->error_back(arguments);
    if (!makes) return;
    const EngineFormats formats = formats_for(*arguments.batch);
    const std::vector<int16_t> x = elements_of(read(arguments.inputs[0]), formats.sum, counters_.inputs);
    const std::vector<int16_t> error =
        elements_of(read(static_cast<const Tensor*>(arguments.output_error)), formats.input_error, counters_.errors);
    const Statistics kept = kept_of(*arguments.keep, *arguments.parameters[0]);
    const std::vector<double> nothing(kept.scale.size());
    const FoldedNormalisation folded = fold(kept, nothing, formats.sum);
    const RunningNorm norm = running_norm(statistics_of(kept, nothing), {kept.error, kept.projection}, nothing, folded.shift, formats.sum,
                                          formats.input_error, counters_.errors);
    const bool adds = !values.empty();
    values.resize(x.size());
    const auto size = to_size(spec_.output.elements());
    NormSums unused(spec_.output.channels);
    for (size_t first = 0; first < x.size(); first += size) {
      const std::vector<int16_t> before =
          error_through_running_norm(norm, folded.scale, folded.shift, spec_.output.channels, std::span(x).subspan(first, size),
                                     std::span(error).subspan(first, size), unused, counters_.errors);
      for (size_t i = 0; i < size; ++i) {
        const double made = real_value(before[i], formats.input_error.fraction_bits);
        double& value = values[first + i];
        value = adds ? real_value(quantized(value + made, formats.input_error, counters_.errors), formats.input_error.fraction_bits) : made;
      }
    }
    set_values(host_, *host_of(arguments.input_errors[0]), values);
  }

  std::string implementation() const override { return "conv_ce's running batch norm, 16 bits fixed point"; }

 private:
  // Of one version, per channel.
  struct Statistics {
    std::vector<double> scale, mean, variance, error, projection;
  };

  // Sequences that end early are the host's.
  static bool streams_rows(const MicroBatch& batch) { return batch.lengths.empty(); }

  std::vector<double> read(const Tensor* tensor) const { return values_of(host_, *host_of(tensor)); }

  // As core/reference/batch_norm.cpp lays out what it keeps.
  Statistics kept_of(const Tensor& keep, const Tensor& scale) const {
    constexpr size_t kKept = 8;
    const std::vector<double> kept = read(&keep);
    Statistics found;
    found.scale = read(&scale);
    for (size_t c = 0; c < found.scale.size(); ++c) {
      found.mean.push_back(kept[c * kKept]);
      found.variance.push_back(kept[c * kKept + 1]);
      found.error.push_back(kept[c * kKept + 6]);
      found.projection.push_back(kept[c * kKept + 7]);
    }
    return found;
  }
  ConstantNormalisation statistics_of(const Statistics& kept, std::span<const double> shift) const {
    return {.weight = kept.scale, .bias = shift, .mean = kept.mean, .variance = kept.variance, .epsilon = epsilon_};
  }
  FoldedNormalisation fold(const Statistics& kept, std::span<const double> shift, FixedFormat format) const {
    const std::vector<double> no_bias(kept.scale.size());
    return folded_normalisation(statistics_of(kept, shift), no_bias, format, counters_.weights);
  }
  EngineFormats formats_for(const MicroBatch& batch) const { return counters_.formats = formats_of(book_, spec_.layer, batch.error_scale); }

  KernelSpec spec_;
  double epsilon_;
  Device& host_;
  LayerArithmetic& counters_;
  const LayerFormats& book_;
  std::unique_ptr<Kernel> inner_;
};

}  // namespace

// A smooth activation behind it is the host's.
bool has_fixed_running_norm(const KernelSpec& spec) {
  const auto* norm = std::get_if<BatchNorm>(&spec.operation);
  const bool rectifies = !spec.activation || spec.activation->slope_below_zero().has_value();
  return norm != nullptr && !spec.finish && spec.trained && norm->statistics == millrace::Statistics::kRunning && rectifies;
}

std::unique_ptr<Kernel> make_fixed_running_norm(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book) {
  return std::make_unique<FixedRunningNorm>(spec, host, counters, book);
}

}  // namespace millrace::emulated
