// Batch normalisation, a run of channels at a time: all of a channel's sums are made by one thread, in one order. Rows
// behind the end of a short sample (MicroBatch::lengths) count in no sum; they come out as zero.
//
// Parameters {scale, shift}, state {running mean, running variance}, keep {mean, biased variance, and the two sums over
// the errors that E makes and G hands out}. Statistics::kRunning (core/reference/batch_norm.cpp says what that is) has in the state also
// {mean error, mean product of error and x-hat} and what is gathered for the next version; in keep, the micro-batch's sums around its mean
// and a copy of the two means.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/runs.h"
#include "core/cpu/vector_math.h"
#include "core/device/running_statistics.h"
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
      for (int64_t l = 0; l < lanes; ++l) fast_item(part, l) += value(position * s.step + l, to_size(l));
    for (int64_t l = 0; l < lanes; ++l) fast_item(sums, l) += static_cast<double>(fast_item(part, l));
  }
}

inline void add_values(const Stretch& s, const float* x, Sums& sums) {
  with_lanes(s.lanes, [&](auto lanes) { add_up(s, lanes, sums, [=](int64_t at, size_t) { return x[at]; }); });
}

inline void add_squared_distances(const Stretch& s, const float* x, const Lanes& mean, Sums& sums) {
  with_lanes(s.lanes,
             [&](auto lanes) { add_up(s, lanes, sums, [&](int64_t at, size_t l) { return (x[at] - mean[l]) * (x[at] - mean[l]); }); });
}

