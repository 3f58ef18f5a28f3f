// How many memory blocks a memory of a given width, depth and number of banks really takes.
//
//   bram18_blocks({.width = 144, .depth = 4608, .banks = 9});   // halves of a BRAM36
//   uram_blocks({.width = 72, .depth = 4096});                  // 1
//   lutram_luts(64, 48);                                        // 48 bits side by side, 64 deep, in LUTs
//
// A block RAM of 18 Kib is one of 16Kx1, 8Kx2, 4Kx4, 2Kx9, 1Kx18, 512x36; a BRAM36 is two of them, side by side or alone
// (its 32Kx1 ... 512x72 are the pairs). Banks are memories of their own. Columns of different shapes may stand side by side
// where that takes fewer blocks; the count is the least over such columns, each uniform from top to bottom.
// A memory that is read in two places at once is two copies of one that is read in one, or has blocks of two ports, half as wide: what is
// less. An UltraRAM is 4Kx72 and nothing else, and always has two ports. Nothing is allocated.
#pragma once

#include <cstdint>

namespace millrace {

inline constexpr int64_t kBram36Bits = 36'864;
inline constexpr int64_t kUramBits = 294'912;
inline constexpr int64_t kUramWidth = 72;
// A memory this shallow wastes a block; it is built of LUTs.
inline constexpr int64_t kLutramDepth = 64;

struct MemoryShape {
  int64_t width = 0;  // bits of a word
  int64_t depth = 0;  // words
  int64_t banks = 1;
  bool two_ports = false;  // that read at once, one of which writes: a block is 18 bits wide at most

  int64_t bits() const { return width * depth * banks; }
};

int64_t bram18_blocks(const MemoryShape& memory);
int64_t uram_blocks(const MemoryShape& memory);
// LUTs for `width` bits side by side of at most kLutramDepth words: four give 6 bits of 32 words or 3 bits of 64.
double lutram_luts(int64_t depth, double width);

}  // namespace millrace
