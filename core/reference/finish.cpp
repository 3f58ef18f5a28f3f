// What follows the raw sum of a divided convolution or dense layer: the bias, per channel. (The activation, like every
// fused one, is the base kernel's.)
#include "core/base/check.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class Finish final : public ReferenceKernel<T> {
 public:
  explicit Finish(const KernelSpec& spec) : ReferenceKernel<T>(spec) {
    MILLRACE_CHECK(spec.inputs.size() == 1 && spec.inputs[0] == spec.output, "{}: the sum and what finishes it differ in shape",
                   spec.layer);
  }

 protected:
  std::vector<Shape> parameter_shapes() const override {
    if (!this->spec().bias) return {};
    return {Shape{this->spec().output.channels, 1, 1}};
  }

  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& sum = own<T>(arguments.inputs[0]);
    this->for_each_element([&](int64_t, int64_t i) { output[i] += sum[i]; });
    if (!this->spec().bias) return;
    const auto& bias = own<T>(arguments.parameters[0]);
    this->for_each_element([&](int64_t channel, int64_t i) { output[i] += bias[channel]; });
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& output_error = own<T>(arguments.output_error);
    this->for_each_element([&](int64_t, int64_t i) { input_error[i] += output_error[i]; });
  }

  void add_gradients(const GradientArguments& arguments) override {
    if (!this->spec().bias) return;
    const auto& output_error = own<T>(arguments.output_error);
    auto& bias_gradient = own<T>(arguments.gradients[0]);
    this->for_each_element([&](int64_t channel, int64_t i) { bias_gradient[channel] += output_error[i]; });
  }
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_finish(const KernelSpec& spec) {
  return std::make_unique<Finish<T>>(spec);
}

template std::unique_ptr<Kernel> make_finish<float>(const KernelSpec&);
template std::unique_ptr<Kernel> make_finish<double>(const KernelSpec&);

}  // namespace millrace::reference
