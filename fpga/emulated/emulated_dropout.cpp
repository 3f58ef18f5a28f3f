// Dropout as a board computes it, in fixed point.
#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/fixed_dropout.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

namespace {

class FixedDropout final : public Kernel {
 public:
  FixedDropout(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book)
      : spec_(spec), operation_(std::get<Dropout>(spec.operation)), host_(host), counters_(counters), book_(book) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return {}; }

  void forward(const ForwardArguments& arguments) override {
    const FixedFormat format = formats_for(*arguments.batch).sum;
    pass(*arguments.batch, *arguments.inputs[0], *arguments.output, format, counters_.outputs, spec_.adds_to_output);
  }
  void error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors.empty() || arguments.input_errors[0] == nullptr) return;
    const FixedFormat format = formats_for(*arguments.batch).input_error;
    pass(*arguments.batch, *arguments.output_error, *arguments.input_errors[0], format, counters_.errors, arguments.adds[0] != 0);
  }
  void parameter_gradient(const GradientArguments&) override {}

  std::string implementation() const override { return "conv_ce's draws, 16 bits fixed point"; }

 private:
  EngineFormats formats_for(const MicroBatch& batch) const { return counters_.formats = formats_of(book_, spec_.layer, batch.error_scale); }
  void pass(const MicroBatch& batch, const Tensor& from, Tensor& to, FixedFormat format, ArithmeticCounters& counted, bool adds) {
    MILLRACE_CHECK(!batch.training || static_cast<int64_t>(batch.sample_ids.size()) == spec_.micro_batch,
                   "{}: {} sample ids for {} samples", spec_.layer, batch.sample_ids.size(), spec_.micro_batch);
    const std::vector<int64_t> evaluated(to_size(spec_.micro_batch));
    const DropoutDraws draws =
        dropout_draws(operation_, batch.seed, spec_.layer, batch.epoch,
                      batch.training ? batch.sample_ids : std::span<const int64_t>(evaluated), spec_.output.elements(), batch.training);
    const std::vector<int16_t> elements = elements_of(values_of(host_, *host_of(&from)), format, counters_.inputs);
    const auto size = to_size(spec_.output.elements());
    std::vector<double> values;
    if (adds) values = values_of(host_, *host_of(&to));
    values.resize(elements.size());
    for (size_t sample = 0; sample < to_size(spec_.micro_batch); ++sample) {
      const std::vector<int16_t> kept = dropped_out(std::span(elements).subspan(sample * size, size), draws, sample, counted);
      for (size_t i = 0; i < size; ++i) {
        double& value = values[sample * size + i];
        const double made = real_value(kept[i], format.fraction_bits);
        value = adds ? real_value(quantized(value + made, format, counted), format.fraction_bits) : made;
      }
    }
    set_values(host_, *host_of(&to), values);
  }

  KernelSpec spec_;
  Dropout operation_;
  Device& host_;
  LayerArithmetic& counters_;
  const LayerFormats& book_;
};

}  // namespace

std::unique_ptr<Kernel> make_fixed_dropout(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book) {
  return std::make_unique<FixedDropout>(spec, host, counters, book);
}

}  // namespace millrace::emulated
