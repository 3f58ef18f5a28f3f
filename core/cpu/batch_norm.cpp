// Batch normalisation, a run of channels at a time: all of a channel's sums are made by one thread, in one order. Rows
// behind the end of a short sample (MicroBatch::lengths) count in no sum; they come out as zero.
//
// Parameters {scale, shift}, state {running mean, running variance}, keep {mean, biased variance, and the two sums over
// the errors that E makes and G hands out}.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/runs.h"
#include "core/cpu/vector_math.h"
#include "core/device/sequence.h"

namespace millrace::cpu {

namespace {

using Lanes = std::array<float, kLanes>;
using Sums = std::array<double, kLanes>;

// So many positions are summed in single precision before they join the sum in double.
constexpr int64_t kSummedTogether = 256;

// Positions of one run in one sample.
struct Stretch {
  int64_t lanes;
  int64_t step;
  int64_t positions;
};

// Adds value(position offset, lane) of all positions to the sums.
template <typename Count, typename Value>
inline void add_up(const Stretch& s, Count lanes, Sums& sums, Value value) {
  for (int64_t begin = 0; begin < s.positions; begin += kSummedTogether) {
    Lanes part{};
    const int64_t end = std::min(begin + kSummedTogether, s.positions);
    for (int64_t position = begin; position < end; ++position)
      for (int64_t l = 0; l < lanes; ++l) part[static_cast<size_t>(l)] += value(position * s.step + l, static_cast<size_t>(l));
    for (int64_t l = 0; l < lanes; ++l) sums[static_cast<size_t>(l)] += static_cast<double>(part[static_cast<size_t>(l)]);
  }
}

inline void add_values(const Stretch& s, const float* x, Sums& sums) {
  with_lanes(s.lanes, [&](auto lanes) { add_up(s, lanes, sums, [=](int64_t at, size_t) { return x[at]; }); });
}

inline void add_squared_distances(const Stretch& s, const float* x, const Lanes& mean, Sums& sums) {
  with_lanes(s.lanes,
             [&](auto lanes) { add_up(s, lanes, sums, [&](int64_t at, size_t l) { return (x[at] - mean[l]) * (x[at] - mean[l]); }); });
}

inline void add_errors(const Stretch& s, const float* x, const float* error, const Lanes& mean, Sums& errors, Sums& products) {
  with_lanes(s.lanes, [&](auto lanes) {
    add_up(s, lanes, errors, [=](int64_t at, size_t) { return error[at]; });
    add_up(s, lanes, products, [&](int64_t at, size_t l) { return error[at] * (x[at] - mean[l]); });
  });
}

// y = (x - mean) * factor + shift
inline void normalise(const Stretch& s, const float* __restrict x, const Lanes& mean, const Lanes& factor, const Lanes& shift,
                      float* __restrict y) {
  with_lanes(s.lanes, [&](auto lanes) {
    for (int64_t position = 0; position < s.positions; ++position)
      for (int64_t l = 0; l < lanes; ++l) {
        const auto lane = static_cast<size_t>(l);
        y[position * s.step + l] = (x[position * s.step + l] - mean[lane]) * factor[lane] + shift[lane];
      }
  });
}

// dx (+)= (error - base - (x - mean) * slope) * factor
inline void spread_error(const Stretch& s, const float* __restrict x, const float* __restrict error, const Lanes& mean, const Lanes& base,
                         const Lanes& slope, const Lanes& factor, bool add, float* __restrict dx) {
  with_lanes(s.lanes, [&](auto lanes) {
    for (int64_t position = 0; position < s.positions; ++position)
      for (int64_t l = 0; l < lanes; ++l) {
        const auto lane = static_cast<size_t>(l);
        const int64_t at = position * s.step + l;
        const float value = (error[at] - base[lane] - (x[at] - mean[lane]) * slope[lane]) * factor[lane];
        dx[at] = add ? dx[at] + value : value;
      }
  });
}

class BatchNormalisation final : public CpuKernel {
 public:
  BatchNormalisation(const SharedEngine& engine, const KernelSpec& spec, const BatchNorm& operation)
      : CpuKernel(engine, spec),
        epsilon_(operation.epsilon),
        momentum_(static_cast<float>(operation.momentum)),
        layout_(layout_of(spec.output)),
        runs_(runs_of(layout_, layout_)),
        valid_(static_cast<size_t>(spec.micro_batch)) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return per_channel_pair(); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return per_channel_pair(); }
  std::unique_ptr<Tensor> make_keep() override { return make_parameter({kKeptRows, channels(), 1}); }

