// Convolutions: FP, EB and PG are a library call each, by the algorithm that was chosen when the kernel was made.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/index.h"
#include "gpu/device/factors.h"
#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

class ConvolutionKernel final : public GpuKernel {
 public:
  ConvolutionKernel(const SharedContext& context, const KernelSpec& spec, const Conv2d& conv)
      : GpuKernel(context, spec), geometry_(geometry_of(spec, conv)) {
    translated([&] {
      const std::string what = fmt::format("layer \"{}\": workspace of its convolution", spec.layer);
      for (const ConvolutionPhase phase : phases()) {
        choice(phase) = context->choose(geometry_, phase);
        context->reserve(Scratch::kWorkspace, choice(phase).workspace, what);
      }
      if (!is_narrow(context->options().precision)) return;
      const int64_t x = geometry_.input_elements(), w = geometry_.weight_elements(), y = geometry_.output_elements();
      reserve_factors(*context, spec.layer, std::max(x, y), std::max(w, y));
      context->reserve(Scratch::kResult, to_size(std::max({x, w, y})) * sizeof(uint16_t), what);
    });
  }

  std::string implementation() const override {
    std::string text;
    constexpr std::string_view kNames[] = {"FP", "EB", "PG"};
    for (const ConvolutionPhase phase : phases())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", item(kNames, phase), item(choices_, phase).name);
    return text;
  }

 protected:
  std::vector<Shape> parameter_shapes() const override {
    const Shape weight{geometry_.outputs, geometry_.inputs / geometry_.groups, geometry_.kernel_h * geometry_.kernel_w};
    if (!spec().bias) return {weight};
    return {weight, {geometry_.outputs, 1, 1}};
  }

  void run_forward(const ForwardArguments& arguments) override {
    const GpuTensor& output = own(arguments.output);
    convolve(ConvolutionPhase::kForward, own(arguments.inputs[0]), own(arguments.parameters[0]), output, spec().adds_to_output);
    if (spec().bias) add_bias(own(arguments.parameters[1]), output);
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    MILLRACE_CHECK(spec().input_error_needed, "{}: the error of its input is asked for, but the kernel was made without", spec().layer);
    convolve(ConvolutionPhase::kInputError, own(arguments.output_error), own(arguments.parameters[0]), own(arguments.input_errors[0]),
             arguments.adds[0] != 0);
  }
  void run_gradient(const GradientArguments& arguments) override {
    MILLRACE_CHECK(spec().trained, "{}: gradients are asked for, but the kernel was made frozen", spec().layer);
    const GpuTensor& error = own(arguments.output_error);
    convolve(ConvolutionPhase::kWeightGradient, own(arguments.inputs[0]), error, own(arguments.gradients[0]), arguments.adds);
    if (spec().bias) sum_channels(error, own(arguments.gradients[1]), arguments.adds);
  }

 private:
  static ConvolutionGeometry geometry_of(const KernelSpec& spec, const Conv2d& conv) {
    const Shape& in = spec.inputs[0];
    return {.samples = spec.micro_batch,
            .inputs = in.channels,
            .height = in.height,
            .width = in.width,
            .outputs = spec.output.channels,
            .output_height = spec.output.height,
            .output_width = spec.output.width,
            .kernel_h = conv.kernel_h,
            .kernel_w = conv.kernel_w,
            .stride_h = conv.stride_h,
            .stride_w = conv.stride_w,
            .pad_h = conv.pad_h,
            .pad_w = conv.pad_w,
            .dilation_h = conv.dilation_h,
            .dilation_w = conv.dilation_w,
            .groups = conv.groups};
  }
  std::vector<ConvolutionPhase> phases() const {
    std::vector<ConvolutionPhase> phases{ConvolutionPhase::kForward};
    if (spec().input_error_needed) phases.push_back(ConvolutionPhase::kInputError);
    if (spec().trained) phases.push_back(ConvolutionPhase::kWeightGradient);
    return phases;
  }
  ConvolutionChoice& choice(ConvolutionPhase phase) { return item(choices_, phase); }

  void convolve(ConvolutionPhase phase, const GpuTensor& first, const GpuTensor& second, const GpuTensor& result, bool adds) {
    Context& c = context();
    const Precision precision = c.options().precision;
    const bool narrow = is_narrow(precision);
    const ConvolutionGeometry& g = geometry_;
    ChannelsLast x, w, y;
    if (choice(phase).channels_last) {
      x = {g.inputs, g.height * g.width};
      w = {g.inputs / g.groups, g.kernel_h * g.kernel_w};
      y = {g.outputs, g.output_height * g.output_width};
    }
    const bool back = phase == ConvolutionPhase::kInputError, gradient = phase == ConvolutionPhase::kWeightGradient;
    const Factor a = rounded(c, Scratch::kFirst, first, back ? y : x);
    const Factor b = rounded(c, Scratch::kSecond, second, gradient ? y : w);
    const Buffer& workspace = c.scratch(Scratch::kWorkspace);
    const Buffer& target = narrow ? c.scratch(Scratch::kResult) : result.buffer();
    c.compute({a.buffer, b.buffer}, {&target, &workspace}, [&] {
      c.engine().convolution({.geometry = geometry_,
                              .phase = phase,
                              .precision = precision,
                              .algorithm = choice(phase).algorithm,
                              .channels_last = choice(phase).channels_last,
                              .first = a.data,
                              .second = b.data,
                              .result = target.as<void>(),
                              .adds = adds && !narrow,
                              .workspace = workspace.as<void>(),
                              .workspace_bytes = choice(phase).workspace});
    });
    if (!narrow) return;
    c.run(Widen{.from = target.as<uint16_t>(),
                .to = result.data(),
                .bfloat = precision == Precision::kBfloat16,
                .adds = adds,
                .order = back       ? x
                         : gradient ? w
                                    : y,
                .elements = result.elements()},
          {&target}, {&result.buffer()});
  }

  ConvolutionGeometry geometry_;
  ConvolutionChoice choices_[3];
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Conv2d& operation) {
  return std::make_unique<ConvolutionKernel>(context, spec, operation);
}

}  // namespace millrace::gpu
