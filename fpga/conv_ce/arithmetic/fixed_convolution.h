// FP, EB and PG of the convolution engine in fixed point: what its accumulators hold, bit by bit. Internal to fpga/conv_ce.
//
//   std::vector<int32_t> accumulators = from_partials(partial, /*shift=*/12, counters);      // of the device before
//   accumulate_forward(shape, input, weight, accumulators, counters);
//   std::vector<int16_t> sums = to_elements(accumulators, /*shift=*/14, counters);           // to the wire
//
// Accumulators start at zero or at the partial sums that came in, which are raised to the accumulator's fraction bits;
// every product is added modulo 2^32; then they are rounded once. The result depends on the numbers alone, not on how an
// engine divides the work, and not on channels that a neighbour computes as long as its partial sums are rounded likewise.
// Gradients stay accumulators: PG adds sample after sample, and only what leaves for another device is rounded.
// `counters` learn of every accumulator that wrapped and of every rounding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fpga/common/arithmetic/arithmetic_counters.h"
#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"

namespace millrace {

void accumulate_forward(const ConvolutionShape& shape, std::span<const int16_t> input, std::span<const int16_t> weight,
                        std::span<int32_t> accumulators, ArithmeticCounters& counters);
void accumulate_error_back(const ConvolutionShape& shape, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                           std::span<int32_t> accumulators, ArithmeticCounters& counters);
void accumulate_gradient(const ConvolutionShape& shape, std::span<const int16_t> input, std::span<const int16_t> output_error,
                         std::span<int32_t> accumulators, ArithmeticCounters& counters);
// One per output channel: the sum of its errors.
void accumulate_bias_gradient(const ConvolutionShape& shape, std::span<const int16_t> output_error, std::span<int32_t> accumulators,
                              ArithmeticCounters& counters);

std::vector<int32_t> from_partials(std::span<const int16_t> partials, int shift, ArithmeticCounters& counters);
// `bits`: of the wire.
std::vector<int16_t> to_elements(std::span<const int32_t> accumulators, int shift, ArithmeticCounters& counters, int bits = kElementBits);

}  // namespace millrace
