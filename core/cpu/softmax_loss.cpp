// The loss layer: its output is the probabilities, its error starts E. The arithmetic is core/device/softmax_loss.h, on
// canonical data; scores of one position are that already, others take a way through scratch memory.
#include "core/device/softmax_loss.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"

namespace millrace::cpu {

namespace {

class SoftmaxLayer final : public CpuKernel {
 public:
  SoftmaxLayer(const SharedEngine& engine, const KernelSpec& spec)
      : CpuKernel(engine, spec),
        loss_(spec.layer, spec.output, spec.micro_batch),
        layout_(layout_of(spec.output)),
        canonical_(canonical_layout(spec.output, spec.micro_batch)),
        elements_(to_size(spec.micro_batch * spec.output.elements())) {
    MILLRACE_CHECK(!spec.activation, "{}: nothing can be fused behind a loss", spec.layer);
    ScratchPlan plan;
    first_ = plan.add(elements_ * sizeof(float));
    second_ = plan.add(elements_ * sizeof(float));
    reserve(plan);
  }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    CpuTensor& output = own(arguments.output);
    const std::span<const float> logits = canonical(own(arguments.inputs[0]), first_);
    const std::span<float> probabilities = direct() ? std::span(output.data(), elements_) : std::span(scratch<float>(second_), elements_);
    loss_.probabilities(logits, probabilities);
    if (!direct()) scatter(second_, output, false);
    if (arguments.score != nullptr) loss_.add_score(logits, arguments.batch->labels, arguments.batch->label_smoothing, *arguments.score);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    CpuTensor& target = own(arguments.input_errors[0]);
    const bool adds = arguments.adds[0] != 0;
    const std::span<const float> probabilities = canonical(own(arguments.output), first_);
    const MicroBatch& batch = *arguments.batch;
    if (direct()) {
      const std::span<float> errors(target.data(), elements_);
      return loss_.error(probabilities, batch.labels, batch.label_smoothing, batch.error_scale, adds, errors);
    }
    loss_.error(probabilities, batch.labels, batch.label_smoothing, batch.error_scale, false,
                std::span(scratch<float>(second_), elements_));
    scatter(second_, target, adds);
  }

 private:
  bool direct() const { return layout_.block == 1 || layout_.plane == 1; }

  std::span<const float> canonical(const CpuTensor& tensor, size_t offset) const {
    if (direct()) return {tensor.data(), elements_};
    float* const values = scratch<float>(offset);
    copy_channels(threads(), layout_, tensor.data(), {0, layout_.channels}, canonical_, values, 0, false);
    return {values, elements_};
  }
  void scatter(size_t offset, CpuTensor& tensor, bool add) const {
    copy_channels(threads(), canonical_, scratch<float>(offset), {0, layout_.channels}, layout_, tensor.data(), 0, add);
  }

  SoftmaxLoss<float> loss_;
  Layout layout_, canonical_;
  size_t elements_;
  size_t first_ = 0, second_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const SoftmaxCrossEntropy&) {
  return std::make_unique<SoftmaxLayer>(engine, spec);
}

}  // namespace millrace::cpu
