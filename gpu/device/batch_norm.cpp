// Batch normalisation: the sums of a channel by one block of threads, then everything element by element. What it means, and what the
// kept rows are, is the reference's (core/reference/batch_norm.cpp).
#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

class BatchNormKernel final : public GpuKernel {
 public:
  BatchNormKernel(const SharedContext& context, const KernelSpec& spec, const BatchNorm& norm)
      : GpuKernel(context, spec),
        epsilon_(norm.epsilon),
        momentum_(static_cast<float>(norm.momentum)),
        has_versions_(norm.statistics == Statistics::kRunning),
        running_(has_versions_ && spec.trained) {}

  void commit_statistics(std::span<Tensor* const> state) override {
    if (!running_) return;
    const GpuTensor &mean = own(state[0]), &variance = own(state[1]), &error = own(state[2]), &projection = own(state[3]),
                    &gathered = own(state[4]);
    context().run(CommitGathered{.gathered = gathered.data(),
                                 .running_mean = mean.data(),
                                 .running_variance = variance.data(),
                                 .running_error = error.data(),
                                 .running_projection = projection.data(),
                                 .momentum = static_cast<double>(momentum_),
                                 .epsilon = epsilon_,
                                 .elements = channels()},
                  {}, {&gathered.buffer(), &mean.buffer(), &variance.buffer(), &error.buffer(), &projection.buffer()});
  }

 protected:
  std::vector<Shape> parameter_shapes() const override { return {per_channel(), per_channel()}; }
  std::vector<Shape> state_shapes() const override {
    std::vector<Shape> shapes(has_versions_ ? 4 : 2, per_channel());
    if (running_) shapes.push_back({kGatheredSums, channels(), 1});
    return shapes;
  }
  Shape keep_shape() const override { return {running_ ? kGatheringRows : kKeptRows, channels(), 1}; }

  void run_forward(const ForwardArguments& arguments) override {
    const BatchExtent extent = extent_of(*arguments.batch);
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& scale = own(arguments.parameters[0]);
    const GpuTensor& shift = own(arguments.parameters[1]);
    const GpuTensor& output = own(arguments.output);
    const GpuTensor& keep = own(arguments.keep);
    float* const mean = row(keep, kMean);
    float* const variance = row(keep, kVariance);
    if (own_statistics(*arguments.batch) && !running_) {
      if (count() == 1)
        fail(ErrorCode::kUsage,
             "layer \"{}\": batch norm over one value per channel has no variance; train with a micro-batch of two or more samples",
             spec().layer);
      const double values = static_cast<double>(std::max<int64_t>(1, count()));
      context().reduce(
          BatchMean{.extent = extent, .input = input.data(), .mean = mean, .values = values, .groups = channels(), .length = length()},
          {&input.buffer(), valid_.buffer()}, {&keep.buffer()});
      context().reduce(BatchVariance{.extent = extent,
                                     .input = input.data(),
                                     .mean = mean,
                                     .variance = variance,
                                     .values = values,
                                     .groups = channels(),
                                     .length = length()},
                       {&input.buffer(), valid_.buffer()}, {&keep.buffer()});
    } else {
      for (const size_t i : {size_t{0}, size_t{1}}) {
        const GpuTensor& running = own(arguments.state[i]);
        context().run(straight_copy(running.data(), i == 0 ? mean : variance, channels(), false), {&running.buffer()}, {&keep.buffer()});
      }
    }
    if (own_statistics(*arguments.batch) && running_) {
      for (const int i : {0, 1}) {
        const GpuTensor& average = own(item(arguments.state, 2 + i));
        context().run(straight_copy(average.data(), row(keep, i == 0 ? kMeanError : kMeanProjection), channels(), false),
                      {&average.buffer()}, {&keep.buffer()});
      }
      context().reduce(BatchDistances{.extent = extent,
                                      .input = input.data(),
                                      .mean = mean,
                                      .sum = row(keep, kDistances),
                                      .squares = row(keep, kSquares),
                                      .groups = channels(),
                                      .length = length()},
                       {&input.buffer(), valid_.buffer()}, {&keep.buffer()});
    }
    context().run(NormaliseBatch{.extent = extent,
                                 .input = input.data(),
                                 .mean = mean,
                                 .variance = variance,
                                 .scale = scale.data(),
                                 .shift = shift.data(),
                                 .output = output.data(),
                                 .epsilon = epsilon_,
                                 .elements = output_elements()},
                  {&input.buffer(), &keep.buffer(), &scale.buffer(), &shift.buffer(), valid_.buffer()}, {&output.buffer()});
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    const BatchExtent extent = extent_of(*arguments.batch);
    const bool learns = own_statistics(*arguments.batch), measured = learns && !running_;
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& scale = own(arguments.parameters[0]);
    const GpuTensor& keep = own(arguments.keep);
    if (learns)
      context().reduce(BatchErrorSums{.extent = extent,
                                      .input = input.data(),
                                      .output_error = error.data(),
                                      .mean = row(keep, kMean),
                                      .variance = row(keep, kVariance),
                                      .error_sum = row(keep, kErrorSum),
                                      .projection = row(keep, kProjection),
                                      .epsilon = epsilon_,
                                      .groups = channels(),
                                      .length = length()},
                       {&input.buffer(), &error.buffer(), valid_.buffer()}, {&keep.buffer()});
    if (arguments.input_errors[0] == nullptr) return;
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    context().run(BatchError{.extent = extent,
                             .input = input.data(),
                             .output_error = error.data(),
                             .mean = row(keep, kMean),
                             .variance = row(keep, kVariance),
                             .scale = scale.data(),
                             .error_sum = measured ? row(keep, kErrorSum)
                                          : learns ? row(keep, kMeanError)
                                                   : nullptr,
                             .projection = measured ? row(keep, kProjection)
                                           : learns ? row(keep, kMeanProjection)
                                                    : nullptr,
                             .input_error = input_error.data(),
                             .epsilon = epsilon_,
                             .values = measured ? static_cast<float>(std::max<int64_t>(1, count())) : 1.0f,
                             .adds = arguments.adds[0] != 0,
                             .elements = input_elements()},
                  {&input.buffer(), &error.buffer(), &keep.buffer(), &scale.buffer(), valid_.buffer()}, {&input_error.buffer()});
  }

