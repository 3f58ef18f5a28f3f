// Steps of a sequence that share a pass over the weights of a dense layer, in a plan for inference. Internal to fpga/cost.
//
//   const int64_t steps = steps_of_dense_pass(shard, /*asked=*/0, /*element_bits=*/16, board.on_chip_bits());     // 16 of 32
//   bits_of_dense_pass(shard, steps, 16);     // that wait for it, and of what comes of them
//
// A dense layer takes every step by itself, and its weights lie off chip: so many steps lie side by side, as one wide row, and share a pass
// over them, as those of a batch do over a recurrent layer's. They are a divisor of the layer's steps. Pure functions.
#pragma once

#include <cstdint>

#include "fpga/common/cost/shard_geometry.h"

namespace millrace {

// At most those asked for; 0: as many as an eighth of the board's memory holds, of the whole layer whatever part of it a shard has.
// 1 where nothing is shared.
int64_t steps_of_dense_pass(const ShardGeometry& shard, int64_t asked, int64_t element_bits, double on_chip_bits);
// Twice, so that the next steps come in while these are looked at; 0 of one step.
double bits_of_dense_pass(const ShardGeometry& shard, int64_t steps, int64_t element_bits);

}  // namespace millrace
