// Dense layers, the same product at every position of a sample, and the finish of a divided sum.
#include <algorithm>

#include "core/base/index.h"
#include "core/device/sequence.h"
#include "gpu/device/factors.h"
#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

class DenseKernel final : public GpuKernel {
 public:
  DenseKernel(const SharedContext& context, const KernelSpec& spec) : GpuKernel(context, spec) {
    const int64_t x = input_elements(), y = output_elements(), w = inputs() * outputs();
    translated([&] { reserve_factors(*context, spec.layer, std::max({x, y, w}), std::max({x, y, w})); });
  }

  // In parts sums are the same up to rounding: the library chooses its order by the number of columns.
  bool streams() const override { return spec().in_parts && spec().output.width == 1 && !spec().activation && !spec().bias; }
  std::string implementation() const override { return "matrix products"; }

 protected:
  std::vector<Shape> parameter_shapes() const override {
    const Shape weight{outputs(), inputs(), 1};
    if (!spec().bias) return {weight};
    return {weight, {outputs(), 1, 1}};
  }

  // One position: Y[n][o] = X[n][f] W[o][f]^T. More: Y_n[o][p] = W[o][f] X_n[f][p] for each sample.
  void run_forward(const ForwardArguments& arguments) override {
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& weight = own(arguments.parameters[0]);
    const GpuTensor& output = own(arguments.output);
    if (positions() == 1)
      multiply({.m = samples(), .n = outputs(), .k = inputs(), .transpose_b = true}, input, weight, output, spec().adds_to_output);
    else
      multiply_rows(
          {.m = outputs(), .k = inputs(), .batch = samples(), .step_b = inputs() * positions(), .step_result = outputs() * positions()},
          weight, input, output, spec().adds_to_output, chunk_of(*arguments.batch, positions()));
    if (spec().bias) add_bias(own(arguments.parameters[1]), output);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& weight = own(arguments.parameters[0]);
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    const bool adds = arguments.adds[0] != 0;
    if (positions() == 1)
      multiply({.m = samples(), .n = inputs(), .k = outputs()}, error, weight, input_error, adds);
    else
      multiply_rows({.m = inputs(),
                     .k = outputs(),
                     .transpose_a = true,
                     .batch = samples(),
                     .step_b = outputs() * positions(),
                     .step_result = inputs() * positions()},
                    weight, error, input_error, adds, chunk_of(*arguments.batch, positions()));
  }

  void run_gradient(const GradientArguments& arguments) override {
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& gradient = own(arguments.gradients[0]);
    if (positions() == 1) {
      multiply({.m = outputs(), .n = inputs(), .k = samples(), .transpose_a = true}, error, input, gradient, arguments.adds);
    } else {  // sample by sample, so that the order of the sum is this loop's
      const Factor dy = rounded(context(), Scratch::kFirst, error);
      const Factor x = rounded(context(), Scratch::kSecond, input);
      const size_t element = is_narrow(context().options().precision) ? sizeof(uint16_t) : sizeof(float);
      for (int64_t sample = 0; sample < samples(); ++sample) {
        const auto at = [&](const Factor& factor, int64_t channels) {
          return static_cast<const std::byte*>(factor.data) + to_size(sample * channels * positions()) * element;
        };
        queue({.m = outputs(),
               .n = inputs(),
               .k = positions(),
               .transpose_b = true,
               .a = at(dy, outputs()),
               .b = at(x, inputs()),
               .result = gradient.data(),
               .adds = arguments.adds || sample > 0},
              dy, x, gradient);
      }
    }
    if (spec().bias) sum_channels(error, own(arguments.gradients[1]), arguments.adds);
  }

 private:
  int64_t inputs() const { return spec().inputs[0].channels; }
  int64_t outputs() const { return spec().output.channels; }
  int64_t positions() const { return spec().output.plane(); }

  void multiply(Gemm gemm, const GpuTensor& a, const GpuTensor& b, const GpuTensor& result, bool adds) const {
    const Factor first = rounded(context(), Scratch::kFirst, a);
    const Factor second = rounded(context(), Scratch::kSecond, b);
    gemm.a = first.data;
    gemm.b = second.data;
    gemm.result = result.data();
    gemm.adds = adds;
    queue(gemm, first, second, result);
  }
  // Some positions of every sample.
  void multiply_rows(Gemm gemm, const GpuTensor& weight, const GpuTensor& from, const GpuTensor& to, bool adds, StepRange rows) const {
    const Factor first = rounded(context(), Scratch::kFirst, weight);
    const Factor second = rounded(context(), Scratch::kSecond, from);
    const size_t element = is_narrow(context().options().precision) ? sizeof(uint16_t) : sizeof(float);
    gemm.n = rows.size();
    gemm.row_b = gemm.row_result = positions();
    gemm.a = first.data;
    gemm.b = static_cast<const std::byte*>(second.data) + to_size(rows.begin) * element;
    gemm.result = to.data() + rows.begin;
    gemm.adds = adds;
    queue(gemm, first, second, to);
  }
  void queue(Gemm gemm, const Factor& a, const Factor& b, const GpuTensor& result) const {
    gemm.precision = context().options().precision;
    context().compute({a.buffer, b.buffer}, {&result.buffer()}, [&] { context().engine().gemm(gemm); });
  }
};

class FinishKernel final : public GpuKernel {
 public:
  using GpuKernel::GpuKernel;

 protected:
  std::vector<Shape> parameter_shapes() const override {
    if (!spec().bias) return {};
    return {{spec().output.channels, 1, 1}};
  }
  void run_forward(const ForwardArguments& arguments) override {
    const GpuTensor& output = own(arguments.output);
    pass_on(own(arguments.inputs[0]), output, false);
    if (spec().bias) add_bias(own(arguments.parameters[0]), output);
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] != nullptr) pass_on(own(arguments.output_error), own(arguments.input_errors[0]), arguments.adds[0] != 0);
  }
  void run_gradient(const GradientArguments& arguments) override {
    if (spec().bias) sum_channels(own(arguments.output_error), own(arguments.gradients[0]), arguments.adds);
  }

 private:
  void pass_on(const GpuTensor& from, const GpuTensor& to, bool adds) const {
    context().run(straight_copy(from.data(), to.data(), output_elements(), adds), {&from.buffer()}, {&to.buffer()});
  }
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Dense&) {
  return std::make_unique<DenseKernel>(context, spec);
}
std::unique_ptr<Kernel> make_finish(const SharedContext& context, const KernelSpec& spec) {
  MILLRACE_CHECK(spec.inputs.size() == 1 && spec.inputs[0] == spec.output, "{}: the sum and what finishes it differ in shape", spec.layer);
  return std::make_unique<FinishKernel>(context, spec);
}

}  // namespace millrace::gpu