 protected:
  bool fuses_activation() const override { return whole_blocks(); }

  void run_forward(const ForwardArguments& arguments) override {
    const bool measured = own_statistics(*arguments.batch);
    measure_samples(*arguments.batch);
    if (measured && count_ == 1)
      fail(ErrorCode::kUsage,
           "layer \"{}\": batch norm over one value per channel has no variance; train with a micro-batch of two or more samples",
           spec().layer);
    const float* const input = own(arguments.inputs[0]).data();
    const float* const scale = own(arguments.parameters[0]).data();
    const float* const shift = own(arguments.parameters[1]).data();
    const float* const running_mean = own(arguments.state[0]).data();
    const float* const running_variance = own(arguments.state[1]).data();
    float* const keep = own(arguments.keep).data();
    CpuTensor& output = own(arguments.output);
    float* const y = output.data();
    parallel_runs([&](const Run& run) {
      float* const mean = keep + run.channel;
      float* const variance = keep + channels() + run.channel;
      if (measured) {
        measure(run, input, mean, variance);
      } else {
        std::copy_n(running_mean + run.channel, run.lanes, mean);
        std::copy_n(running_variance + run.channel, run.lanes, variance);
      }
      const Lanes means = load(mean, run);
      const Lanes factor = factors(run, scale, variance);
      const Lanes shifts = load(shift + run.channel, run);
      for (int64_t sample = 0; sample < samples(); ++sample) {
        const int64_t at = layout_.offset(sample, run.channel);
        vectorised<normalise>(stretch(run, sample), input + at, means, factor, shifts, y + at);
        clear_behind(run, sample, y + at);
        // What was just written is still in the cache.
        if (whole_blocks() && spec().activation) activate(*spec().activation, y + at, y + at, layout_.block * layout_.plane);
      }
    });
    if (whole_blocks() && spec().activation) clear_padding(threads(), layout_, y);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    measure_samples(*arguments.batch);
    const bool measured = own_statistics(*arguments.batch);
    const float* const input = own(arguments.inputs[0]).data();
    const float* const error = own(arguments.output_error).data();
    const float* const scale = own(arguments.parameters[0]).data();
    float* const keep = own(arguments.keep).data();
    CpuTensor* const input_error = arguments.input_errors[0] == nullptr ? nullptr : &own(arguments.input_errors[0]);
    const bool adds = input_error != nullptr && arguments.adds[0] != 0;
    float* const dx = input_error == nullptr ? nullptr : input_error->data();
    parallel_runs([&](const Run& run) {
      const Lanes mean = load(keep + run.channel, run);
      const float* const variance = keep + channels() + run.channel;
      Lanes base{}, slope{};
      if (measured) {
        Sums errors{}, products{};
        for (int64_t sample = 0; sample < samples(); ++sample) {
          const int64_t at = layout_.offset(sample, run.channel);
          vectorised<add_errors>(stretch(run, sample), input + at, error + at, mean, errors, products);
        }
        for (int64_t l = 0; l < run.lanes; ++l) {
          const auto lane = static_cast<size_t>(l);
          const double inverse = inverse_deviation(variance[l]);
          keep[2 * channels() + run.channel + l] = static_cast<float>(errors[lane]);
          keep[3 * channels() + run.channel + l] = static_cast<float>(products[lane] * inverse);
          base[lane] = static_cast<float>(errors[lane] / values());
          slope[lane] = static_cast<float>(products[lane] * inverse * inverse / values());
        }
      }
      if (dx == nullptr) return;
      const Lanes factor = factors(run, scale, variance);
      for (int64_t sample = 0; sample < samples(); ++sample) {
        const int64_t at = layout_.offset(sample, run.channel);
        vectorised<spread_error>(stretch(run, sample), input + at, error + at, mean, base, slope, factor, adds, dx + at);
        if (!adds) clear_behind(run, sample, dx + at);
      }
    });
  }

