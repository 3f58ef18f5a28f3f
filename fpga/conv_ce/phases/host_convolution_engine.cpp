// The functional model on the calling thread.
#include <algorithm>

#include "core/base/index.h"
#include "fpga/conv_ce/phases/convolution_engine.h"

namespace millrace {

namespace {

class HostGradientSum final : public GradientSum {
 public:
  HostGradientSum(const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters)
      : weight_(shape.weight_elements()), bias_(bias ? to_size(shape.outputs) : 0), counters_(counters) {}

  void set(std::span<const int32_t> weight, std::span<const int32_t> bias) override {
    weight_.assign(weight.begin(), weight.end());
    bias_.assign(bias.begin(), bias.end());
  }
  void add(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error) override {
    gradient_phase(phase, input, output_error, weight_, bias_, counters_);
  }
  std::vector<int32_t> read(size_t part) override { return part == 0 ? weight_ : bias_; }

 private:
  std::vector<int32_t> weight_, bias_;
  ArithmeticCounters& counters_;
};

class HostConvolutionEngine final : public ConvolutionEngine {
 public:
  std::string description() const override { return "conv_ce, 16 bits fixed point"; }
  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, const void*, PhaseCounters& counters) override {
    return forward_phase(phase, data, counters);
  }
  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                  const void*, ArithmeticCounters& counters) override {
    return error_back_phase(phase, output_error, weight, counters);
  }
  std::shared_ptr<GradientSum> make_gradient_sum(const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters) override {
    return std::make_shared<HostGradientSum>(shape, bias, counters);
  }
  void update(const UpdateRun& update, const void*, std::span<float> weights, const GradientSource& gradient, std::span<float> first_slot,
              std::span<float> second_slot, ArithmeticCounters& counters) override {
    if (gradient.sum == nullptr) {
      update_phase(update, weights, gradient.values, first_slot, second_slot, counters);
      return;
    }
    const std::vector<int32_t> accumulators = gradient.sum->read(gradient.part);
    std::vector<float> values(accumulators.size());
    std::ranges::transform(accumulators, values.begin(), [&](int32_t sum) { return gradient_value(sum, gradient.fraction_bits); });
    update_phase(update, weights, values, first_slot, second_slot, counters);
  }
};

}  // namespace

std::unique_ptr<ConvolutionEngine> make_host_convolution_engine() { return std::make_unique<HostConvolutionEngine>(); }

}  // namespace millrace
