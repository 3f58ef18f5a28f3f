#include "fpga/emulated/emulated_fpga.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/optimizer_math.h"
#include "core/reference/reference_device.h"
#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace {

namespace {

using emulated::EmulatedTensor;
using emulated::host_of;

// A slope as the hardware has it; what it makes of an element is then exact before it is rounded.
Activation with_slope_of_board(Activation activation) {
  if (activation.kind == ActivationKind::kLeakyRelu) activation.slope = real_value(slope_bits(activation.slope), kSlopeBits);
  return activation;
}

class EmulatedFpgaDevice final : public EmulatedFpga {
 public:
  EmulatedFpgaDevice(EngineArithmetic arithmetic, std::unique_ptr<ConvolutionEngine> engine, std::unique_ptr<RecurrenceEngine> recurrence,
                     std::unique_ptr<ChainEngine> chains, std::string description)
      : fixed_(arithmetic == EngineArithmetic::kFixed16),
        description_(std::move(description)),
        host_(make_reference_device(fixed_ ? ElementType::kFloat64 : ElementType::kFloat32)),
        engine_(std::move(engine)),
        recurrence_(std::move(recurrence)),
        chains_(std::move(chains)) {}

  std::string description() const override { return description_; }
  ElementType compute_type() const override { return fixed_ ? ElementType::kFixed16 : ElementType::kFloat32; }
  const std::map<std::string, LayerArithmetic>& counters() const override { return counters_; }