  void run_gradient(const GradientArguments& arguments) override {
    if (!own_statistics(*arguments.batch)) return;  // frozen: nothing to learn, nothing to commit
    const float* const keep = own(arguments.keep).data();
    for (const size_t gradient : {size_t{0}, size_t{1}}) {
      float* const values = own(arguments.gradients[gradient]).data();
      const float* const sums = keep + (gradient == 0 ? 3 : 2) * channels();
      if (arguments.adds)
        add_to(values, sums, channels());
      else
        std::copy_n(sums, channels(), values);
    }
    measure_samples(*arguments.batch);
    if (count_ < 2) return;  // nothing but empty samples
    float* const running_mean = own(arguments.state[0]).data();
    float* const running_variance = own(arguments.state[1]).data();
    const float unbiased = static_cast<float>(count_) / static_cast<float>(count_ - 1);
    for (int64_t c = 0; c < channels(); ++c) {
      running_mean[c] = (1.0f - momentum_) * running_mean[c] + momentum_ * keep[c];
      running_variance[c] = (1.0f - momentum_) * running_variance[c] + momentum_ * unbiased * keep[channels() + c];
    }
  }

 private:
  static constexpr int64_t kKeptRows = 4;

  int64_t channels() const { return spec().output.channels; }
  bool own_statistics(const MicroBatch& batch) const { return batch.training && spec().trained; }
  bool whole_blocks() const { return layout_.block == kLanes || layout_.block == engine().vector_length; }
  Stretch stretch(const Run& run, int64_t sample) const { return {run.lanes, layout_.block, valid_[static_cast<size_t>(sample)]}; }
  double values() const { return static_cast<double>(std::max<int64_t>(1, count_)); }

  void measure_samples(const MicroBatch& batch) {
    count_ = 0;
    for (int64_t sample = 0; sample < samples(); ++sample) {
      const int64_t positions = valid_steps(spec(), batch, sample) * spec().output.width;
      valid_[static_cast<size_t>(sample)] = positions;
      count_ += positions;
    }
  }
  // `at`: the first position of the run in the sample.
  void clear_behind(const Run& run, int64_t sample, float* at) const {
    for (int64_t position = valid_[static_cast<size_t>(sample)]; position < layout_.plane; ++position)
      std::fill_n(at + position * layout_.block, run.lanes, 0.0f);
  }
  double inverse_deviation(float variance) const { return 1.0 / std::sqrt(static_cast<double>(variance) + epsilon_); }

  std::vector<std::unique_ptr<Tensor>> per_channel_pair() const {
    std::vector<std::unique_ptr<Tensor>> pair;
    pair.push_back(make_parameter({channels(), 1, 1}));
    pair.push_back(make_parameter({channels(), 1, 1}));
    return pair;
  }
  static Lanes load(const float* values, const Run& run) {
    Lanes lanes{};
    std::copy_n(values, run.lanes, lanes.begin());
    return lanes;
  }
  Lanes factors(const Run& run, const float* scale, const float* variance) const {
    Lanes lanes{};
    for (int64_t l = 0; l < run.lanes; ++l)
      lanes[static_cast<size_t>(l)] = static_cast<float>(static_cast<double>(scale[run.channel + l]) * inverse_deviation(variance[l]));
    return lanes;
  }

  template <typename Visit>
  void parallel_runs(Visit visit) const {
    parallel_for(threads(), static_cast<int64_t>(runs_.size()), [&](int64_t i) { visit(runs_[static_cast<size_t>(i)]); });
  }

  void measure(const Run& run, const float* input, float* mean, float* variance) const {
    Sums sums{};
    for (int64_t sample = 0; sample < samples(); ++sample)
      vectorised<add_values>(stretch(run, sample), input + layout_.offset(sample, run.channel), sums);
    for (int64_t l = 0; l < run.lanes; ++l) mean[l] = static_cast<float>(sums[static_cast<size_t>(l)] / values());
    const Lanes means = load(mean, run);
    sums = {};
    for (int64_t sample = 0; sample < samples(); ++sample)
      vectorised<add_squared_distances>(stretch(run, sample), input + layout_.offset(sample, run.channel), means, sums);
    for (int64_t l = 0; l < run.lanes; ++l) variance[l] = static_cast<float>(sums[static_cast<size_t>(l)] / values());
  }

  double epsilon_;
  float momentum_;
  Layout layout_;
  std::vector<Run> runs_;
  // Of the call under way: positions that count, by sample and together.
  std::vector<int64_t> valid_;
  int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const BatchNorm& operation) {
  return std::make_unique<BatchNormalisation>(engine, spec, operation);
}

}  // namespace millrace::cpu
