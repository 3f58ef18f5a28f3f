#include "fpga/common/cost/shared_out.h"

#include <algorithm>

#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

namespace {

// So many columns of a memory's words, which lie in UltraRAM together or not at all.
struct Columns {
  size_t memory = 0;
  int64_t count = 0;
  double bram36 = 0, urams = 0;
};

Columns columns_of(std::span<const MemoryShape> memories, size_t memory, int64_t count, int64_t bits) {
  const PackedBlocks none = blocks_of(memories[memory], 0), some = blocks_of(memories[memory], bits);
  return {memory, count, none.bram36 - some.bram36, some.urams};
}

// Those that together leave the most block RAM, of as many UltraRAMs as there are.
std::vector<Columns> best_of(const std::vector<Columns>& columns, double urams) {
  // saved[n]: the most block RAM that n UltraRAMs save; taken[i][n]: whether the i-th columns are among those.
  const auto room = static_cast<size_t>(urams);
  std::vector<double> saved(room + 1);
  std::vector<std::vector<bool>> taken(columns.size(), std::vector<bool>(room + 1));
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto own = static_cast<size_t>(columns[i].urams);
    for (size_t n = room; n >= own && n > 0; --n) {
      if (saved[n - own] + columns[i].bram36 <= saved[n]) continue;
      saved[n] = saved[n - own] + columns[i].bram36;
      taken[i][n] = true;
    }
  }
  std::vector<Columns> best;
  for (size_t i = columns.size(), left = room; i-- > 0;) {
    if (!taken[i][left]) continue;
    best.push_back(columns[i]);
    left -= static_cast<size_t>(columns[i].urams);
  }
  return best;
}

double bram36_of(std::span<const MemoryShape> memories, const std::vector<int64_t>& bits) {
  double bram36 = 0;
  for (size_t m = 0; m < memories.size(); ++m) bram36 += blocks_of(memories[m], bits[m]).bram36;
  return bram36;
}

}  // namespace

PackedBlocks blocks_of(const MemoryShape& memory, int64_t ultra_bits) {
  MemoryShape ultra = memory, rest = memory;
  ultra.width = std::min(ultra_bits, memory.width);
  rest.width -= ultra.width;
  return {.bram36 = static_cast<double>(bram18_blocks(rest)) / 2, .urams = static_cast<double>(uram_blocks(ultra))};
}

std::vector<int64_t> ultra_bits(std::span<const MemoryShape> memories, const BlockInventory& board, double others_bram36) {
  std::vector<int64_t> bits(memories.size());
  if (board.urams <= 0) return bits;
  std::vector<Columns> whole;
  for (size_t m = 0; m < memories.size(); ++m) {
    const Columns all = columns_of(memories, m, 1, memories[m].width);
    if (all.urams * board.bram36 < all.bram36 * board.urams) whole.push_back(all);
  }
  for (const Columns& one : best_of(whole, board.urams)) bits[one.memory] = memories[one.memory].width;
  if (others_bram36 + bram36_of(memories, bits) <= board.bram36) return bits;
  // Full columns save alike, the last one, of fewer bits, no more: any number of them is some of those that double, and the rest.
  std::vector<Columns> columns;
  for (size_t m = 0; m < memories.size(); ++m) {
    const int64_t full = memories[m].width / kUramWidth;
    for (int64_t left = full, step = 1; left > 0; left -= step, step = std::min(2 * step, left))
      columns.push_back(columns_of(memories, m, step, step * kUramWidth));
    if (full * kUramWidth == memories[m].width) continue;
    Columns last = columns_of(memories, m, 1, memories[m].width);
    const PackedBlocks before = blocks_of(memories[m], full * kUramWidth);
    last.bram36 = before.bram36;
    last.urams -= before.urams;
    columns.push_back(last);
  }
  bits.assign(memories.size(), 0);
  for (const Columns& some : best_of(columns, board.urams)) bits[some.memory] += some.count * kUramWidth;
  for (size_t m = 0; m < memories.size(); ++m) bits[m] = std::min(bits[m], memories[m].width);
  return bits;
}

}  // namespace millrace
