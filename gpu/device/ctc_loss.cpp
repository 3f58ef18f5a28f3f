// The CTC loss, by the host: the scores come down through pinned memory, and probabilities and errors go up again. Its sums over all
// ways to line labels up are short, serial and in double; a call waits for all that was calculated before it.
#include "core/device/ctc_loss.h"

#include "core/base/index.h"
#include "core/device/sequence.h"
#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

class CtcKernel final : public GpuKernel {
 public:
  CtcKernel(const SharedContext& context, const KernelSpec& spec, const CtcLoss& operation)
      : GpuKernel(context, spec),
        ctc_(spec.layer, spec.output, spec.micro_batch, operation.blank),
        scores_(to_size(spec.micro_batch * spec.output.elements())),
        result_(scores_.size()),
        steps_(to_size(spec.micro_batch)) {
    MILLRACE_CHECK(!spec.activation, "{}: nothing can be fused behind a loss", spec.layer);
    translated([&] { context->reserve(Scratch::kResult, scores_.size() * sizeof(float), "layer \"" + spec.layer + "\": errors"); });
  }

  std::string implementation() const override { return "by the host, through pinned memory"; }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    fetch(own(arguments.inputs[0]), *arguments.batch);
    ctc_.probabilities(scores_, result_);
    send(own(arguments.output).buffer());
    if (arguments.score != nullptr) ctc_.add_score(scores_, steps_, arguments.batch->labels, *arguments.score);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    fetch(own(arguments.inputs[0]), *arguments.batch);
    ctc_.error(scores_, steps_, arguments.batch->labels, arguments.batch->error_scale, false, result_);
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    if (arguments.adds[0] == 0) return send(input_error.buffer());
    const Buffer& errors = context().scratch(Scratch::kResult);
    send(errors);
    context().run(straight_copy(errors.as<float>(), input_error.data(), output_elements(), true), {&errors}, {&input_error.buffer()});
  }

 private:
  Context::Rows all() const {
    const size_t bytes = scores_.size() * sizeof(float);
    return {.pitch = bytes, .width = bytes};
  }
  void fetch(const GpuTensor& scores, const MicroBatch& batch) {
    for (int64_t n = 0; n < samples(); ++n) item(steps_, n) = valid_steps(spec(), batch, n);
    context().download(scores.buffer(), all(), [&](size_t begin, const std::byte* from, size_t size) {
      std::copy_n(from, size, reinterpret_cast<std::byte*>(scores_.data()) + begin);
    });
  }
  void send(const Buffer& to) {
    context().upload(to, all(), [&](size_t begin, std::byte* into, size_t size) {
      std::copy_n(reinterpret_cast<const std::byte*>(result_.data()) + begin, size, into);
    });
  }

  CtcMath<float> ctc_;
  std::vector<float> scores_, result_;  // canonical
  std::vector<int64_t> steps_;          // by sample, of the call under way
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const CtcLoss& operation) {
  return std::make_unique<CtcKernel>(context, spec, operation);
}

}  // namespace millrace::gpu
