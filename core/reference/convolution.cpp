// Convolution and dense layers: the three phases are one loop nest over all products, in which output, input and
// weight take turns at being the sum.
#include <utility>
#include <vector>

#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class Convolution final : public ReferenceKernel<T> {
 public:
  Convolution(const KernelSpec& spec, const Conv2d& operation) : ReferenceKernel<T>(spec), operation_(operation) {
    MILLRACE_CHECK(spec.inputs[0].channels % operation.groups == 0 && spec.output.channels % operation.groups == 0,
                   "{}: {} groups over {} inputs and {} outputs", spec.layer, operation.groups, spec.inputs[0].channels,
                   spec.output.channels);
  }
  bool streams() const override { return this->spec().in_parts && this->streams_rows(); }

 protected:
  std::vector<Shape> parameter_shapes() const override {
    const Shape weight{this->spec().output.channels, inputs_per_group(), operation_.kernel_h * operation_.kernel_w};
    if (!this->spec().bias) return {weight};
    return {weight, Shape{this->spec().output.channels, 1, 1}};
  }

  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& weight = own<T>(arguments.parameters[0]);
    for_each_product([&](int64_t y, int64_t x, int64_t w) { output[y] += input[x] * weight[w]; });
    if (!this->spec().bias) return;
    const auto& bias = own<T>(arguments.parameters[1]);
    this->for_each_element([&](int64_t channel, int64_t y) { output[y] += bias[channel]; });
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& output_error = own<T>(arguments.output_error);
    const auto& weight = own<T>(arguments.parameters[0]);
    for_each_product([&](int64_t y, int64_t x, int64_t w) { input_error[x] += output_error[y] * weight[w]; });
  }

  void add_gradients(const GradientArguments& arguments) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& output_error = own<T>(arguments.output_error);
    auto& weight_gradient = own<T>(arguments.gradients[0]);
    for_each_product([&](int64_t y, int64_t x, int64_t w) { weight_gradient[w] += output_error[y] * input[x]; });
    if (!this->spec().bias) return;
    auto& bias_gradient = own<T>(arguments.gradients[1]);
    this->for_each_element([&](int64_t channel, int64_t y) { bias_gradient[channel] += output_error[y]; });
  }

 private:
  int64_t inputs_per_group() const { return this->spec().inputs[0].channels / operation_.groups; }

  // visit(output index, input index, weight index) for every product that is not with padding; for one output in the
  // order input channel, kernel row, kernel column.
  template <typename Visit>
  void for_each_product(Visit visit) const {
    const Shape& in = this->spec().inputs[0];
    const Shape& out = this->spec().output;
    const Conv2d& o = operation_;
    const int64_t outputs_per_group = out.channels / o.groups;
    for (int64_t sample = 0; sample < this->samples(); ++sample)
      for (int64_t output = 0; output < out.channels; ++output)
        for (int64_t row = 0; row < out.height; ++row)
          for (int64_t column = 0; column < out.width; ++column)
            for (int64_t i = 0; i < inputs_per_group(); ++i)
              for (int64_t kernel_row = 0; kernel_row < o.kernel_h; ++kernel_row) {
                const int64_t in_row = row * o.stride_h - o.pad_h + kernel_row * o.dilation_h;
                if (in_row < 0 || in_row >= in.height) continue;
                for (int64_t kernel_column = 0; kernel_column < o.kernel_w; ++kernel_column) {
                  const int64_t in_column = column * o.stride_w - o.pad_w + kernel_column * o.dilation_w;
                  if (in_column < 0 || in_column >= in.width) continue;
                  const int64_t input = output / outputs_per_group * inputs_per_group() + i;
                  visit(((sample * out.channels + output) * out.height + row) * out.width + column,
                        ((sample * in.channels + input) * in.height + in_row) * in.width + in_column,
                        ((output * inputs_per_group() + i) * o.kernel_h + kernel_row) * o.kernel_w + kernel_column);
                }
              }
  }

  Conv2d operation_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Conv2d& operation) {
  return std::make_unique<Convolution<T>>(spec, operation);
}

// The same product at every position: a convolution with a kernel of one element.
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Dense& operation) {
  return std::make_unique<Convolution<T>>(spec, Conv2d{.out_channels = operation.out_features});
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Conv2d&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Conv2d&);
template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Dense&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Dense&);

}  // namespace millrace::reference
