// A board's memories shared out over its two kinds of blocks: which bits of each memory's words lie in UltraRAM.
//
//   const std::vector<MemoryShape> memories = {{.width = 288, .depth = 4096}, {.width = 576, .depth = 4096}};
//   ultra_bits(memories, {.bram36 = 40, .urams = 10}, /*others_bram36=*/8);      // {0, 576}: the second, whole
//   ultra_bits(memories, {.bram36 = 39, .urams = 10}, 8);                        // {288, 432}: ten columns of 72 bits
//   blocks_of(memories[1], 432).bram36;                                          // 16, of the other two
//
// A word is cut by columns: so many bits of it, whole columns of 72 from the lowest on or all, lie in UltraRAM, the others at the same
// address in block RAM. Of UltraRAM is, whole, what takes a smaller share of the board's UltraRAM than of its block RAM, as far as that
// goes. Only where the block RAM is too small for the rest, columns of any memory are, those that leave the most of it: so whatever can be
// shared out is. Memories of at most kLutramDepth words take no block and are not to be asked for. Pure functions of their arguments; time
// and room grow with the board's UltraRAMs, and with the logarithm of a word's bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fpga/common/cost/packed_blocks.h"

namespace millrace {

// What a memory takes of which so many bits of every word lie in UltraRAM.
PackedBlocks blocks_of(const MemoryShape& memory, int64_t ultra_bits);

// Of every memory; `others_bram36`: what else is on the board.
std::vector<int64_t> ultra_bits(std::span<const MemoryShape> memories, const BlockInventory& board, double others_bram36);

}  // namespace millrace
