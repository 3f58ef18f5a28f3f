// A shard's buffers packed into memory blocks: what bits alone do not show.
//
//   const PackedShard packed = packed_shard(shard, buffers, settings, {.bram36 = 1470, .urams = 0});
//   packed.fixed.bram36;          // of the buffers; halves count, for two memories share a block
//   packed.parameters.bram36;     // of LPRAM, LGB and the optimizer's state
//
// How the engines reach their memories decides width and banks:
//   act_ram      a bank per row of the kernel, as wide as the input channels side by side
//   error_line   the same for output channels
//   LPRAM, LGB   a weight stays in its tile for a row, so the engine's tiles are reloaded in as many cycles as a row is
//                wide: words of ceil(tiles / width) kernels, for tiles step through their kernels together
//   the rest     one bank, sixteen channels wide
#pragma once

#include "fpga/common/cost/packed_blocks.h"
#include "fpga/conv_ce/shard_buffers.h"

namespace millrace {

struct PackedShard {
  PackedBlocks fixed;
  PackedBlocks parameters;
};

PackedShard packed_shard(const ShardGeometry& shard, const ShardBuffers& buffers, const BufferSettings& settings,
                         const BlockInventory& board);

}  // namespace millrace
