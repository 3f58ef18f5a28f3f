// A convolution as engines compute it, whose kernels, padding and dilation are wired alike downwards and sideways: a kernel with holes, or
// one that is not square, is a larger square one with zeros.
//
//   const std::optional<ConvolutionShape> square = with_square_kernel(shape);    // of 1 x 7 over padding of 0 x 3: of 7 x 7 over 3
//   square_place(shape, *square, 0, 2);                                         // 23: the third of its fourth row
//
// Nothing where strides differ, or where no square kernel stands in as many places: padded to the same size kernels of any form have one.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "fpga/conv_ce/arithmetic/convolution_shape.h"

namespace millrace {

std::optional<ConvolutionShape> with_square_kernel(const ConvolutionShape& shape);

// Of an element of the kernel, in the square one.
int64_t square_place(const ConvolutionShape& shape, const ConvolutionShape& square, int64_t row, int64_t column);

}  // namespace millrace
