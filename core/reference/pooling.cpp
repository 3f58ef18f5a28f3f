// Max and average pooling. The position of a maximum is found again in E instead of being kept: the first one in
// row-major order, so that equal values have one answer.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/device/sequence.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

// The part of a window that lies on the input; never empty, shape inference sees to that.
struct Window {
  int64_t row_begin, row_end, column_begin, column_end;
  int64_t counted;  // what an average divides by: the positions on the input, or those on input and padding
};

template <typename T>
class Pooling final : public ReferenceKernel<T> {
 public:
  Pooling(const KernelSpec& spec, const Pool2d& operation) : ReferenceKernel<T>(spec), operation_(operation) {}

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& input = own<T>(arguments.inputs[0]);
    if (std::holds_alternative<GlobalPool>(this->spec().operation)) refuse_short_samples(this->spec(), *arguments.batch);
    for_each_window([&](int64_t sample, int64_t channel, int64_t row, int64_t column, const Window& window) {
      T& y = output.at(sample, channel, row, column);
      if (operation_.kind == PoolKind::kMax) {
        const auto [r, c] = first_maximum(input, sample, channel, window);
        y += input.at(sample, channel, r, c);
        return;
      }
      T sum = 0;
      for (int64_t r = window.row_begin; r < window.row_end; ++r)
        for (int64_t c = window.column_begin; c < window.column_end; ++c) sum += input.at(sample, channel, r, c);
      y += sum / static_cast<T>(window.counted);
    });
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& input = own<T>(arguments.inputs[0]);
    const auto& output_error = own<T>(arguments.output_error);
    for_each_window([&](int64_t sample, int64_t channel, int64_t row, int64_t column, const Window& window) {
      const T error = output_error.at(sample, channel, row, column);
      if (operation_.kind == PoolKind::kMax) {
        const auto [r, c] = first_maximum(input, sample, channel, window);
        input_error.at(sample, channel, r, c) += error;
        return;
      }
      for (int64_t r = window.row_begin; r < window.row_end; ++r)
        for (int64_t c = window.column_begin; c < window.column_end; ++c)
          input_error.at(sample, channel, r, c) += error / static_cast<T>(window.counted);
    });
  }

 private:
  template <typename Visit>
  void for_each_window(Visit visit) const {
    const Shape& in = this->spec().inputs[0];
    const Shape& out = this->spec().output;
    for (int64_t sample = 0; sample < this->samples(); ++sample)
      for (int64_t channel = 0; channel < out.channels; ++channel)
        for (int64_t row = 0; row < out.height; ++row)
          for (int64_t column = 0; column < out.width; ++column) {
            const int64_t top = row * operation_.stride_h - operation_.pad_h;
            const int64_t left = column * operation_.stride_w - operation_.pad_w;
            Window window{std::max<int64_t>(top, 0), std::min(top + operation_.kernel_h, in.height), std::max<int64_t>(left, 0),
                          std::min(left + operation_.kernel_w, in.width), 0};
            window.counted = (window.row_end - window.row_begin) * (window.column_end - window.column_begin);
            if (operation_.count_include_pad)  // the last window of a ceil_mode may reach past the padding
              window.counted = (std::min(top + operation_.kernel_h, in.height + operation_.pad_h) - top) *
                               (std::min(left + operation_.kernel_w, in.width + operation_.pad_w) - left);
            visit(sample, channel, row, column, window);
          }
  }

  // A NaN counts as larger than anything, so that it is not hidden.
  static std::pair<int64_t, int64_t> first_maximum(const ReferenceTensor<T>& input, int64_t sample, int64_t channel, const Window& window) {
    std::pair<int64_t, int64_t> best{window.row_begin, window.column_begin};
    for (int64_t r = window.row_begin; r < window.row_end; ++r)
      for (int64_t c = window.column_begin; c < window.column_end; ++c) {
        const T largest = input.at(sample, channel, best.first, best.second);
        const T value = input.at(sample, channel, r, c);
        if (value > largest || (std::isnan(value) && !std::isnan(largest))) best = {r, c};
      }
    return best;
  }

  Pool2d operation_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Pool2d& operation) {
  return std::make_unique<Pooling<T>>(spec, operation);
}

// One window as large as the input.
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const GlobalPool& operation) {
  const Shape& in = spec.inputs[0];
  return std::make_unique<Pooling<T>>(spec, Pool2d{.kind = operation.kind, .kernel_h = in.height, .kernel_w = in.width});
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Pool2d&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Pool2d&);
template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const GlobalPool&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const GlobalPool&);

}  // namespace millrace::reference
