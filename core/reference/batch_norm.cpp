// Batch normalisation. In training the statistics are the micro-batch's own, per channel: mean and biased variance.
// The running ones move towards them (with the unbiased variance) when G commits, in ascending s. In evaluation, and
// always in a frozen layer, the running ones are used: they are then constants of the layer like its scale and shift.
//
// Rows behind the end of a short sample (MicroBatch::lengths) count in no statistic; they come out as zero.
//
// Parameters {scale, shift}, state {running mean, running variance}, keep {mean, biased variance} of the micro-batch;
// x-hat is computed again from the input wherever it is needed.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/device/sequence.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class BatchNormalisation final : public ReferenceKernel<T> {
 public:
  BatchNormalisation(const KernelSpec& spec, const BatchNorm& operation)
      : ReferenceKernel<T>(spec), epsilon_(static_cast<T>(operation.epsilon)), momentum_(static_cast<T>(operation.momentum)) {}

 protected:
  std::vector<Shape> parameter_shapes() const override { return {per_channel(), per_channel()}; }
  std::vector<Shape> state_shapes() const override { return {per_channel(), per_channel()}; }
  Shape keep_shape() const override { return {channels(), 2, 1}; }

  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& scale = own<T>(arguments.parameters[0]);
    const auto& shift = own<T>(arguments.parameters[1]);
    auto& statistics = own<T>(arguments.keep);
    if (own_statistics(*arguments.batch)) {
      if (count(*arguments.batch) == 1)
        fail(ErrorCode::kUsage,
             "layer \"{}\": batch norm over one value per channel has no variance; train with a micro-batch of two or more samples",
             this->spec().layer);
      measure(input, *arguments.batch, statistics);
    } else {
      const auto& running_mean = own<T>(arguments.state[0]);
      const auto& running_variance = own<T>(arguments.state[1]);
      for (int64_t c = 0; c < channels(); ++c) {
        statistics.at(0, c, 0, 0) = running_mean[c];
        statistics.at(0, c, 1, 0) = running_variance[c];
      }
    }
    for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) { output[i] += scale[c] * normalised(input[i], statistics, c) + shift[c]; });
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& output_error = own<T>(arguments.output_error);
    const auto& scale = own<T>(arguments.parameters[0]);
    const auto& statistics = own<T>(static_cast<const Tensor*>(arguments.keep));
    if (!own_statistics(*arguments.batch)) {
      for_each_valid(*arguments.batch,
                     [&](int64_t c, int64_t i) { input_error[i] += output_error[i] * scale[c] * inverse_deviation(statistics, c); });
      return;
    }
    // The statistics depend on every input: their share of the error is its mean and its projection on x-hat.
    std::vector<T> error_sum(static_cast<size_t>(channels())), projection(static_cast<size_t>(channels()));
    for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) {
      error_sum[static_cast<size_t>(c)] += output_error[i];
      projection[static_cast<size_t>(c)] += output_error[i] * normalised(input[i], statistics, c);
    });
    const T values = static_cast<T>(count(*arguments.batch));
    for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) {
      const T through_statistics =
          (error_sum[static_cast<size_t>(c)] + normalised(input[i], statistics, c) * projection[static_cast<size_t>(c)]) / values;
      input_error[i] += scale[c] * inverse_deviation(statistics, c) * (output_error[i] - through_statistics);
    });
  }

  void add_gradients(const GradientArguments& arguments) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& output_error = own<T>(arguments.output_error);
    const auto& statistics = own<T>(static_cast<const Tensor*>(arguments.keep));
    auto& scale_gradient = own<T>(arguments.gradients[0]);
    auto& shift_gradient = own<T>(arguments.gradients[1]);
    for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) {
      scale_gradient[c] += output_error[i] * normalised(input[i], statistics, c);
      shift_gradient[c] += output_error[i];
    });
    if (own_statistics(*arguments.batch) && count(*arguments.batch) > 1)
      commit(statistics, count(*arguments.batch), own<T>(arguments.state[0]), own<T>(arguments.state[1]));
  }

 private:
  int64_t channels() const { return this->spec().output.channels; }
  Shape per_channel() const { return {channels(), 1, 1}; }
  bool own_statistics(const MicroBatch& batch) const { return batch.training && this->spec().trained; }

  // Values per channel that count.
  int64_t count(const MicroBatch& batch) const {
    int64_t rows = 0;
    for (int64_t n = 0; n < this->samples(); ++n) rows += valid_steps(this->spec(), batch, n);
    return rows * this->spec().output.width;
  }
  // visit(channel, index in memory) for every element in front of its sample's end.
  template <typename Visit>
  void for_each_valid(const MicroBatch& batch, Visit visit) const {
    const Shape& shape = this->spec().output;
    std::vector<int64_t> valid;
    for (int64_t n = 0; n < this->samples(); ++n) valid.push_back(valid_steps(this->spec(), batch, n));
    this->for_each_element([&](int64_t c, int64_t i) {
      if (i / shape.width % shape.height < valid[static_cast<size_t>(i / shape.elements())]) visit(c, i);
    });
  }

  void measure(const ReferenceTensor<T>& input, const MicroBatch& batch, ReferenceTensor<T>& statistics) const {
    for (T& value : statistics.values()) value = 0;
    const T values = static_cast<T>(std::max<int64_t>(1, count(batch)));
    for_each_valid(batch, [&](int64_t c, int64_t i) { statistics.at(0, c, 0, 0) += input[i]; });
    for (int64_t c = 0; c < channels(); ++c) statistics.at(0, c, 0, 0) /= values;
    for_each_valid(batch, [&](int64_t c, int64_t i) {
      const T distance = input[i] - statistics.at(0, c, 0, 0);
      statistics.at(0, c, 1, 0) += distance * distance;
    });
    for (int64_t c = 0; c < channels(); ++c) statistics.at(0, c, 1, 0) /= values;
  }

  void commit(const ReferenceTensor<T>& statistics, int64_t count, ReferenceTensor<T>& running_mean,
              ReferenceTensor<T>& running_variance) const {
    const T unbiased = static_cast<T>(count) / static_cast<T>(count - 1);
    for (int64_t c = 0; c < channels(); ++c) {
      running_mean[c] = (T{1} - momentum_) * running_mean[c] + momentum_ * statistics.at(0, c, 0, 0);
      running_variance[c] = (T{1} - momentum_) * running_variance[c] + momentum_ * unbiased * statistics.at(0, c, 1, 0);
    }
  }

  T inverse_deviation(const ReferenceTensor<T>& statistics, int64_t channel) const {
    return T{1} / std::sqrt(statistics.at(0, channel, 1, 0) + epsilon_);
  }
  T normalised(T x, const ReferenceTensor<T>& statistics, int64_t channel) const {
    return (x - statistics.at(0, channel, 0, 0)) * inverse_deviation(statistics, channel);
  }

  T epsilon_;
  T momentum_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const BatchNorm& operation) {
  return std::make_unique<BatchNormalisation<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const BatchNorm&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const BatchNorm&);

}  // namespace millrace::reference
