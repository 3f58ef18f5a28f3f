// Convolutions over maps of at most sixteen positions, as one matrix product per kernel tap: where a 3x3 kernel meets a 4x4 map, 44 of its
// 144 products are with padding; here they are not computed.
//
// Activations are brought into rows of features, [position][sample][channel]: the positions that a tap reaches are then runs of rows, which
// are copied together where they are not. The weight lies as [tap][input][output] for all three passes, so no copy of it is kept.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/matrix_product.h"
#include "core/cpu/operations.h"
#include "core/cpu/taps_packing.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

constexpr int64_t kMostSmallPositions = 16;

// What a tap reaches: `rows` rows of the map, `run` positions in each, from these positions on.
struct TapReach {
  int64_t rows = 0, run = 0;
  int64_t input = 0, output = 0;
};

// One dimension: outputs [begin, end), of which the first reads `input`.
struct TapExtent {
  int64_t begin = 0, end = 0, input = 0;
};
TapExtent tap_extent(int64_t in, int64_t out, int64_t shift) {
  const int64_t begin = std::max<int64_t>(0, -shift);
  return {begin, std::max(begin, std::min(out, in - shift)), begin + shift};
}

TapReach tap_reach(const Conv2d& conv, const Shape& in, const Shape& out, int64_t tap) {
  const TapExtent rows = tap_extent(in.height, out.height, tap / conv.kernel_w * conv.dilation_h - conv.pad_h);
  const TapExtent columns = tap_extent(in.width, out.width, tap % conv.kernel_w * conv.dilation_w - conv.pad_w);
  if (rows.begin == rows.end || columns.begin == columns.end) return {};
  return {rows.end - rows.begin, columns.end - columns.begin, rows.input * in.width + columns.input,
          rows.begin * out.width + columns.begin};
}

// A map of all samples, as [position][sample][channel].
struct RowsOfMap {
  int64_t samples = 0, plane = 0, width = 0, channels = 0, lanes = 0;

  int64_t floats() const { return samples * plane * channels; }
  int64_t begin(int64_t position) const { return position * samples * channels; }

  void read(const float* blocked, float* rows) const {
    for_each([=, this](int64_t in_blocked, int64_t in_rows, int64_t) {
      std::memcpy(rows + in_rows, blocked + in_blocked, to_size(lanes) * sizeof(float));
    });
  }
  void write(const float* rows, const float* bias, bool adds, float* blocked) const {
    for_each([=, this](int64_t in_blocked, int64_t in_rows, int64_t channel) {
      float* const to = blocked + in_blocked;
      const float* const from = rows + in_rows;
      for (int64_t i = 0; i < lanes; ++i) {
        const float value = bias == nullptr ? from[i] : from[i] + bias[channel + i];
        to[i] = adds ? to[i] + value : value;
      }
    });
  }

 private:
  template <typename Visit>
  void for_each(Visit visit) const {
    for (int64_t sample = 0; sample < samples; ++sample)
      for (int64_t channel = 0; channel < channels; channel += lanes)
        for (int64_t position = 0; position < plane; ++position)
          visit((sample * channels + channel) * plane + position * lanes, (position * samples + sample) * channels + channel, channel);
  }
};

