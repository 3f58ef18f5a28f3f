// The convolution engine's terms for a shard's blocks: kernels, rows, the channels held, the work of one row.
//
//   const ShardGeometry shard = convolution_geometry(node, blocks, /*owner=*/true);
//   shard.forward.work;      // tile-cycles that one output row takes: what FP and PG walk
//   shard.error_back.units;  // input rows: what EB walks
//
// Work is exact: over all rows FP and PG take kernels x H_out x W_out tile-cycles; EB does the same number spread over the H_in
// input rows, each row rounded up. Dense layers are convolutions of one product.
// Embeddings and layers without weights have no engine: forward.work is 0. Recurrent layers are fpga/recurrence's.
// Nothing is allocated.
#pragma once

#include "fpga/common/cost/shard_geometry.h"

namespace millrace {

// Without blocks: the whole layer. Blocks of a grouped convolution cover whole groups.
ShardGeometry convolution_geometry(const Node& node, std::span<const Block> blocks, bool owner);

}  // namespace millrace
