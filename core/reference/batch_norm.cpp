// Batch normalisation. In training the statistics are the micro-batch's own, per channel: mean and biased variance.
// The running ones move towards them (with the unbiased variance) when G commits, in ascending s. In evaluation, and
// always in a frozen layer, the running ones are used: they are then constants of the layer like its scale and shift.
//
// Statistics::kRunning: training uses the running ones too, as constants; F copies them to `keep`, for E and G. Around the copied mean
// F adds up distances and their squares; G moves these sums to the mean of its own version and gathers them, in ascending s, with the
// sums of errors and of their products with x-hat; what a mini-batch gathered is committed once, at U. In the place of the mean error and
// the projection on x-hat, which exact statistics take out of the errors that go back, E takes out their running averages.
//
// Rows behind the end of a short sample (MicroBatch::lengths) count in no statistic; they come out as zero.
//
// Parameters {scale, shift}, state {running mean, running variance}, keep {mean, biased variance} of the micro-batch;
// x-hat is computed again from the input wherever it is needed. kRunning: state has also {mean error, projection} and {sum, sum of
// squares, count, errors, products} gathered, and keep {centre, sum, sum of squares, count} of the micro-batch and the two averages.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/running_statistics.h"
#include "core/device/sequence.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class BatchNormalisation final : public ReferenceKernel<T> {
 public:
  BatchNormalisation(const KernelSpec& spec, const BatchNorm& operation)
      : ReferenceKernel<T>(spec),
        epsilon_(static_cast<T>(operation.epsilon)),
        momentum_(static_cast<T>(operation.momentum)),
        has_versions_(operation.statistics == Statistics::kRunning),
        running_(has_versions_ && spec.trained) {}

  void commit_statistics(std::span<Tensor* const> state) override {
    if (!running_) return;
    auto &mean = own<T>(state[0]), &variance = own<T>(state[1]), &error = own<T>(state[2]), &projection = own<T>(state[3]);
    auto& gathered = own<T>(state[4]);
    for (int64_t c = 0; c < channels(); ++c) {
      const auto sum = [&](int64_t row) { return static_cast<double>(gathered.at(0, row, c, 0)); };
      const RunningStatistics before{static_cast<double>(mean[c]), static_cast<double>(variance[c]), static_cast<double>(error[c]),
                                     static_cast<double>(projection[c])};
      const RunningStatistics after =
          updated(before, {sum(0), sum(1), sum(2), sum(3), sum(4)}, static_cast<double>(momentum_), static_cast<double>(epsilon_));
      mean[c] = static_cast<T>(after.mean);
      variance[c] = static_cast<T>(after.variance);
      error[c] = static_cast<T>(after.error);
      projection[c] = static_cast<T>(after.projection);
    }
    for (T& value : gathered.values()) value = 0;
  }

 protected:
  std::vector<Shape> parameter_shapes() const override { return {per_channel(), per_channel()}; }
  std::vector<Shape> state_shapes() const override {
    std::vector<Shape> shapes(has_versions_ ? 4 : 2, per_channel());
    if (running_) shapes.push_back({kGatheredSums, channels(), 1});
    return shapes;
  }
  Shape keep_shape() const override { return {channels(), running_ ? 8 : 2, 1}; }

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
      if (gathers(*arguments.batch)) {
        add_up(input, *arguments.batch, statistics);
        for (int64_t c = 0; c < channels(); ++c)
          for (const int64_t i : {0, 1}) statistics.at(0, c, 6 + i, 0) = own<T>(fast_item(arguments.state, 2 + i))[c];
      }
    }
    for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) { output[i] += scale[c] * normalised(input[i], statistics, c) + shift[c]; });
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& output_error = own<T>(arguments.output_error);
    const auto& scale = own<T>(arguments.parameters[0]);
    const auto& statistics = own<T>(static_cast<const Tensor*>(arguments.keep));
    if (gathers(*arguments.batch)) {
      for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) {
        const T expected = statistics.at(0, c, 6, 0) + normalised(input[i], statistics, c) * statistics.at(0, c, 7, 0);
        input_error[i] += scale[c] * inverse_deviation(statistics, c) * (output_error[i] - expected);
      });
      return;
    }
    if (!own_statistics(*arguments.batch)) {
      for_each_valid(*arguments.batch,
                     [&](int64_t c, int64_t i) { input_error[i] += output_error[i] * scale[c] * inverse_deviation(statistics, c); });
      return;
    }
    // The statistics depend on every input: their share of the error is its mean and its projection on x-hat.
    std::vector<T> error_sum(to_size(channels())), projection(to_size(channels()));
    for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) {
      fast_item(error_sum, c) += output_error[i];
      fast_item(projection, c) += output_error[i] * normalised(input[i], statistics, c);
    });
    const T values = static_cast<T>(count(*arguments.batch));
    for_each_valid(*arguments.batch, [&](int64_t c, int64_t i) {
      const T through_statistics = (fast_item(error_sum, c) + normalised(input[i], statistics, c) * fast_item(projection, c)) / values;
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
    if (gathers(*arguments.batch)) {
      auto& gathered = own<T>(arguments.state[4]);
      gather(statistics, own<T>(arguments.state[0]), gathered);
      for (int64_t c = 0; c < channels(); ++c) {
        gathered.at(0, 3, c, 0) += shift_gradient[c];
        gathered.at(0, 4, c, 0) += scale_gradient[c];
      }
    }
    if (own_statistics(*arguments.batch) && count(*arguments.batch) > 1)
      commit(statistics, count(*arguments.batch), own<T>(arguments.state[0]), own<T>(arguments.state[1]));
  }

 private:
  int64_t channels() const { return this->spec().output.channels; }
  Shape per_channel() const { return {channels(), 1, 1}; }
  bool own_statistics(const MicroBatch& batch) const { return batch.training && this->spec().trained && !running_; }
  bool gathers(const MicroBatch& batch) const { return batch.training && running_; }

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
      if (i / shape.width % shape.height < fast_item(valid, i / shape.elements())) visit(c, i);
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

  // Around the mean, so that little is lost.
  void add_up(const ReferenceTensor<T>& input, const MicroBatch& batch, ReferenceTensor<T>& statistics) const {
    const T values = static_cast<T>(count(batch));
    for (int64_t c = 0; c < channels(); ++c) {
      statistics.at(0, c, 2, 0) = statistics.at(0, c, 0, 0);
      statistics.at(0, c, 3, 0) = statistics.at(0, c, 4, 0) = 0;
      statistics.at(0, c, 5, 0) = values;
    }
    for_each_valid(batch, [&](int64_t c, int64_t i) {
      const T distance = input[i] - statistics.at(0, c, 2, 0);
      statistics.at(0, c, 3, 0) += distance;
      statistics.at(0, c, 4, 0) += distance * distance;
    });
  }

  // The micro-batch may have run ahead of an update: its sums move from the centre of its F to the mean of now.
  void gather(const ReferenceTensor<T>& statistics, const ReferenceTensor<T>& running_mean, ReferenceTensor<T>& gathered) const {
    for (int64_t c = 0; c < channels(); ++c) {
      const T moved = statistics.at(0, c, 2, 0) - running_mean[c];
      const T sum = statistics.at(0, c, 3, 0), values = statistics.at(0, c, 5, 0);
      gathered.at(0, 0, c, 0) += sum + values * moved;
      gathered.at(0, 1, c, 0) += statistics.at(0, c, 4, 0) + T{2} * moved * sum + values * moved * moved;
      gathered.at(0, 2, c, 0) += values;
    }
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
  bool has_versions_;  // of its statistics
  bool running_;       // and they are trained with
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const BatchNorm& operation) {
  return std::make_unique<BatchNormalisation<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const BatchNorm&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const BatchNorm&);

}  // namespace millrace::reference
