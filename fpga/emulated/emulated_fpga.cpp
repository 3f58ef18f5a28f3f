#include "fpga/emulated/emulated_fpga.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/device/optimizer_math.h"
#include "core/reference/reference_device.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace {

namespace {

using emulated::EmulatedTensor;
using emulated::host_of;

// Of all random numbers of updates: a run's numbers depend on its plan and weights, not on who draws first.
constexpr uint64_t kUpdateSeed = 0x4d696c6c72616365;
constexpr uint64_t kElementsPerStep = uint64_t{1} << 40;

class EmulatedFpgaDevice final : public EmulatedFpga {
 public:
  explicit EmulatedFpgaDevice(EngineArithmetic arithmetic)
      : fixed_(arithmetic == EngineArithmetic::kFixed16),
        host_(make_reference_device(fixed_ ? ElementType::kFloat64 : ElementType::kFloat32)) {}

  std::string description() const override {
    return fixed_ ? "emulated FPGA (conv_ce, 16-bit fixed point, 32-bit accumulators)" : "emulated FPGA (conv_ce, single precision)";
  }
  ElementType compute_type() const override { return fixed_ ? ElementType::kFixed16 : ElementType::kFloat32; }
  const std::map<std::string, LayerArithmetic>& counters() const override { return counters_; }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    const Operation& operation = spec.operation;
    if (std::holds_alternative<Recurrent>(operation) || std::holds_alternative<Embedding>(operation) ||
        std::holds_alternative<CtcLoss>(operation))
      fail(ErrorCode::kUnavailable, "{}: the emulated FPGA does convolutional networks; train this one on cpu", spec.layer);
    LayerArithmetic& counters = counters_[spec.layer];
    const std::optional<ConvolutionShape> shape = spec.finish ? std::nullopt : emulated::convolution_shape_of(spec);
    const bool is_loss = std::holds_alternative<SoftmaxCrossEntropy>(operation);
    if (shape && fixed_) return emulated::make_fixed_convolution(spec, *shape, *host_, counters);
    if (shape) return emulated::make_float_convolution(spec, *shape, *host_);
    // A loss has an output of its own making, which is not an activation; its error is.
    return emulated::make_host_kernel(spec, *host_, counters, fixed_ && !is_loss);
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override {
    return std::make_unique<EmulatedTensor>(host_->make_tensor(spec));
  }

  void write(Tensor& tensor, ChannelRange channels, std::span<const float> values) override {
    host_->write(*host_of(&tensor), channels, values);
  }
  void write(Tensor& tensor, ChannelRange channels, std::span<const double> values) override {
    host_->write(*host_of(&tensor), channels, values);
  }
  void read(const Tensor& tensor, ChannelRange channels, std::span<float> values) override {
    host_->read(*host_of(&tensor), channels, values);
  }
  void read(const Tensor& tensor, ChannelRange channels, std::span<double> values) override {
    host_->read(*host_of(&tensor), channels, values);
  }
  void zero(Tensor& tensor) override { host_->zero(*host_of(&tensor)); }
  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    host_->copy_channels(*host_of(&from), channels, *host_of(&to), to_begin, add);
  }

  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    if (!fixed_) {
      host_->update(arguments, *host_of(&parameter), *host_of(&gradient), emulated::hosts_of(slots));
      return;
    }
    std::vector<float> weights = floats_of(parameter);
    const std::vector<float> gradients = floats_of(gradient);
    std::vector<std::vector<float>> state;
    for (const Tensor* slot : slots) state.push_back(floats_of(*slot));
    const auto slot = [&state](size_t index) { return index < state.size() ? std::span<float>(state[index]) : std::span<float>{}; };
    update_elements<float>(arguments, weights, gradients, slot(0), slot(1));
    for (size_t i = 0; i < slots.size(); ++i) host_->write(*host_of(slots[i]), whole(*slots[i]), std::span<const float>(state[i]));
    const auto& role = static_cast<EmulatedTensor&>(parameter).role;
    if (!role) {
      host_->write(*host_of(&parameter), whole(parameter), std::span<const float>(weights));
      return;
    }
    const Philox draw(kUpdateSeed, role->stream);
    const uint64_t first = static_cast<uint64_t>(arguments.step) * kElementsPerStep;
    std::vector<double> rounded(weights.size());
    ArithmeticCounters& counters = counters_[role->layer].updates;
    for (size_t i = 0; i < weights.size(); ++i)
      rounded[i] = real_value(stochastically_rounded(static_cast<double>(weights[i]), role->format, draw.bits(first + i), counters),
                              role->format.fraction_bits);
    host_->write(*host_of(&parameter), whole(parameter), std::span<const double>(rounded));
  }

  double squared_norm(const Tensor& tensor) override { return host_->squared_norm(*host_of(&tensor)); }
  bool all_finite(const Tensor& tensor) override { return host_->all_finite(*host_of(&tensor)); }

 private:
  std::vector<float> floats_of(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    host_->read(*host_of(&tensor), whole(tensor), std::span<float>(values));
    return values;
  }

  bool fixed_;
  std::unique_ptr<Device> host_;
  std::map<std::string, LayerArithmetic> counters_;  // nodes stay where they are: kernels point to them
};

}  // namespace

std::unique_ptr<EmulatedFpga> make_emulated_fpga(EngineArithmetic arithmetic) { return std::make_unique<EmulatedFpgaDevice>(arithmetic); }

}  // namespace millrace