  void run_gradient(const GradientArguments& arguments) override {
    if (!own_statistics(*arguments.batch)) return;  // frozen: nothing to learn, nothing to commit
    static_cast<void>(extent_of(*arguments.batch));
    const GpuTensor& keep = own(arguments.keep);
    const GpuTensor& running_mean = own(arguments.state[0]);
    const GpuTensor& running_variance = own(arguments.state[1]);
    const bool wanted = !arguments.gradients.empty();
    const GpuTensor* scale = wanted ? &own(arguments.gradients[0]) : nullptr;
    const GpuTensor* shift = wanted ? &own(arguments.gradients[1]) : nullptr;
    context().run(
        CommitBatchNorm{.keep = keep.data(),
                        .scale_gradient = wanted ? scale->data() : nullptr,
                        .shift_gradient = wanted ? shift->data() : nullptr,
                        .running_mean = running_mean.data(),
                        .running_variance = running_variance.data(),
                        .adds = arguments.adds,
                        .momentum = momentum_,
                        .unbiased = count() < 2 ? 1.0f : static_cast<float>(count()) / static_cast<float>(count() - 1),
                        .commits = count() >= 2 && !running_,  // else nothing but empty samples
                        .elements = channels()},
        {&keep.buffer()},
        {&running_mean.buffer(), &running_variance.buffer(), wanted ? &scale->buffer() : nullptr, wanted ? &shift->buffer() : nullptr});
    if (!running_) return;
    const GpuTensor& gathered = own(arguments.state[4]);
    context().run(GatherBatchNorm{.keep = keep.data(),
                                  .running_mean = running_mean.data(),
                                  .gathered = gathered.data(),
                                  .count = static_cast<double>(count()),
                                  .elements = channels()},
                  {&keep.buffer(), &running_mean.buffer()}, {&gathered.buffer()});
  }

 private:
  int64_t channels() const { return spec().output.channels; }
  int64_t length() const { return samples() * spec().output.plane(); }
  int64_t count() const { return valid_.rows() * spec().output.width; }  // per channel, that count
  Shape per_channel() const { return {channels(), 1, 1}; }
  bool own_statistics(const MicroBatch& batch) const { return batch.training && spec().trained; }
  float* row(const GpuTensor& keep, KeptRow row) const { return keep.data() + row * channels(); }
  BatchExtent extent_of(const MicroBatch& batch) {
    const int32_t* valid = valid_.write(context(), spec(), batch);
    return {.channels = channels(), .height = spec().output.height, .width = spec().output.width, .valid = valid};
  }

  double epsilon_;
  float momentum_;
  bool has_versions_;  // of its statistics
  bool running_;       // and they are trained with
  ValidRows valid_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const BatchNorm& operation) {
  return std::make_unique<BatchNormKernel>(context, spec, operation);
}

}  // namespace millrace::gpu
