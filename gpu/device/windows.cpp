// Pooling, local response normalisation, activations and dropout: each a piece of element work forward and one back.
#include "core/base/random.h"
#include "core/device/sequence.h"
#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

// Windows over the map or the channels: `Forward` from the input, `Back` from the input and the output's error.
template <typename Window, typename Forward, typename Back>
class WindowKernel : public GpuKernel {
 public:
  WindowKernel(const SharedContext& context, const KernelSpec& spec, const Window& window) : GpuKernel(context, spec), window_(window) {}

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& output = own(arguments.output);
    context().run(Forward{.window = window_, .input = input.data(), .output = output.data(), .elements = output_elements()},
                  {&input.buffer()}, {&output.buffer()});
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    context().run(Back{.window = window_,
                       .input = input.data(),
                       .output_error = error.data(),
                       .input_error = input_error.data(),
                       .adds = arguments.adds[0] != 0,
                       .elements = input_elements()},
                  {&input.buffer(), &error.buffer()}, {&input_error.buffer()});
  }

 private:
  Window window_;
};

class PoolingKernel final : public WindowKernel<PoolWindow, Pool, PoolError> {
 public:
  PoolingKernel(const SharedContext& context, const KernelSpec& spec, const Pool2d& pool)
      : WindowKernel(context, spec,
                     {.channels = spec.inputs[0].channels,
                      .height = spec.inputs[0].height,
                      .width = spec.inputs[0].width,
                      .output_height = spec.output.height,
                      .output_width = spec.output.width,
                      .kernel_h = pool.kernel_h,
                      .kernel_w = pool.kernel_w,
                      .stride_h = pool.stride_h,
                      .stride_w = pool.stride_w,
                      .pad_h = pool.pad_h,
                      .pad_w = pool.pad_w,
                      .maximum = pool.kind == PoolKind::kMax,
                      .counts_padding = pool.count_include_pad}) {}

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    if (std::holds_alternative<GlobalPool>(spec().operation)) refuse_short_samples(spec(), *arguments.batch);
    WindowKernel::run_forward(arguments);
  }
};

class ResponseKernel final : public WindowKernel<ResponseWindow, NormaliseResponse, ResponseError> {
 public:
  ResponseKernel(const SharedContext& context, const KernelSpec& spec, const LocalResponseNorm& norm)
      : WindowKernel(context, spec,
                     {.channels = spec.output.channels,
                      .plane = spec.output.plane(),
                      .size = norm.size,
                      .alpha = static_cast<float>(norm.alpha),
                      .beta = static_cast<float>(norm.beta),
                      .k = static_cast<float>(norm.k)}) {}
};

// A layer of its own: its derivative comes from the activation of the input, since another may be fused behind it.
class ActivationKernel final : public GpuKernel {
 public:
  ActivationKernel(const SharedContext& context, const KernelSpec& spec, const Activation& activation)
      : GpuKernel(context, spec), activation_(activation) {}

  bool streams() const override { return streams_elements(); }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& output = own(arguments.output);
    const PartOfTime part = part_of(*arguments.batch);
    context().run(
        Activate{
            .from = input.data(), .to = output.data(), .activation = activation_, .part = part, .elements = part.of(output_elements())},
        {&input.buffer()}, {&output.buffer()});
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    const PartOfTime part = part_of(*arguments.batch);
    context().run(ActivationError{.input = input.data(),
                                  .output_error = error.data(),
                                  .input_error = input_error.data(),
                                  .activation = activation_,
                                  .adds = arguments.adds[0] != 0,
                                  .part = part,
                                  .elements = part.of(input_elements())},
                  {&input.buffer(), &error.buffer()}, {&input_error.buffer()});
  }

 private:
  ActivationMath<float> activation_;
};

class DropoutKernel final : public GpuKernel {
 public:
  DropoutKernel(const SharedContext& context, const KernelSpec& spec, const Dropout& dropout)
      : GpuKernel(context, spec),
        stream_(stream_id("dropout", spec.layer)),
        draw_{.stride = (static_cast<uint64_t>(spec.output.elements()) + 3) / 4 * 4,
              .threshold = static_cast<uint64_t>(dropout.probability * 0x1p32),
              .scale = static_cast<float>(1.0 / (1.0 - dropout.probability))} {}

  bool streams() const override { return streams_elements(); }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    drop(own(arguments.inputs[0]), own(arguments.output), *arguments.batch, false);
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] != nullptr)
      drop(own(arguments.output_error), own(arguments.input_errors[0]), *arguments.batch, arguments.adds[0] != 0);
  }

 private:
  void drop(const GpuTensor& from, const GpuTensor& to, const MicroBatch& batch, bool adds) {
    MILLRACE_CHECK(!batch.training || static_cast<int64_t>(batch.sample_ids.size()) == samples(), "{}: {} sample ids for {} samples",
                   spec().layer, batch.sample_ids.size(), samples());
    const PartOfTime part = part_of(batch);
    draw_.seed = batch.seed;
    draw_.stream = stream_ + static_cast<uint64_t>(batch.epoch);
    const int64_t* ids = batch.training ? ids_.write(context(), batch.sample_ids, "layer \"" + spec().layer + "\": sample ids") : nullptr;
    context().run(DropOut{.from = from.data(),
                          .to = to.data(),
                          .sample_ids = ids,
                          .draw = draw_,
                          .elements_per_sample = spec().output.elements(),
                          .adds = adds,
                          .part = part,
                          .elements = part.of(output_elements())},
                  {&from.buffer(), ids_.buffer()}, {&to.buffer()});
  }

  uint64_t stream_;
  DropoutDraw draw_;
  UploadedNumbers ids_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Pool2d& operation) {
  return std::make_unique<PoolingKernel>(context, spec, operation);
}
// One window as large as the input.
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const GlobalPool& operation) {
  const Shape& in = spec.inputs[0];
  return std::make_unique<PoolingKernel>(context, spec, Pool2d{.kind = operation.kind, .kernel_h = in.height, .kernel_w = in.width});
}
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const LocalResponseNorm& operation) {
  return std::make_unique<ResponseKernel>(context, spec, operation);
}
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Activation& operation) {
  return std::make_unique<ActivationKernel>(context, spec, operation);
}
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Dropout& operation) {
  return std::make_unique<DropoutKernel>(context, spec, operation);
}

}  // namespace millrace::gpu
