// Every buffer of one shard beside its engines: FPDeep's memory subsystem.
//
//   const ShardBuffers buffers = shard_buffers(shard, {.lifetime = 0.92, .element_bits = 16, .copies = 2, .owner = true,
//                                                      .forward_tiles = 40, .error_back_tiles = 41});
//   buffers.act_ram.bits;             // activations until their row of errors comes back
//   buffers.fixed().block_bits;       // block RAM that the shard needs whatever the homes say
//   buffers.parameter_bits;           // LPRAM, LGB and the optimizer's state, which may live elsewhere
//
// act_ram        the channels held, for `lifetime` samples. FP reads its lines from here: there is no line buffer beside it,
//                and at least the rows one output row needs are held
// error_line     the rows of errors that EB of one input row needs, of the output channels touched; PG reads them too
// partial        one row of partial sums, of the output channels touched: those of the devices before are added to it
// accumulators   one row of sums in the making, at twice the element's width, of the channels the engines have side by side
// state          recurrent layers: what back-propagation through time reads, for every step of a sample
// kept, lines    of the layers after the sum (special_function.h)
// vectors        biases and scales with their gradients and optimizer state
// weight_stream  64 words of 512 bits per phase, of off-chip weights, and twice the inputs and errors that PG puts side by side. LGB is
// reckoned in elements as the paper does; built ones have 32 Without an error to come back (nothing to train at or before the layer) only
// the rows of FP are held.
#pragma once

#include <cstdint>

#include "fpga/common/cost/buffer.h"
#include "fpga/common/cost/shard_geometry.h"
#include "fpga/conv_ce/special_function.h"

namespace millrace {

struct BufferSettings {
  double lifetime = 1;  // samples between an input row's FP and its PG
  int64_t element_bits = 16;
  int copies = 2;  // of a weight: itself, its gradient, the optimizer's
  bool owner = true;
  int64_t gradient_samples = 0;  // that PG puts side by side, of weights off chip
  int64_t forward_tiles = 0;
  int64_t error_back_tiles = 0;
};

struct ShardBuffers {
  Buffer act_ram;
  Buffer error_line;
  Buffer partial;
  Buffer accumulators;
  Buffer state;
  Buffer kept;
  Buffer lines;
  Buffer vectors;
  Buffer weight_stream;
  Buffer stationary;          // weights that cannot leave, with their gradients
  double parameter_bits = 0;  // weights that can
  double off_chip_bytes = 0;

  Buffer fixed() const;  // all but parameter_bits and off_chip_bytes
};

ShardBuffers shard_buffers(const ShardGeometry& shard, const BufferSettings& settings, const SpecialFunctionUse& after);

// How long the layers after the sum keep what they keep: the kernel's own rows have passed.
double lifetime_after_sum(const ShardGeometry& shard, double lifetime);

}  // namespace millrace
