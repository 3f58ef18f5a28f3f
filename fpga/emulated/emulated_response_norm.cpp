// Local response norm as a board computes it, in fixed point.
#include <algorithm>

#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/fixed_response_norm.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

namespace {

class FixedResponseNormKernel final : public Kernel {
 public:
  FixedResponseNormKernel(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book)
      : spec_(spec), operation_(std::get<LocalResponseNorm>(spec.operation)), host_(host), counters_(counters), book_(book) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return {}; }

  void forward(const ForwardArguments& arguments) override {
    const FixedFormat format = formats_for(*arguments.batch).sum;
    const FixedResponseNorm norm = *fixed_response_norm(operation_, format);
    const std::vector<int16_t> x = elements_of(values_of(host_, *host_of(arguments.inputs[0])), format, counters_.inputs);
    const auto size = to_size(spec_.output.elements());
    std::vector<double> values;
    for (size_t first = 0; first < x.size(); first += size)
      for (const int16_t y : responded(norm, spec_.output.channels, std::span(x).subspan(first, size), counters_.outputs))
        values.push_back(real_value(y, format.fraction_bits));
    set_values(host_, *host_of(arguments.output), values);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors.empty() || arguments.input_errors[0] == nullptr) return;
    const EngineFormats formats = formats_for(*arguments.batch);
    const FixedFormat format = formats.input_error;
    const FixedResponseNorm norm = *fixed_response_norm(operation_, formats.sum);
    const std::vector<int16_t> x = elements_of(values_of(host_, *host_of(arguments.inputs[0])), formats.sum, counters_.inputs);
    const std::vector<int16_t> error =
        elements_of(values_of(host_, *host_of(static_cast<const Tensor*>(arguments.output_error))), format, counters_.errors);
    Tensor& to = *host_of(arguments.input_errors[0]);
    const bool adds = arguments.adds[0] != 0;
    std::vector<double> values(x.size());
    if (adds) values = values_of(host_, to);
    const auto size = to_size(spec_.output.elements());
    for (size_t first = 0; first < x.size(); first += size) {
      const std::vector<int16_t> before = response_back(norm, spec_.output.channels, std::span(x).subspan(first, size),
                                                        std::span(error).subspan(first, size), counters_.errors);
      for (size_t i = 0; i < size; ++i) {
        const double made = real_value(before[i], format.fraction_bits);
        double& value = values[first + i];
        value = adds ? real_value(quantized(value + made, format, counters_.errors), format.fraction_bits) : made;
      }
    }
    set_values(host_, to, values);
  }

  std::string implementation() const override { return "conv_ce's response norm, 16 bits fixed point"; }

 private:
  EngineFormats formats_for(const MicroBatch& batch) const { return counters_.formats = formats_of(book_, spec_.layer, batch.error_scale); }

  KernelSpec spec_;
  LocalResponseNorm operation_;
  Device& host_;
  LayerArithmetic& counters_;
  const LayerFormats& book_;
};

}  // namespace

bool has_fixed_response_norm(const KernelSpec& spec, const LayerFormats& book) {
  const auto* norm = std::get_if<LocalResponseNorm>(&spec.operation);
  return norm != nullptr && !spec.finish && fixed_response_norm(*norm, formats_of(book, spec.layer, 1).sum).has_value();
}

std::unique_ptr<Kernel> make_fixed_response_norm(const KernelSpec& spec, Device& host, LayerArithmetic& counters,
                                                 const LayerFormats& book) {
  return std::make_unique<FixedResponseNormKernel>(spec, host, counters, book);
}

}  // namespace millrace::emulated
