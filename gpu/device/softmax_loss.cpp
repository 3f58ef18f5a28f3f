// The loss layer: probabilities and each position's score on the GPU, the sum over a micro-batch on the host, sample by sample.
#include "core/device/softmax_loss.h"

#include "core/base/index.h"
#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

class SoftmaxKernel final : public GpuKernel {
 public:
  SoftmaxKernel(const SharedContext& context, const KernelSpec& spec)
      : GpuKernel(context, spec), loss_(spec.layer, spec.output, spec.micro_batch) {
    MILLRACE_CHECK(!spec.activation, "{}: nothing can be fused behind a loss", spec.layer);
  }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const bool scored = arguments.score != nullptr;
    const int32_t* labels = scored ? write_labels(*arguments.batch) : nullptr;
    const GpuTensor& logits = own(arguments.inputs[0]);
    const GpuTensor& output = own(arguments.output);
    const size_t score_bytes = to_size(places()) * sizeof(PositionScore);
    if (scored && scores_.bytes() == 0) scores_ = context().allocate(score_bytes, "layer \"" + spec().layer + "\": scores");
    context().run(SoftmaxPositions{.logits = logits.data(),
                                   .probabilities = output.data(),
                                   .labels = labels,
                                   .scores = scored ? scores_.as<PositionScore>() : nullptr,
                                   .classes = spec().output.channels,
                                   .positions = positions(),
                                   .target = SmoothedLabel<float>(smoothing_of(arguments), spec().output.channels),
                                   .elements = places()},
                  {&logits.buffer(), labels_.buffer()}, {&output.buffer(), scored ? &scores_ : nullptr});
    if (!scored) return;
    context().end_of_calculation();
    std::vector<PositionScore> scores(to_size(places()));
    context().download(scores_, {.pitch = score_bytes, .width = score_bytes}, [&](size_t begin, const std::byte* from, size_t size) {
      std::copy_n(from, size, reinterpret_cast<std::byte*>(scores.data()) + begin);
    });
    for (int64_t sample = 0; sample < samples(); ++sample) {
      PositionScore last;  // of its labelled positions
      for (int64_t position = 0; position < positions(); ++position) {
        const PositionScore& score = item(scores, sample * positions() + position);
        if (score.labelled == 0) continue;
        arguments.score->loss += score.loss;
        last = score;
      }
      arguments.score->samples += last.labelled;
      arguments.score->correct += last.correct;
    }
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const int32_t* labels = write_labels(*arguments.batch);
    const GpuTensor& output = own(arguments.output);
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    context().run(SoftmaxError{.probabilities = output.data(),
                               .labels = labels,
                               .input_error = input_error.data(),
                               .classes = spec().output.channels,
                               .positions = positions(),
                               .scale = static_cast<float>(arguments.batch->error_scale),
                               .target = SmoothedLabel<float>(smoothing_of(arguments), spec().output.channels),
                               .adds = arguments.adds[0] != 0,
                               .elements = output_elements()},
                  {&output.buffer(), labels_.buffer()}, {&input_error.buffer()});
  }

 private:
  // Scores are asked for with a batch, probabilities alone without.
  static double smoothing_of(const auto& arguments) { return arguments.batch == nullptr ? 0 : arguments.batch->label_smoothing; }
  int64_t positions() const { return spec().output.plane(); }
  int64_t places() const { return samples() * positions(); }
  const int32_t* write_labels(const MicroBatch& batch) {
    loss_.check(batch.labels);
    return labels_.write(context(), batch.labels, "layer \"" + spec().layer + "\": labels");
  }

  SoftmaxLoss<float> loss_;
  UploadedNumbers labels_;
  Buffer scores_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const SoftmaxCrossEntropy&) {
  return std::make_unique<SoftmaxKernel>(context, spec);
}

}  // namespace millrace::gpu