inline void add_distances(const Stretch& s, const float* x, const Lanes& mean, Sums& sums, Sums& squares) {
  with_lanes(s.lanes, [&](auto lanes) {
    add_up(s, lanes, sums, [&](int64_t at, size_t l) { return x[at] - mean[l]; });
    add_up(s, lanes, squares, [&](int64_t at, size_t l) { return (x[at] - mean[l]) * (x[at] - mean[l]); });
  });
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
        const auto lane = to_size(l);
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
        const auto lane = to_size(l);
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
        has_versions_(operation.statistics == Statistics::kRunning),
        running_(has_versions_ && spec.trained),
        layout_(layout_of(spec.output)),
        runs_(runs_of(layout_, layout_)),
        valid_(to_size(spec.micro_batch)) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return per_channel_pair(); }
  std::vector<std::unique_ptr<Tensor>> make_state() override {
    auto state = per_channel_pair();
    if (has_versions_)
      for (auto& tensor : per_channel_pair()) state.push_back(std::move(tensor));
    if (running_) state.push_back(make_parameter({kGatheredSums, channels(), 1}));
    return state;
  }
  std::unique_ptr<Tensor> make_keep() override { return make_parameter({running_ ? kKeptRows + 4 : kKeptRows, channels(), 1}); }

  void commit_statistics(std::span<Tensor* const> state) override {
    if (!running_) return;
    std::array<float*, 5> at{};
    for (size_t i = 0; i < at.size(); ++i) at[i] = own(state[i]).data();
    const auto& [mean, variance, error, projection, gathered] = at;
    for (int64_t c = 0; c < channels(); ++c) {
      const auto sum = [&](int64_t row) { return static_cast<double>(gathered[row * channels() + c]); };
      const RunningStatistics before{static_cast<double>(mean[c]), static_cast<double>(variance[c]), static_cast<double>(error[c]),
                                     static_cast<double>(projection[c])};
      const RunningStatistics after = updated(before, {sum(0), sum(1), sum(2), sum(3), sum(4)}, static_cast<double>(momentum_), epsilon_);
      mean[c] = static_cast<float>(after.mean);
      variance[c] = static_cast<float>(after.variance);
      error[c] = static_cast<float>(after.error);
      projection[c] = static_cast<float>(after.projection);
    }
    std::fill_n(gathered, kGatheredSums * channels(), 0.0f);
  }

 protected:
  bool fuses_activation() const override { return whole_blocks(); }

  void run_forward(const ForwardArguments& arguments) override {
    const bool measured = own_statistics(*arguments.batch) && !running_, gathers = own_statistics(*arguments.batch) && running_;
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
      if (gathers) {
        add_up_distances(run, input, means, keep);
        for (const size_t i : {size_t{0}, size_t{1}})
          std::copy_n(own(arguments.state[2 + i]).data() + run.channel, run.lanes,
                      keep + (kKeptRows + 2 + static_cast<int64_t>(i)) * channels() + run.channel);
      }
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
    const bool learns = own_statistics(*arguments.batch);
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
      if (learns) {
        Sums errors{}, products{};
        for (int64_t sample = 0; sample < samples(); ++sample) {
          const int64_t at = layout_.offset(sample, run.channel);
          vectorised<add_errors>(stretch(run, sample), input + at, error + at, mean, errors, products);
        }
        for (int64_t l = 0; l < run.lanes; ++l) {
          const auto lane = to_size(l);
          const double inverse = inverse_deviation(variance[l]);
          keep[2 * channels() + run.channel + l] = static_cast<float>(errors[lane]);
          keep[3 * channels() + run.channel + l] = static_cast<float>(products[lane] * inverse);
          if (running_) {  // of the mini-batch before
            base[lane] = keep[(kKeptRows + 2) * channels() + run.channel + l];
            slope[lane] = static_cast<float>(static_cast<double>(keep[(kKeptRows + 3) * channels() + run.channel + l]) * inverse);
            continue;
          }
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
    if (running_) return gather(keep, own(arguments.state[0]).data(), own(arguments.state[4]).data());
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
  Stretch stretch(const Run& run, int64_t sample) const { return {run.lanes, layout_.block, fast_item(valid_, sample)}; }
  double values() const { return static_cast<double>(std::max<int64_t>(1, count_)); }

  void measure_samples(const MicroBatch& batch) {
    count_ = 0;
    for (int64_t sample = 0; sample < samples(); ++sample) {
      const int64_t positions = valid_steps(spec(), batch, sample) * spec().output.width;
      fast_item(valid_, sample) = positions;
      count_ += positions;
    }
  }
  // `at`: the first position of the run in the sample.
  void clear_behind(const Run& run, int64_t sample, float* at) const {
    for (int64_t position = fast_item(valid_, sample); position < layout_.plane; ++position)
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
      fast_item(lanes, l) = static_cast<float>(static_cast<double>(scale[run.channel + l]) * inverse_deviation(variance[l]));
    return lanes;
  }

  template <typename Visit>
  void parallel_runs(Visit visit) const {
    parallel_for(threads(), static_cast<int64_t>(runs_.size()), [&](int64_t i) { visit(fast_item(runs_, i)); });
  }

  void add_up_distances(const Run& run, const float* input, const Lanes& means, float* keep) const {
    Sums sums{}, squares{};
    for (int64_t sample = 0; sample < samples(); ++sample)
      vectorised<add_distances>(stretch(run, sample), input + layout_.offset(sample, run.channel), means, sums, squares);
    for (int64_t l = 0; l < run.lanes; ++l) {
      keep[kKeptRows * channels() + run.channel + l] = static_cast<float>(fast_item(sums, l));
      keep[(kKeptRows + 1) * channels() + run.channel + l] = static_cast<float>(fast_item(squares, l));
    }
  }

  // The micro-batch may have run ahead of an update: its sums move from the mean of its F to that of now.
  void gather(const float* keep, const float* running_mean, float* gathered) const {
    const auto count = static_cast<double>(count_);
    for (int64_t c = 0; c < channels(); ++c) {
      const double moved = static_cast<double>(keep[c]) - static_cast<double>(running_mean[c]);
      const auto sum = static_cast<double>(keep[kKeptRows * channels() + c]),
                 squares = static_cast<double>(keep[(kKeptRows + 1) * channels() + c]);
      gathered[c] += static_cast<float>(sum + count * moved);
      gathered[channels() + c] += static_cast<float>(squares + 2 * moved * sum + count * moved * moved);
      gathered[2 * channels() + c] += static_cast<float>(count_);
      gathered[3 * channels() + c] += keep[2 * channels() + c];
      gathered[4 * channels() + c] += keep[3 * channels() + c];
    }
  }

  void measure(const Run& run, const float* input, float* mean, float* variance) const {
    Sums sums{};
    for (int64_t sample = 0; sample < samples(); ++sample)
      vectorised<add_values>(stretch(run, sample), input + layout_.offset(sample, run.channel), sums);
    for (int64_t l = 0; l < run.lanes; ++l) mean[l] = static_cast<float>(fast_item(sums, l) / values());
    const Lanes means = load(mean, run);
    sums = {};
    for (int64_t sample = 0; sample < samples(); ++sample)
      vectorised<add_squared_distances>(stretch(run, sample), input + layout_.offset(sample, run.channel), means, sums);
    for (int64_t l = 0; l < run.lanes; ++l) variance[l] = static_cast<float>(fast_item(sums, l) / values());
  }

  double epsilon_;
  float momentum_;
  bool has_versions_;  // of its statistics
  bool running_;       // and they are trained with
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
