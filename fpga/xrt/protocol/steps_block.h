// The steps of a recurrent layer as runs of the kernel, forward and back: what lies at its pointers, in order, little-endian.
// Internal to fpga/xrt.
//
//   const StepsBlock block = block_of(of, run);
//   const StepsSizes sizes = sizes_of(layer_of(block), block);      // elements of each part
//
//   both      source       StepsBlock, then the valid steps of each stream (64 bits)
//             parameters   weights of h and of the projection, as FixedRecurrent has them (16 bits)
//   forward   second       x W [stream][step][unit][gate] as elements, then h of the state [stream][feature] (16 bits), then, where the
//                          part is the features', what is projected [stream][step][unit]
//             extra        biases, gru's own of h where there are, then c of the state [stream][unit] (32 bits)
//             result       ResultHeader, RecurrentCounters, c and h of the state behind the last step, h [stream][step][feature], what is
//                          projected [stream][step][unit], and the record [stream][step][unit] (kRecordElements of 16 bits each)
//   back      second       errors [stream][step][feature], then those that the recurrent product takes [stream][gate][unit], what units
//                          carry [stream][unit], and the record (16 bits)
//             result       ResultHeader, ArithmeticCounters, the two states in front of the first step, errors of the sums
//                          [stream][step][unit][gate], gru's candidates [stream][step][unit], and of the features where there is a
//                          projection [stream][step][feature]
// A part of a step has none of what the other makes: x W, records and errors of sums are the units', errors of features are the features'.
// Of the scalars phase and run count. Plain numbers; layer_of fails with kMalformed, naming the number, on what no layer has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fpga/pe_chain/arithmetic/chain_engine.h"
#include "fpga/xrt/protocol/recurrence_block.h"

namespace millrace::xrt {

struct StepsBlock {
  RecurrenceBlock layer;
  int64_t board_begin = 0, board_end = 0;  // units
  int32_t error_bits = 0, part = 0;        // part: StepPart
};
static_assert(sizeof(StepsBlock) == sizeof(RecurrenceBlock) + 24);

inline constexpr size_t kRecordElements = 6;
static_assert(sizeof(UnitRecord) == kRecordElements * sizeof(int16_t));

struct StepsSizes {
  RecurrenceSizes of_layer;
  size_t sums = 0, units = 0, given_units = 0, records = 0;     // `units` are those of a projected layer
  size_t taken = 0, carried = 0, candidates = 0, features = 0;  // back; `features` of a projected layer

  size_t weights() const { return of_layer.hidden_weights + of_layer.projection_weights; }
};

StepsBlock block_of(const StepsOfBoard& of, const RecurrentRun& run);
// Without its parameters.
FixedRecurrent layer_of(const StepsBlock& block);
StepsSizes sizes_of(const FixedRecurrent& layer, const StepsBlock& block);

}  // namespace millrace::xrt