class SmallMapConvolution final : public CpuKernel {
 public:
  SmallMapConvolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& conv)
      : CpuKernel(engine, spec),
        in_(rows_of(spec.inputs[0], engine->vector_length)),
        out_(rows_of(spec.output, engine->vector_length)),
        taps_(conv.kernel_h * conv.kernel_w) {
    for (int64_t tap = 0; tap < taps_; ++tap) reaches_.push_back(tap_reach(conv, spec.inputs[0], spec.output, tap));
    ScratchPlan plan;
    const auto place = [&](const RowsOfMap& rows) { return plan.add(to_size(rows.floats()) * sizeof(float)); };
    x_ = place(in_);
    y_ = place(out_);
    gathered_x_ = place(in_);
    gathered_y_ = place(out_);
    reserve(plan);
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(
        make_parameter({out_.channels, in_.channels, taps_}, std::make_shared<TapsPacking>(out_.channels, in_.channels, taps_)));
    if (spec().bias) parameters.push_back(make_parameter({out_.channels, 1, 1}));
    return parameters;
  }

  std::string implementation() const override { return "sgemm per tap, rows together"; }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    in_.read(own(arguments.inputs[0]).data(), scratch<float>(x_));
    multiply(own(arguments.parameters[0]).data(), false);
    const float* const bias = spec().bias ? own(arguments.parameters[1]).data() : nullptr;
    out_.write(scratch<float>(y_), bias, spec().adds_to_output, own(arguments.output).data());
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    out_.read(own(arguments.output_error).data(), scratch<float>(y_));
    multiply(own(arguments.parameters[0]).data(), true);
    in_.write(scratch<float>(x_), nullptr, arguments.adds[0] != 0, own(arguments.input_errors[0]).data());
  }

  void run_gradient(const GradientArguments& arguments) override {
    in_.read(own(arguments.inputs[0]).data(), scratch<float>(x_));
    out_.read(own(arguments.output_error).data(), scratch<float>(y_));
    float* const weight = own(arguments.gradients[0]).data();
    for (int64_t tap = 0; tap < taps_; ++tap) {
      const TapReach& reach = fast_item(reaches_, tap);
      float* const to = weight + tap * in_.channels * out_.channels;
      if (reach.rows == 0) {
        if (!arguments.adds) std::fill_n(to, in_.channels * out_.channels, 0.0f);
        continue;
      }
      const float* const x = together(in_, x_, reach, reach.input, gathered_x_);
      const float* const error = together(out_, y_, reach, reach.output, gathered_y_);
      multiply_matrices({.data = x, .stride = in_.channels, .transposed = true}, {.data = error, .stride = out_.channels}, in_.channels,
                        out_.channels, rows_in(reach), arguments.adds, to, out_.channels);
    }
    if (!spec().bias) return;
    float* const bias = own(arguments.gradients[1]).data();
    if (!arguments.adds) std::fill_n(bias, out_.channels, 0.0f);
    for (int64_t row = 0; row < out_.plane * samples(); ++row) add_to(bias, scratch<float>(y_) + row * out_.channels, out_.channels);
  }

 private:
  RowsOfMap rows_of(const Shape& shape, int64_t lanes) const { return {samples(), shape.plane(), shape.width, shape.channels, lanes}; }
  int64_t rows_in(const TapReach& reach) const { return reach.rows * reach.run * samples(); }

  // y += x W, tap after tap; back: x += y W'.
  void multiply(const float* weight, bool back) {
    const RowsOfMap& from = back ? out_ : in_;
    const RowsOfMap& to = back ? in_ : out_;
    float* const sums = scratch<float>(back ? x_ : y_);
    std::fill_n(sums, to.floats(), 0.0f);
    for (int64_t tap = 0; tap < taps_; ++tap) {
      const TapReach& reach = fast_item(reaches_, tap);
      if (reach.rows == 0) continue;
      const int64_t place = back ? reach.input : reach.output;
      const float* const rows = together(from, back ? y_ : x_, reach, back ? reach.output : reach.input, back ? gathered_y_ : gathered_x_);
      const Matrix w{.data = weight + tap * in_.channels * out_.channels, .stride = out_.channels, .transposed = back};
      const bool apart = !lies_together(to, reach);
      float* const into = apart ? scratch<float>(back ? gathered_x_ : gathered_y_) : sums + to.begin(place);
      multiply_matrices({.data = rows, .stride = from.channels}, w, rows_in(reach), to.channels, from.channels, !apart, into, to.channels);
      if (!apart) continue;
      const int64_t run = reach.run * samples() * to.channels;
      for (int64_t row = 0; row < reach.rows; ++row) add_to(sums + to.begin(place + row * to.width), into + row * run, run);
    }
  }

  static bool lies_together(const RowsOfMap& map, const TapReach& reach) { return reach.run == map.width || reach.rows == 1; }
  // The rows that a tap reaches, one behind the other: copied where they are not.
  const float* together(const RowsOfMap& map, size_t place, const TapReach& reach, int64_t position, size_t gathered) const {
    const float* const from = scratch<float>(place) + map.begin(position);
    if (lies_together(map, reach)) return from;
    float* const to = scratch<float>(gathered);
    const int64_t run = reach.run * samples() * map.channels;
    for (int64_t row = 0; row < reach.rows; ++row)
      std::memcpy(to + row * run, from + row * map.width * samples() * map.channels, to_size(run) * sizeof(float));
    return to;
  }

  RowsOfMap in_, out_;
  int64_t taps_;
  std::vector<TapReach> reaches_;  // by tap
  size_t x_ = 0, y_ = 0, gathered_x_ = 0, gathered_y_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_small_map_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation) {
  const auto serves = [&](const Shape& shape) {
    const int64_t lanes = channel_block(shape, engine->vector_length);
    return shape.plane() <= kMostSmallPositions && lanes == engine->vector_length && shape.channels % lanes == 0 && shape.channels > lanes;
  };
  if (operation.groups > 1 || operation.stride_h != 1 || operation.stride_w != 1 || !serves(spec.inputs[0]) || !serves(spec.output))
    return nullptr;
  return std::make_unique<SmallMapConvolution>(engine, spec, operation);
}

}  // namespace millrace::cpu
