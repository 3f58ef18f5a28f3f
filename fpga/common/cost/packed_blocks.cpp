#include "fpga/common/cost/packed_blocks.h"

namespace millrace {

void PackedBlocks::add(const MemoryShape& memory, const BlockInventory& board) {
  const double brams = static_cast<double>(bram18_blocks(memory)) / 2;
  const auto ultra = static_cast<double>(uram_blocks(memory));
  if (board.urams > 0 && ultra * board.bram36 < brams * board.urams) {
    urams += ultra;
  } else {
    bram36 += brams;
  }
}

}  // namespace millrace
