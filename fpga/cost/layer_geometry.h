// A shard's blocks in the terms of the engine that its layer has. Internal to fpga/cost.
//
//   const ShardGeometry shard = geometry_of(node, blocks, /*owner=*/true);
//
// Recurrent layers: fpga/recurrence; all others: fpga/conv_ce. Nothing is allocated.
#pragma once

#include "fpga/common/cost/shard_geometry.h"

namespace millrace {

// Without blocks: the whole layer. Blocks of a grouped convolution cover whole groups.
ShardGeometry geometry_of(const Node& node, std::span<const Block> blocks, bool owner);

}  // namespace millrace
