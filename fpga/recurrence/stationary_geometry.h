// The terms of an engine that keeps a recurrent layer's weights beside it: what one step takes, and what it keeps for its way back.
//
//   const ShardGeometry shard = stationary_geometry(node, blocks, /*owner=*/true);
//   shard.forward.work;      // products of one step: multipliers x cycles
//
// The owner also does the products with the state, which no other device can do. Nothing is allocated.
#pragma once

#include "fpga/common/cost/shard_geometry.h"

namespace millrace {

// Of a recurrent layer. Without blocks: the whole layer.
ShardGeometry stationary_geometry(const Node& node, std::span<const Block> blocks, bool owner);

}  // namespace millrace
