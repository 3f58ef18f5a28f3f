// Convolutions over maps of at most four positions, as matrix products: one per kernel tap and group of positions. Where
// a 3x3 kernel meets a 2x2 map, 20 of its 36 products are with padding; here they are not computed.
//
// The weight lies as [tap][input][output] for all three passes, so nothing is ever packed. Positions of such maps are
// rows of features (tensor.h), so nothing is gathered either.
#include <algorithm>
#include <utility>

#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/matrix_product.h"
#include "core/cpu/operations.h"
#include "core/cpu/taps_packing.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

// Products of one tap: row i of all `rows_per_sample * samples` takes input position `input` + i * input_step (counted
// through all samples) to output position `output` + i * output_step.
struct Group {
  int64_t tap = 0;
  int64_t input = 0, input_step = 0;
  int64_t output = 0, output_step = 0;
  int64_t rows_per_sample = 1;
};

struct Pair {
  int64_t input, output;
};

std::vector<Pair> pairs_of(const Conv2d& conv, const Shape& in, const Shape& out, int64_t tap) {
  std::vector<Pair> pairs;
  for (int64_t row = 0; row < out.height; ++row)
    for (int64_t column = 0; column < out.width; ++column) {
      const int64_t in_row = row * conv.stride_h - conv.pad_h + tap / conv.kernel_w * conv.dilation_h;
      const int64_t in_column = column * conv.stride_w - conv.pad_w + tap % conv.kernel_w * conv.dilation_w;
      if (in_row < 0 || in_row >= in.height || in_column < 0 || in_column >= in.width) continue;
      pairs.push_back({in_row * in.width + in_column, row * out.width + column});
    }
  return pairs;
}

// All pairs in one product where their rows are evenly spaced through the samples, else one product each.
void append_groups(std::vector<Group>& groups, int64_t tap, const std::vector<Pair>& pairs, int64_t in_plane, int64_t out_plane) {
  const auto count = static_cast<int64_t>(pairs.size());
  if (count == 0) return;
  const int64_t input_step = in_plane / count, output_step = out_plane / count;
  bool even = input_step * count == in_plane && output_step * count == out_plane;
  for (int64_t i = 0; i < count; ++i) {
    const Pair& pair = fast_item(pairs, i);
    even = even && pair.input == pairs[0].input + i * input_step && pair.output == pairs[0].output + i * output_step;
  }
  if (even) {
    groups.push_back({tap, pairs[0].input, input_step, pairs[0].output, output_step, count});
    return;
  }
  for (const Pair& pair : pairs) groups.push_back({tap, pair.input, in_plane, pair.output, out_plane, 1});
}

