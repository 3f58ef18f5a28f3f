// A recurrent layer's forward pass as one run of the kernel: what lies at its pointers, in order, little-endian. Internal to fpga/xrt.
//
//   const RecurrenceBlock block = block_of(layer, run);
//   const RecurrenceSizes sizes = sizes_of(layer_of(block), block);      // elements of each part
//
//   source       RecurrenceBlock, then the valid steps of each stream (64 bits)
//   second       x [stream][step][input], then h of the state [stream][feature] (16 bits)
//   parameters   weights of x, of h and of the projection, as FixedRecurrent has them (16 bits)
//   extra        biases, the state's own where there are, then c of the state [stream][unit], then, where sums_arrive is 1, x W as sums
//   that
//                another device made [stream][step][row] (32 bits)
//   result       ResultHeader, RecurrentCounters, c and h of the state behind the last step, then h [stream][step][feature]
// Of the scalars phase and run count. Plain numbers; layer_of fails with kMalformed, naming the number, on what no layer has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

namespace millrace::xrt {

struct RecurrenceBlock {
  uint32_t cell = 0, sigmoid = 0, tanh = 0, sums_arrive = 0;  // CellKind, SigmoidForm, TanhForm
  int32_t input_bits = 0, weight_bits = 0, hidden_bits = 0, projection_bits = 0;
  int64_t inputs = 0, hidden = 0, projection = 0, streams = 0, steps = 0;
};
static_assert(sizeof(RecurrenceBlock) == 72);

struct RecurrenceSizes {
  size_t x = 0, state = 0, cells = 0;
  size_t input_weights = 0, hidden_weights = 0, projection_weights = 0;
  size_t biases = 0, hidden_biases = 0;
  size_t sums = 0;
  size_t outputs = 0;

  size_t weights() const { return input_weights + hidden_weights + projection_weights; }
};

RecurrenceBlock block_of(const FixedRecurrent& layer, const RecurrentRun& run);
// Without its parameters.
FixedRecurrent layer_of(const RecurrenceBlock& block);
RecurrenceSizes sizes_of(const FixedRecurrent& layer, const RecurrenceBlock& block);

}  // namespace millrace::xrt
