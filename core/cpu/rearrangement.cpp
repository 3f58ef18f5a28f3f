// Operations that compute nothing but move or add elements: add, concat, flatten, to-sequence, last-step.
#include <utility>

#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/vector_math.h"
#include "core/device/sequence.h"

namespace millrace::cpu {

namespace {

class AddLayer final : public CpuKernel {
 public:
  AddLayer(const SharedEngine& engine, const KernelSpec& spec) : CpuKernel(engine, spec), layout_(layout_of(spec.output)) {}

  bool streams() const override { return streams_elements(); }

 protected:
  bool fuses_activation() const override { return true; }

  void run_forward(const ForwardArguments& arguments) override {
    float* const y = own(arguments.output).data();
    for_each_piece(*arguments.batch, [&](int64_t begin, int64_t size) {
      std::copy_n(own(arguments.inputs[0]).data() + begin, size, y + begin);
      for (const Tensor* input : arguments.inputs.subspan(1)) add_to(y + begin, own(input).data() + begin, size);
      if (spec().activation) activate(*spec().activation, y + begin, y + begin, size);
    });
    if (spec().activation) clear_padding(threads(), layout_, y);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    const float* const error = own(arguments.output_error).data();
    for (size_t i = 0; i < arguments.input_errors.size(); ++i) {
      if (arguments.input_errors[i] == nullptr) continue;
      CpuTensor& target = own(arguments.input_errors[i]);
      const bool adds = arguments.adds[i] != 0;
      float* const dx = target.data();
      for_each_piece(*arguments.batch, [&](int64_t begin, int64_t size) {
        if (adds) return add_to(dx + begin, error + begin, size);
        std::copy_n(error + begin, size, dx + begin);
      });
    }
  }

 private:
  Layout layout_;
};

class ConcatLayer final : public CpuKernel {
 public:
  ConcatLayer(const SharedEngine& engine, const KernelSpec& spec) : CpuKernel(engine, spec), layout_(layout_of(spec.output)) {}

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    float* const y = own(arguments.output).data();
    int64_t begin = 0;
    for (const Tensor* input : arguments.inputs) {
      const CpuTensor& from = own(input);
      copy_channels(threads(), from.layout(), from.data(), whole(from), layout_, y, begin, false);
      begin += from.layout().channels;
    }
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    const float* const error = own(arguments.output_error).data();
    int64_t begin = 0;
    for (size_t i = 0; i < arguments.input_errors.size(); ++i) {
      const ChannelRange range{begin, begin + spec().inputs[i].channels};
      begin = range.end;
      if (arguments.input_errors[i] == nullptr) continue;
      CpuTensor& target = own(arguments.input_errors[i]);
      const bool adds = arguments.adds[i] != 0;
      copy_channels(threads(), layout_, error, range, target.layout(), target.data(), 0, adds);
    }
  }

 private:
  Layout layout_;
};

// {C, H, W} -> {C*H*W, 1, 1}: the features of a sample are its map in canonical order.
class FlattenLayer final : public CpuKernel {
 public:
  FlattenLayer(const SharedEngine& engine, const KernelSpec& spec)
      : CpuKernel(engine, spec), map_(layout_of(spec.inputs[0])), features_(canonical_layout(spec.inputs[0], spec.micro_batch)) {}

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    copy_channels(threads(), map_, own(arguments.inputs[0]).data(), {0, map_.channels}, features_, own(arguments.output).data(), 0, false);
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    CpuTensor& target = own(arguments.input_errors[0]);
    const bool adds = arguments.adds[0] != 0;
    copy_channels(threads(), features_, own(arguments.output_error).data(), {0, map_.channels}, map_, target.data(), 0, adds);
  }

 private:
  Layout map_, features_;
};

// {C, T, W} -> {C*W, T, 1}: feature c * W + w of step t.
class ToSequenceLayer final : public CpuKernel {
 public:
  ToSequenceLayer(const SharedEngine& engine, const KernelSpec& spec)
      : CpuKernel(engine, spec), map_(layout_of(spec.inputs[0])), sequence_(layout_of(spec.output)) {}

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const float* const x = own(arguments.inputs[0]).data();
    float* const y = own(arguments.output).data();
    for_each_element([=](int64_t in_map, int64_t in_sequence) { y[in_sequence] = x[in_map]; });
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const float* const dy = own(arguments.output_error).data();
    CpuTensor& target = own(arguments.input_errors[0]);
    const bool adds = arguments.adds[0] != 0;
    float* const dx = target.data();
    for_each_element([=](int64_t in_map, int64_t in_sequence) { dx[in_map] = adds ? dx[in_map] + dy[in_sequence] : dy[in_sequence]; });
  }

 private:
  template <typename Visit>
  void for_each_element(Visit visit) const {
    const Shape& in = spec().inputs[0];
    parallel_for(threads(), samples() * in.channels, [&](int64_t i) {
      const int64_t sample = i / in.channels, channel = i % in.channels;
      for (int64_t row = 0; row < in.height; ++row)
        for (int64_t column = 0; column < in.width; ++column)
          visit(map_.offset(sample, channel) + (row * in.width + column) * map_.block,
                sequence_.offset(sample, channel * in.width + column) + row * sequence_.block);
    });
  }

  Layout map_, sequence_;
};

// {F, T, 1} -> {F, 1, 1}: of each sample's own last step.
class LastStepLayer final : public CpuKernel {
 public:
  LastStepLayer(const SharedEngine& engine, const KernelSpec& spec) : CpuKernel(engine, spec), layout_(layout_of(spec.inputs[0])) {}

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const float* const x = own(arguments.inputs[0]).data();
    float* const y = own(arguments.output).data();
    for (int64_t sample = 0; sample < samples(); ++sample)
      if (const int64_t steps = valid_steps(spec(), *arguments.batch, sample); steps > 0)
        std::copy_n(x + step(sample, steps - 1), layout_.channels, y + sample * layout_.channels);
      else
        std::fill_n(y + sample * layout_.channels, layout_.channels, 0.0f);
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const float* const dy = own(arguments.output_error).data();
    CpuTensor& target = own(arguments.input_errors[0]);
    float* const dx = target.data();
    if (arguments.adds[0] == 0) std::fill_n(dx, target.stored(), 0.0f);
    for (int64_t sample = 0; sample < samples(); ++sample)
      if (const int64_t steps = valid_steps(spec(), *arguments.batch, sample); steps > 0)
        add_to(dx + step(sample, steps - 1), dy + sample * layout_.channels, layout_.channels);
  }

 private:
  int64_t step(int64_t sample, int64_t index) const { return sample * layout_.sample_stride() + index * layout_.block; }

  Layout layout_;  // of a sequence: the features of a step lie side by side
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Add&) {
  return std::make_unique<AddLayer>(engine, spec);
}
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Concat&) {
  return std::make_unique<ConcatLayer>(engine, spec);
}
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Flatten&) {
  return std::make_unique<FlattenLayer>(engine, spec);
}
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const ToSequence&) {
  return std::make_unique<ToSequenceLayer>(engine, spec);
}
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const LastStep&) {
  return std::make_unique<LastStepLayer>(engine, spec);
}

}  // namespace millrace::cpu