class TapsConvolution final : public CpuKernel {
 public:
  TapsConvolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& conv)
      : CpuKernel(engine, spec),
        inputs_(spec.inputs[0].channels),
        outputs_(spec.output.channels),
        in_plane_(spec.inputs[0].plane()),
        out_plane_(spec.output.plane()),
        taps_(conv.kernel_h * conv.kernel_w),
        rows_(spec.micro_batch * out_plane_) {
    for (int64_t tap = 0; tap < taps_; ++tap) {
      const std::vector<Pair> pairs = pairs_of(conv, spec.inputs[0], spec.output, tap);
      append_groups(groups_, tap, pairs, in_plane_, out_plane_);
      if (pairs.empty()) unused_taps_.push_back(tap);
    }
    // One that reaches every position can start a sum instead of adding to zeros.
    std::ranges::stable_sort(groups_, std::greater<>(), [](const Group& group) { return group.rows_per_sample; });
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(make_parameter({outputs_, inputs_, taps_}, std::make_shared<TapsPacking>(outputs_, inputs_, taps_)));
    if (spec().bias) parameters.push_back(make_parameter({outputs_, 1, 1}));
    return parameters;
  }

  std::string implementation() const override { return "sgemm per tap"; }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const float* const x = own(arguments.inputs[0]).data();
    const float* const weight = own(arguments.parameters[0]).data();
    float* const y = own(arguments.output).data();
    bool adds = begin_sum(y, rows_ * outputs_, out_plane_, spec().adds_to_output);
    for (const Group& group : groups_) {
      multiply_matrices(input_rows(x, group), {.data = weight + group.tap * inputs_ * outputs_, .stride = outputs_}, rows_of(group),
                        outputs_, inputs_, adds, y + group.output * outputs_, group.output_step * outputs_);
      adds = true;
    }
    if (spec().bias) add_row(y, own(arguments.parameters[1]).data(), rows_, outputs_);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const float* const error = own(arguments.output_error).data();
    const float* const weight = own(arguments.parameters[0]).data();
    float* const input_error = own(arguments.input_errors[0]).data();
    bool adds = begin_sum(input_error, samples() * in_plane_ * inputs_, in_plane_, arguments.adds[0] != 0);
    for (const Group& group : groups_) {
      multiply_matrices(error_rows(error, group), {.data = weight + group.tap * inputs_ * outputs_, .stride = outputs_, .transposed = true},
                        rows_of(group), inputs_, outputs_, adds, input_error + group.input * inputs_, group.input_step * inputs_);
      adds = true;
    }
  }

  void run_gradient(const GradientArguments& arguments) override {
    const float* const x = own(arguments.inputs[0]).data();
    const float* const error = own(arguments.output_error).data();
    float* const weight = own(arguments.gradients[0]).data();
    int64_t previous_tap = -1;
    for (const Group& group : groups_) {
      Matrix columns = input_rows(x, group);
      columns.transposed = true;
      multiply_matrices(columns, error_rows(error, group), inputs_, outputs_, rows_of(group), arguments.adds || group.tap == previous_tap,
                        weight + group.tap * inputs_ * outputs_, outputs_);
      previous_tap = group.tap;
    }
    if (!arguments.adds)
      for (const int64_t tap : unused_taps_) std::fill_n(weight + tap * inputs_ * outputs_, inputs_ * outputs_, 0.0f);
    if (!spec().bias) return;
    float* const bias = own(arguments.gradients[1]).data();
    if (!arguments.adds) std::fill_n(bias, outputs_, 0.0f);
    for (int64_t row = 0; row < rows_; ++row) add_to(bias, error + row * outputs_, outputs_);
  }

 private:
  int64_t rows_of(const Group& group) const { return group.rows_per_sample * samples(); }
  Matrix input_rows(const float* x, const Group& group) const {
    return {.data = x + group.input * inputs_, .stride = group.input_step * inputs_};
  }
  Matrix error_rows(const float* error, const Group& group) const {
    return {.data = error + group.output * outputs_, .stride = group.output_step * outputs_};
  }

  // Whether the first product has to add: to what was there, or to zeros because it does not reach everywhere.
  bool begin_sum(float* values, int64_t count, int64_t plane, bool adds) const {
    if (adds) return true;
    if (!groups_.empty() && groups_.front().rows_per_sample == plane) return false;
    std::fill_n(values, count, 0.0f);
    return true;
  }

  int64_t inputs_, outputs_;
  int64_t in_plane_, out_plane_;
  int64_t taps_;
  int64_t rows_;  // output positions of all samples
  std::vector<Group> groups_;
  std::vector<int64_t> unused_taps_;
};

}  // namespace

std::unique_ptr<Kernel> make_taps_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation) {
  const auto rows_of_features = [&](const Shape& shape) { return channel_block(shape, engine->vector_length) == shape.channels; };
  constexpr int64_t kMostPositions = 4;
  const bool small = spec.inputs[0].plane() <= kMostPositions && spec.output.plane() <= kMostPositions;
  if (operation.groups > 1 || !small || !rows_of_features(spec.inputs[0]) || !rows_of_features(spec.output)) return nullptr;
  return std::make_unique<TapsConvolution>(engine, spec, operation);
}

}  // namespace millrace::cpu
