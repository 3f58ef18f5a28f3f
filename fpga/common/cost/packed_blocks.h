// Memories of a shard in the blocks that a board has.
//
//   PackedBlocks blocks;
//   blocks.add({.width = 72, .depth = 4096, .banks = 8}, {.bram36 = 2016, .urams = 960});   // 8 UltraRAMs
//
// A memory goes to the kind of block, BRAM or UltraRAM, of which it takes the smaller share of the board's.
#pragma once

#include "fpga/common/cost/bram_packing.h"

namespace millrace {

struct BlockInventory {
  double bram36 = 0;
  double urams = 0;
};

struct PackedBlocks {
  double bram36 = 0;
  double urams = 0;

  void add(const MemoryShape& memory, const BlockInventory& board);
};

}  // namespace millrace
