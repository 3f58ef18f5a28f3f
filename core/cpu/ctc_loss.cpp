// The CTC loss: its output is the probabilities, its error starts E. The arithmetic is core/device/ctc_loss.h, on canonical
// data, which they reach through scratch memory.
#include "core/device/ctc_loss.h"

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/device/sequence.h"

namespace millrace::cpu {

namespace {

class CtcLayer final : public CpuKernel {
 public:
  CtcLayer(const SharedEngine& engine, const KernelSpec& spec, const CtcLoss& operation)
      : CpuKernel(engine, spec),
        ctc_(spec.layer, spec.output, spec.micro_batch, operation.blank),
        layout_(layout_of(spec.output)),
        canonical_(canonical_layout(spec.output, spec.micro_batch)),
        elements_(to_size(spec.micro_batch * spec.output.elements())),
        steps_(to_size(spec.micro_batch)) {
    MILLRACE_CHECK(!spec.activation, "{}: nothing can be fused behind a loss", spec.layer);
    ScratchPlan plan;
    scores_ = plan.add(elements_ * sizeof(float));
    result_ = plan.add(elements_ * sizeof(float));
    reserve(plan);
  }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const std::span<const float> scores = canonical(own(arguments.inputs[0]));
    const std::span<float> result(scratch<float>(result_), elements_);
    ctc_.probabilities(scores, result);
    copy_channels(threads(), canonical_, result.data(), {0, layout_.channels}, layout_, own(arguments.output).data(), 0, false);
    measure_samples(*arguments.batch);
    if (arguments.score != nullptr) ctc_.add_score(scores, steps_, arguments.batch->labels, *arguments.score);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const std::span<float> result(scratch<float>(result_), elements_);
    measure_samples(*arguments.batch);
    ctc_.error(canonical(own(arguments.inputs[0])), steps_, arguments.batch->labels, arguments.batch->error_scale, false, result);
    copy_channels(threads(), canonical_, result.data(), {0, layout_.channels}, layout_, own(arguments.input_errors[0]).data(), 0,
                  arguments.adds[0] != 0);
  }

 private:
  void measure_samples(const MicroBatch& batch) {
    for (int64_t n = 0; n < samples(); ++n) fast_item(steps_, n) = valid_steps(spec(), batch, n);
  }
  std::span<const float> canonical(const CpuTensor& tensor) const {
    float* const values = scratch<float>(scores_);
    copy_channels(threads(), layout_, tensor.data(), {0, layout_.channels}, canonical_, values, 0, false);
    return {values, elements_};
  }

  CtcMath<float> ctc_;
  Layout layout_, canonical_;
  size_t elements_;
  std::vector<int64_t> steps_;  // by sample, of the call under way
  size_t scores_ = 0, result_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const CtcLoss& operation) {
  return std::make_unique<CtcLayer>(engine, spec, operation);
}

}  // namespace millrace::cpu