  void use_formats(LayerFormats formats) override {
    MILLRACE_CHECK(counters_.empty(), "formats come after the first kernel");
    book_ = std::move(formats);
  }
  void use_gates(TanhForm smooth) override {
    MILLRACE_CHECK(counters_.empty(), "gate functions come after the first kernel");
    smooth_ = smooth;
  }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& given) override {
    KernelSpec spec = given;
    if (fixed_) {
      if (spec.activation) *spec.activation = with_slope_of_board(*spec.activation);
      if (const auto* activation = std::get_if<Activation>(&spec.operation)) spec.operation = with_slope_of_board(*activation);
    }
    if (fixed_ && emulated::has_fixed_smooth_behind(spec, book_)) {
      KernelSpec without = spec;
      without.activation.reset();
      return emulated::make_fixed_smooth_behind(spec, *host_, counters_[spec.layer], book_, make_kernel(without));
    }
    const Role role = role_of(spec.operation);
    if (std::holds_alternative<CtcLoss>(spec.operation))
      fail(ErrorCode::kUnavailable, "{}: the emulated FPGA has no CTC loss; train this one on cpu", spec.layer);
    LayerArithmetic& counters = counters_[spec.layer];
    const std::optional<ConvolutionShape> shape = spec.finish ? std::nullopt : emulated::convolution_shape_of(spec);
    if (shape && fixed_) return emulated::make_fixed_convolution(spec, *shape, *host_, counters, *engine_, book_);
    if (shape) return emulated::make_float_convolution(spec, *shape, *host_);
    if (fixed_ && !spec.finish && std::holds_alternative<Dropout>(spec.operation))
      return emulated::make_fixed_dropout(spec, *host_, counters, book_);
    const auto* cell = std::get_if<Recurrent>(&spec.operation);
    // On chained elements where errors go back and another device makes the gradients; else, and forward alone, as a whole layer is.
    if (!spec.units.empty()) return emulated::make_shared_steps(spec, fixed_, *host_, counters, book_, smooth_, *chains_);
    if (cell != nullptr && spec.finish && !spec.trained && spec.input_error_needed)
      return emulated::make_steps(spec, fixed_, *host_, counters, book_, smooth_, *chains_);
    if (cell != nullptr && fixed_) return emulated::make_fixed_recurrent(spec, *cell, *host_, counters, book_, smooth_, *recurrence_);
    if (fixed_ && emulated::has_fixed_response_norm(spec, book_)) return emulated::make_fixed_response_norm(spec, *host_, counters, book_);
    if (fixed_ && emulated::has_fixed_smooth_activation(spec, book_))
      return emulated::make_fixed_smooth_activation(spec, *host_, counters, book_);
    if (fixed_ && emulated::has_fixed_running_norm(spec)) return emulated::make_fixed_running_norm(spec, *host_, counters, book_);
    // A loss has an output of its own making, which is not an activation; its error is.
    return emulated::make_host_kernel(spec, *host_, counters, fixed_ && role != Role::kLoss, book_);
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override {
    return std::make_unique<EmulatedTensor>(host_->make_tensor(spec));
  }

  void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers values) override { host_->write(*host_of(&tensor), channels, values); }
  void read(const Tensor& tensor, ChannelRange channels, HostNumbers values) override { host_->read(*host_of(&tensor), channels, values); }
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
    std::vector<std::vector<float>> state;
    for (const Tensor* slot : slots) state.push_back(floats_of(*slot));
    const auto slot = [&state](size_t index) { return index < state.size() ? std::span<float>(state[index]) : std::span<float>{}; };
    if (const auto& role = static_cast<EmulatedTensor&>(parameter).role; role) {
      GradientSource source;
      std::vector<float> gradients;
      if (const auto* pending = static_cast<const EmulatedTensor&>(gradient).pending(); pending != nullptr) {
        source = {.sum = pending->sum.get(), .part = pending->part, .fraction_bits = pending->fraction_bits};
      } else {
        gradients = floats_of(gradient);
        source.values = gradients;
      }
      // The board makes the update; the average stays with the host.
      UpdateArguments of_engine = arguments;
      of_engine.optimizer.average_decay = 0;
      const std::vector<float> before = arguments.optimizer.averages() ? weights : std::vector<float>{};
      engine_->update({of_engine, role->format, role->stream}, &parameter, weights, source, slot(0), slot(1),
                      counters_[role->layer].updates);
      const auto decay = static_cast<float>(arguments.optimizer.average_decay);
      const std::span<float> average = slot(arguments.optimizer.average_slot());
      for (size_t i = 0; i < before.size(); ++i) average[i] = decay * (average[i] + (before[i] - weights[i]));
    } else {
      update_elements<float>(arguments, weights, floats_of(gradient), slot(0), slot(1), slot(arguments.optimizer.average_slot()));
    }
    for (size_t i = 0; i < slots.size(); ++i) host_->write(*host_of(slots[i]), whole(*slots[i]), std::span<const float>(state[i]));
    host_->write(*host_of(&parameter), whole(parameter), std::span<const float>(weights));
  }

  double squared_norm(const Tensor& tensor) override { return host_->squared_norm(*host_of(&tensor)); }
  bool all_finite(const Tensor& tensor) override { return host_->all_finite(*host_of(&tensor)); }

 private:
  std::vector<float> floats_of(const Tensor& tensor) {
    std::vector<float> values(to_size(tensor.elements()));
    host_->read(*host_of(&tensor), whole(tensor), std::span<float>(values));
    return values;
  }

  bool fixed_;
  std::string description_;
  std::unique_ptr<Device> host_;
  std::unique_ptr<ConvolutionEngine> engine_;
  std::unique_ptr<RecurrenceEngine> recurrence_;
  std::unique_ptr<ChainEngine> chains_;
  LayerFormats book_;
  TanhForm smooth_ = TanhForm::kPlan;
  std::map<std::string, LayerArithmetic> counters_;  // nodes stay where they are: kernels point to them
};

}  // namespace

std::unique_ptr<EmulatedFpga> make_emulated_fpga(EngineArithmetic arithmetic) {
  return std::make_unique<EmulatedFpgaDevice>(
      arithmetic, make_host_convolution_engine(), make_host_recurrence_engine(), make_host_chain_engine(),
      arithmetic == EngineArithmetic::kFixed16 ? "emulated FPGA (conv_ce, 16-bit fixed point, 32-bit accumulators)"
                                               : "emulated FPGA (conv_ce, single precision)");
}

std::unique_ptr<EmulatedFpga> make_fpga_on(std::unique_ptr<ConvolutionEngine> engine, std::unique_ptr<RecurrenceEngine> recurrence,
                                           std::unique_ptr<ChainEngine> chains, std::string description) {
  return std::make_unique<EmulatedFpgaDevice>(EngineArithmetic::kFixed16, std::move(engine), std::move(recurrence), std::move(chains),
                                              std::move(description));
}

}  // namespace millrace
