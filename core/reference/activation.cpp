// An activation as a layer of its own. Its derivative comes from the activation of the input, not from the output:
// another activation may be fused behind it.
#include "core/device/activation_math.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class ActivationLayer final : public ReferenceKernel<T> {
 public:
  ActivationLayer(const KernelSpec& spec, const Activation& operation) : ReferenceKernel<T>(spec), activation_(operation) {}
  bool streams() const override { return this->streams_rows(); }

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& input = own<T>(arguments.inputs[0]);
    for (int64_t i = 0; i < output.elements(); ++i) output[i] += activation_(input[i]);
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& output_error = own<T>(arguments.output_error);
    for (int64_t i = 0; i < input.elements(); ++i) input_error[i] += output_error[i] * activation_.derivative(activation_(input[i]));
  }

 private:
  ActivationMath<T> activation_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Activation& operation) {
  return std::make_unique<ActivationLayer<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Activation&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Activation&);

}  // namespace millrace::reference
