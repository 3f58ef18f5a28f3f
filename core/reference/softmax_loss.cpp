// The loss layer: its output is the probabilities, its error starts E. The arithmetic is core/device/softmax_loss.h.
#include "core/device/softmax_loss.h"

#include "core/base/check.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class SoftmaxLayer final : public ReferenceKernel<T> {
 public:
  explicit SoftmaxLayer(const KernelSpec& spec) : ReferenceKernel<T>(spec), loss_(spec.layer, spec.output, spec.micro_batch) {
    MILLRACE_CHECK(!spec.activation, "{}: nothing can be fused behind a loss", spec.layer);
  }

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& logits = own<T>(arguments.inputs[0]);
    loss_.probabilities(logits.values(), output.values());
    if (arguments.score != nullptr)
      loss_.add_score(logits.values(), arguments.batch->labels, arguments.batch->label_smoothing, *arguments.score);
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    loss_.error(own<T>(arguments.output).values(), arguments.batch->labels, arguments.batch->label_smoothing, arguments.batch->error_scale,
                /*add=*/true, input_error.values());
  }

 private:
  SoftmaxLoss<T> loss_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const SoftmaxCrossEntropy&) {
  return std::make_unique<SoftmaxLayer<T>>(spec);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const SoftmaxCrossEntropy&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const SoftmaxCrossEntropy&);

}  // namespace millrace::reference
