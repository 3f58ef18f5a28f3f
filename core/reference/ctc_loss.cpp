// The loss of sequences whose labels are not lined up with their steps: its output is the probabilities, its error starts E.
// The arithmetic is core/device/ctc_loss.h.
#include "core/device/ctc_loss.h"

#include "core/base/check.h"
#include "core/device/sequence.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class CtcLayer final : public ReferenceKernel<T> {
 public:
  CtcLayer(const KernelSpec& spec, const CtcLoss& operation)
      : ReferenceKernel<T>(spec), ctc_(spec.layer, spec.output, spec.micro_batch, operation.blank) {
    MILLRACE_CHECK(!spec.activation, "{}: nothing can be fused behind a loss", spec.layer);
  }

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& logits = own<T>(arguments.inputs[0]);
    ctc_.probabilities(logits.values(), output.values());
    if (arguments.score != nullptr) ctc_.add_score(logits.values(), steps(*arguments.batch), arguments.batch->labels, *arguments.score);
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    ctc_.error(own<T>(arguments.inputs[0]).values(), steps(*arguments.batch), arguments.batch->labels, arguments.batch->error_scale,
               /*add=*/true, input_error.values());
  }

 private:
  std::vector<int64_t> steps(const MicroBatch& batch) const {
    std::vector<int64_t> steps;
    for (int64_t sample = 0; sample < this->samples(); ++sample) steps.push_back(valid_steps(this->spec(), batch, sample));
    return steps;
  }

  CtcMath<T> ctc_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const CtcLoss& operation) {
  return std::make_unique<CtcLayer<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const CtcLoss&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const CtcLoss&);

}  // namespace millrace::reference
