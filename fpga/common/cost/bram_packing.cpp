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

// Full columns of the widest shape that is allowed, then narrower ones for what is left; or no such column at all.
int64_t bank_blocks(int64_t width, int64_t depth, size_t widest) {
  int64_t least = -1;
  for (size_t i = widest; i < kHalfBlock.size(); ++i) {
    const int64_t column = divided_up(depth, kHalfBlock[i].depth);
    const int64_t full = width / kHalfBlock[i].width;
    const int64_t left = width % kHalfBlock[i].width;
    int64_t blocks = divided_up(width, kHalfBlock[i].width) * column;
    if (full > 0 && left > 0) blocks = std::min(blocks, full * column + bank_blocks(left, depth, i + 1));
    if (least < 0 || blocks < least) least = blocks;
  }
  return least;
}

}  // namespace

int64_t bram18_blocks(const MemoryShape& memory) {
  if (memory.width <= 0 || memory.depth <= 0 || memory.banks <= 0) return 0;
  const int64_t one_reads = bank_blocks(memory.width, memory.depth, 0);
  if (!memory.two_ports) return memory.banks * one_reads;
  return memory.banks * std::min(2 * one_reads, bank_blocks(memory.width, memory.depth, 1));
}

int64_t uram_blocks(const MemoryShape& memory) {
  if (memory.width <= 0 || memory.depth <= 0 || memory.banks <= 0) return 0;
  return memory.banks * divided_up(memory.width, 72) * divided_up(memory.depth, 4096);
}

double lutram_luts(int64_t depth, double width) { return width * (depth <= 32 ? 4.0 / 6 : 4.0 / 3); }

}  // namespace millrace
