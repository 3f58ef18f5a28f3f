#include "fpga/conv_ce/arithmetic/square_kernel.h"

#include <algorithm>

namespace millrace {

std::optional<ConvolutionShape> with_square_kernel(const ConvolutionShape& shape) {
  if (shape.stride_h != shape.stride_w) return std::nullopt;
  const int64_t rows = (shape.kernel_h - 1) * shape.dilation_h + 1, columns = (shape.kernel_w - 1) * shape.dilation_w + 1;
  ConvolutionShape square = shape;
  square.dilation_h = square.dilation_w = 1;
  square.pad_h = square.pad_w = std::max(shape.pad_h, shape.pad_w);
  // As much padding as is added above is added below, too, which zeros in as many rows of the kernel undo.
  const int64_t above = square.pad_h - shape.pad_h, before = square.pad_w - shape.pad_w;
  const int64_t largest = std::max(rows + 2 * above, columns + 2 * before);
  for (int64_t side = std::max(rows + above, columns + before); side <= largest; ++side) {
    square.kernel_h = square.kernel_w = side;
    if (square.out_height() == shape.out_height() && square.out_width() == shape.out_width()) return square;
  }
  return std::nullopt;
}

int64_t square_place(const ConvolutionShape& shape, const ConvolutionShape& square, int64_t row, int64_t column) {
  return (row * shape.dilation_h + square.pad_h - shape.pad_h) * square.kernel_w + column * shape.dilation_w + square.pad_w - shape.pad_w;
}

}  // namespace millrace
