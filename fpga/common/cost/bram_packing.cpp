#include "fpga/common/cost/bram_packing.h"

#include <algorithm>
#include <array>

#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

namespace {

struct Configuration {
  int64_t width;
  int64_t depth;
};
constexpr std::array<Configuration, 6> kHalfBlock{{{36, 512}, {18, 1024}, {9, 2048}, {4, 4096}, {2, 8192}, {1, 16384}}};

// Full columns of the widest shape that is allowed, then narrower ones for what is left: two of half the width or more cost at least what
// one does, so no full column is worth dividing. What divides is constant: planners ask for millions of memories.
template <size_t kWidest>
int64_t bank_blocks(int64_t width, int64_t depth) {
  constexpr Configuration kShape = kHalfBlock[kWidest];
  const int64_t column = divided_up(depth, kShape.depth), full = width / kShape.width, left = width % kShape.width;
  int64_t blocks = (left > 0 ? full + 1 : full) * column;
  if (column == 1 || left == 0) return blocks;  // narrower shapes need as many columns at least, of a block at least
  if constexpr (kWidest + 1 < kHalfBlock.size()) blocks = std::min(blocks, full * column + bank_blocks<kWidest + 1>(left, depth));
  return blocks;
}

}  // namespace

int64_t bram18_blocks(const MemoryShape& memory) {
  if (memory.width <= 0 || memory.depth <= 0 || memory.banks <= 0) return 0;
  const int64_t one_reads = bank_blocks<0>(memory.width, memory.depth);
  if (!memory.two_ports) return memory.banks * one_reads;
  return memory.banks * std::min(2 * one_reads, bank_blocks<1>(memory.width, memory.depth));
}

int64_t uram_blocks(const MemoryShape& memory) {
  if (memory.width <= 0 || memory.depth <= 0 || memory.banks <= 0) return 0;
  return memory.banks * divided_up(memory.width, kUramWidth) * divided_up(memory.depth, 4096);
}

double lutram_luts(int64_t depth, double width) { return width * (depth <= 32 ? 4.0 / 6 : 4.0 / 3); }

}  // namespace millrace
