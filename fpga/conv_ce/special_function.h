// The special-function unit: what the layers after the sum (bias, activation, normalisation, pooling, joins) cost on the
// device that ends the group.
//
//   const SpecialFunctionUse use = special_function_use(after, lifetime, /*element_bits=*/16, /*copies=*/2);
//   bram_bits += use.kept_bits + use.lines.block_bits + use.vectors.block_bits;
//
// Kept between FP and EB, per layer:
//   max pooling       which element won, ceil(log2(window)) bits per output
//   LRN               its input
//   batch norm        x-hat, when its scale is trained; statistics are those of the samples before, as scale and shift
//   dropout           nothing: the mask is computed again
//   activation        nothing where its output, pooled by its maximum or not, becomes the input of a layer with weights:
//                     that layer holds it until the same row of errors comes back. Before an average, a sum or a batch
//                     norm, which hide it: one bit for a ReLU, the output for the others
//   losses            nothing: they run on the host
// Row buffers: a pooling window's rows but one; the rows for which the operands of a join wait for the last one.
// Multiplications of this unit take DSP slices of the share that engines leave.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/common/cost/buffer.h"

namespace millrace {

// Rows that a shortcut waits beside two 3x3 convolutions, on the way forward and as many on the way back.
inline constexpr int64_t kJoinRows = 6;

struct SpecialFunctionUse {
  double kept_bits = 0;
  Buffer lines;
  Buffer vectors;         // scales, shifts and running statistics
  double lane_logic = 0;  // LUTs, and as many flip-flops, per bit of one lane

  SpecialFunctionUse& operator+=(const SpecialFunctionUse& other);
};

// `lifetime`: samples that pass between a row of the sum and the same row of its error.
// `copies`: numbers stored per trained one, with its gradient and the optimizer's.
SpecialFunctionUse special_function_use(std::span<const Node* const> after, double lifetime, int64_t element_bits, int copies);

// Logic per bit of one lane of each kind of layer, and rows of a join; with their origin: projected.
std::vector<Constant> special_function_constants();

}  // namespace millrace
