// Operations on each element for itself: activations as layers of their own, dropout, and the finish of a divided layer.
#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/vector_math.h"
#include "core/device/dropout_mask.h"

namespace millrace::cpu {

namespace {

// The derivative comes from the activation of the input, not from the output: another one may be fused behind it.
class ActivationLayer final : public CpuKernel {
 public:
  ActivationLayer(const SharedEngine& engine, const KernelSpec& spec, const Activation& operation)
      : CpuKernel(engine, spec), activation_(operation) {}

  bool streams() const override { return streams_elements(); }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const float* const x = own(arguments.inputs[0]).data();
    CpuTensor& output = own(arguments.output);
    float* const y = output.data();
    for_each_piece(*arguments.batch, [&](int64_t begin, int64_t size) { activate(activation_, x + begin, y + begin, size); });
    clear_padding(threads(), output.layout(), y);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const float* const x = own(arguments.inputs[0]).data();
    const float* const dy = own(arguments.output_error).data();
    const bool adds = arguments.adds[0] != 0;
    CpuTensor& target = own(arguments.input_errors[0]);
    float* const dx = target.data();
    for_each_piece(*arguments.batch, [&](int64_t begin, int64_t size) {
      std::array<float, kChunk> y, error;
      activate(activation_, x + begin, y.data(), size);
      std::copy_n(dy + begin, size, error.data());
      multiply_by_derivative(activation_, y.data(), error.data(), size);
      if (adds) return add_to(dx + begin, error.data(), size);
      std::copy_n(error.data(), size, dx + begin);
    });
  }

 private:
  Activation activation_;
};

class DropoutLayer final : public CpuKernel {
 public:
  DropoutLayer(const SharedEngine& engine, const KernelSpec& spec, const Dropout& operation)
      : CpuKernel(engine, spec), operation_(operation), layout_(layout_of(spec.output)) {
    ScratchPlan plan;
    factors_ = plan.add(to_size(threads() * elements()) * sizeof(float));
    reserve(plan);
  }

  bool streams() const override { return streams_elements(); }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    apply(*arguments.batch, own(arguments.inputs[0]), own(arguments.output), false);
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    apply(*arguments.batch, own(arguments.output_error), own(arguments.input_errors[0]), arguments.adds[0] != 0);
  }

 private:
  int64_t elements() const { return spec().output.elements(); }

  void apply(const MicroBatch& batch, const CpuTensor& from, CpuTensor& to, bool add) const {
    const float* const x = from.data();
    float* const y = to.data();
    if (!batch.training)
      return for_each_piece(batch, [&](int64_t begin, int64_t size) {
        if (add) return add_to(y + begin, x + begin, size);
        std::copy_n(x + begin, size, y + begin);
      });
    MILLRACE_CHECK(static_cast<int64_t>(batch.sample_ids.size()) == samples(), "{}: {} sample ids for {} samples", spec().layer,
                   batch.sample_ids.size(), samples());
    const StepRange rows = chunk_of(batch, spec().output.height);
    const StepRange positions{rows.begin * spec().output.width, rows.end * spec().output.width};
    const DropoutMask<float> mask(operation_, batch.seed, spec().layer, elements());
    parallel_for_threads(threads(), samples(), [&](int64_t sample, int thread) {
      float* const factors = scratch<float>(factors_) + thread * elements();
      mask.fill(batch.epoch, fast_item(batch.sample_ids, sample), factors, elements());
      if (batch.chunks == 1 && (layout_.block == 1 || layout_.plane == 1)) {  // canonical order
        const int64_t at = sample * layout_.sample_stride();
        return multiply(x + at, factors, y + at, elements(), add);
      }
      for (int64_t c = 0; c < layout_.channels; ++c)
        multiply_strided(layout_.offset(sample, c), factors + c * layout_.plane, positions, x, y, add);
    });
  }

  void multiply_strided(int64_t first, const float* factors, const StepRange& positions, const float* x, float* y, bool add) const {
    for (int64_t position = positions.begin; position < positions.end; ++position) {
      const int64_t at = first + position * layout_.block;
      const float value = x[at] * factors[position];
      y[at] = add ? y[at] + value : value;
    }
  }

  Dropout operation_;
  Layout layout_;
  size_t factors_ = 0;  // one sample's, per thread
};

// Bias (and activation) on the raw sum of a divided layer; its error goes back unchanged.
class Finish final : public CpuKernel {
 public:
  Finish(const SharedEngine& engine, const KernelSpec& spec) : CpuKernel(engine, spec), layout_(layout_of(spec.output)) {
    MILLRACE_CHECK(spec.inputs.size() == 1 && spec.inputs[0] == spec.output, "{}: finish of {} inputs to {}", spec.layer,
                   spec.inputs.size(), text_of(spec.output));
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(make_parameter({layout_.channels, 1, 1}));
    return parameters;
  }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const float* const x = own(arguments.inputs[0]).data();
    const float* const bias = own(arguments.parameters[0]).data();
    float* const y = own(arguments.output).data();
    for_each_block([&](int64_t at, int64_t channel, int64_t lanes) {
      for (int64_t position = 0; position < layout_.plane; ++position, at += layout_.block)
        for (int64_t l = 0; l < lanes; ++l) y[at + l] = x[at + l] + bias[channel + l];
    });
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const bool adds = arguments.adds[0] != 0;
    CpuTensor& target = own(arguments.input_errors[0]);
    copy_channels(threads(), layout_, own(arguments.output_error).data(), {0, layout_.channels}, layout_, target.data(), 0, adds);
  }

  void run_gradient(const GradientArguments& arguments) override {
    const float* const error = own(arguments.output_error).data();
    float* const bias = own(arguments.gradients[0]).data();
    for (int64_t c = 0; c < layout_.channels; ++c) {
      double sum = 0;
      for (int64_t sample = 0; sample < samples(); ++sample) {
        const float* const first = error + layout_.offset(sample, c);
        for (int64_t position = 0; position < layout_.plane; ++position) sum += static_cast<double>(first[position * layout_.block]);
      }
      bias[c] = (arguments.adds ? bias[c] : 0.0f) + static_cast<float>(sum);
    }
  }

 private:
  template <typename Visit>
  void for_each_block(Visit visit) const {
    const int64_t blocks = layout_.blocks();
    parallel_for(threads(), samples() * blocks, [&](int64_t i) {
      const int64_t channel = i % blocks * layout_.block;
      visit(layout_.offset(i / blocks, channel), channel, std::min(layout_.block, layout_.channels - channel));
    });
  }

  Layout layout_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Activation& operation) {
  return std::make_unique<ActivationLayer>(engine, spec, operation);
}
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Dropout& operation) {
  return std::make_unique<DropoutLayer>(engine, spec, operation);
}
std::unique_ptr<Kernel> make_finish(const SharedEngine& engine, const KernelSpec& spec) { return std::make_unique<Finish>(engine, spec); }

}  // namespace millrace::cpu
