#include "fpga/conv_ce/arithmetic/convolution_sums.h"

#include <algorithm>

#include "core/base/check.h"
#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

namespace {

// The columns of the output whose window, at this tap, lies on the input.
struct Columns {
  int64_t begin, end;
};

// One kernel element between one input and one output channel: along a row of outputs x, the input columns are
// first_column + x * stride.
struct Tap {
  int64_t weight;        // index
  int64_t input_row;     // index of the row's first element
  int64_t output_row;    // index of the row's first element
  int64_t first_column;  // of the input, for output column 0; may be negative
  Columns columns;
};

template <typename Visit>
void for_each_tap(const ConvolutionShape& s, Visit visit) {
  const int64_t rows = s.out_height();
  const int64_t columns = s.out_width();
  const int64_t inputs_per_group = s.inputs / s.groups;
  const int64_t outputs_per_group = s.outputs / s.groups;
  for (int64_t output = 0; output < s.outputs; ++output)
    for (int64_t i = 0; i < inputs_per_group; ++i) {
      const int64_t input = output / outputs_per_group * inputs_per_group + i;
      for (int64_t kernel_row = 0; kernel_row < s.kernel_h; ++kernel_row)
        for (int64_t kernel_column = 0; kernel_column < s.kernel_w; ++kernel_column) {
          Tap tap{};
          tap.weight = ((output * inputs_per_group + i) * s.kernel_h + kernel_row) * s.kernel_w + kernel_column;
          tap.first_column = kernel_column * s.dilation_w - s.pad_w;
          const int64_t last = s.width - 1 - tap.first_column;
          tap.columns = {divided_up(-tap.first_column, s.stride_w), last < 0 ? 0 : std::min(columns, last / s.stride_w + 1)};
          if (tap.columns.begin >= tap.columns.end) continue;
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t input_row = row * s.stride_h - s.pad_h + kernel_row * s.dilation_h;
            if (input_row < 0 || input_row >= s.height) continue;
            tap.input_row = (input * s.height + input_row) * s.width;
            tap.output_row = (output * rows + row) * columns;
            visit(tap);
          }
        }
    }
}

bool is_plain_product(const ConvolutionShape& s) {
  return s.height == 1 && s.width == 1 && s.kernel_h == 1 && s.kernel_w == 1 && s.pad_h == 0 && s.pad_w == 0 && s.groups == 1;
}

template <typename Sum, typename Element>
Sum product(Element a, Element b) {
  return static_cast<Sum>(a) * static_cast<Sum>(b);
}

void check_sizes(const ConvolutionShape& shape, size_t input, size_t weight, size_t output) {
  MILLRACE_CHECK(shape.groups > 0 && shape.inputs % shape.groups == 0 && shape.outputs % shape.groups == 0, "{} groups of {} x {} channels",
                 shape.groups, shape.inputs, shape.outputs);
  MILLRACE_CHECK(input == shape.input_elements() && weight == shape.weight_elements() && output == shape.output_elements(),
                 "{} inputs of {}, {} weights of {}, {} outputs of {}", input, shape.input_elements(), weight, shape.weight_elements(),
                 output, shape.output_elements());
}

}  // namespace

template <typename Element, typename Sum>
void add_forward(const ConvolutionShape& shape, std::span<const Element> input, std::span<const Element> weight, std::span<Sum> sums) {
  check_sizes(shape, input.size(), weight.size(), sums.size());
  const Element* const x = input.data();
  const Element* const w = weight.data();
  Sum* const y = sums.data();
  if (is_plain_product(shape)) {
    for (int64_t output = 0; output < shape.outputs; ++output) {
      Sum sum = y[output];
      for (int64_t i = 0; i < shape.inputs; ++i) sum += product<Sum>(x[i], w[output * shape.inputs + i]);
      y[output] = sum;
    }
    return;
  }
  for_each_tap(shape, [&](const Tap& tap) {
    const Element factor = w[tap.weight];
    const int64_t first = tap.input_row + tap.first_column;
    for (int64_t c = tap.columns.begin; c < tap.columns.end; ++c)
      y[tap.output_row + c] += product<Sum>(x[first + c * shape.stride_w], factor);
  });
}

template <typename Element, typename Sum>
void add_error_back(const ConvolutionShape& shape, std::span<const Element> output_error, std::span<const Element> weight,
                    std::span<Sum> sums) {
  check_sizes(shape, sums.size(), weight.size(), output_error.size());
  const Element* const e = output_error.data();
  const Element* const w = weight.data();
  Sum* const x = sums.data();
  if (is_plain_product(shape)) {
    for (int64_t output = 0; output < shape.outputs; ++output)
      for (int64_t i = 0; i < shape.inputs; ++i) x[i] += product<Sum>(e[output], w[output * shape.inputs + i]);
    return;
  }
  for_each_tap(shape, [&](const Tap& tap) {
    const Element factor = w[tap.weight];
    const int64_t first = tap.input_row + tap.first_column;
    for (int64_t c = tap.columns.begin; c < tap.columns.end; ++c)
      x[first + c * shape.stride_w] += product<Sum>(e[tap.output_row + c], factor);
  });
}

template <typename Element, typename Sum>
void add_gradient(const ConvolutionShape& shape, std::span<const Element> input, std::span<const Element> output_error,
                  std::span<Sum> sums) {
  check_sizes(shape, input.size(), sums.size(), output_error.size());
  const Element* const x = input.data();
  const Element* const e = output_error.data();
  Sum* const w = sums.data();
  if (is_plain_product(shape)) {
    for (int64_t output = 0; output < shape.outputs; ++output)
      for (int64_t i = 0; i < shape.inputs; ++i) w[output * shape.inputs + i] += product<Sum>(x[i], e[output]);
    return;
  }
  for_each_tap(shape, [&](const Tap& tap) {
    const int64_t first = tap.input_row + tap.first_column;
    Sum sum = w[tap.weight];
    for (int64_t c = tap.columns.begin; c < tap.columns.end; ++c) sum += product<Sum>(x[first + c * shape.stride_w], e[tap.output_row + c]);
    w[tap.weight] = sum;
  });
}

template void add_forward(const ConvolutionShape&, std::span<const int16_t>, std::span<const int16_t>, std::span<int32_t>);
template void add_forward(const ConvolutionShape&, std::span<const int16_t>, std::span<const int16_t>, std::span<int64_t>);
template void add_forward(const ConvolutionShape&, std::span<const float>, std::span<const float>, std::span<float>);
template void add_error_back(const ConvolutionShape&, std::span<const int16_t>, std::span<const int16_t>, std::span<int32_t>);
template void add_error_back(const ConvolutionShape&, std::span<const int16_t>, std::span<const int16_t>, std::span<int64_t>);
template void add_error_back(const ConvolutionShape&, std::span<const float>, std::span<const float>, std::span<float>);
template void add_gradient(const ConvolutionShape&, std::span<const int16_t>, std::span<const int16_t>, std::span<int32_t>);
template void add_gradient(const ConvolutionShape&, std::span<const int16_t>, std::span<const int16_t>, std::span<int64_t>);
template void add_gradient(const ConvolutionShape&, std::span<const float>, std::span<const float>, std::span<float>);

}  // namespace millrace
