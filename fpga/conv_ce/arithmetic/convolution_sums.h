// The three phases of a convolution as sums of products, added to what is there: the arithmetic before any rounding.
//
//   std::vector<int32_t> accumulators(shape.output_elements());
//   add_forward<int16_t, int32_t>(shape, input, weight, accumulators);
//   add_error_back<int16_t, int32_t>(shape, output_error, weight, input_error_accumulators);
//   add_gradient<int16_t, int32_t>(shape, input, output_error, weight_accumulators);
//
// <int16_t, int32_t> is the engine where nothing overflows, <int16_t, int64_t> the exact sum behind it, <float, float> the
// fp32 mode. Floats are summed in one fixed order: input channel, kernel row, kernel column for an output; output channel,
// kernel row, kernel column for an input's error; row, column for a gradient.
// Products with padding are left out. Sizes are checked.
#pragma once

#include <cstdint>
#include <span>

#include "fpga/conv_ce/arithmetic/convolution_shape.h"

namespace millrace {

template <typename Element, typename Sum>
void add_forward(const ConvolutionShape& shape, std::span<const Element> input, std::span<const Element> weight, std::span<Sum> sums);

template <typename Element, typename Sum>
void add_error_back(const ConvolutionShape& shape, std::span<const Element> output_error, std::span<const Element> weight,
                    std::span<Sum> sums);

template <typename Element, typename Sum>
void add_gradient(const ConvolutionShape& shape, std::span<const Element> input, std::span<const Element> output_error,
                  std::span<Sum> sums);

}  // namespace millrace
