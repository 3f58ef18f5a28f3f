// Memories over two kinds of blocks: every way to cut them by columns is tried, and a way is found wherever there is one.
#include "fpga/common/cost/shared_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace millrace {
namespace {

// Counted anew: UltraRAMs of 4096 x 72, and halves of a block RAM in columns of one width and narrower ones for what is left.
int64_t halves(int64_t width, int64_t depth, bool two_ports) {
  if (width <= 0) return 0;
  int64_t fewest = INT64_MAX;
  for (int64_t shape = two_ports ? 1 : 0; shape < 6; ++shape) {
    const int64_t bits = std::max<int64_t>(int64_t{36} >> shape, 1), words = int64_t{512} << shape;
    const int64_t column = (depth + words - 1) / words;
    fewest = std::min(fewest, (width + bits - 1) / bits * column);
    if (width > bits && width % bits != 0) fewest = std::min(fewest, width / bits * column + halves(width % bits, depth, two_ports));
  }
  return fewest;
}

struct Drawn {
  std::vector<MemoryShape> memories;
  BlockInventory board;
  double others = 0;
};

// The least block RAM with as many UltraRAMs as are left, from the m-th memory on.
int64_t least_halves(const std::vector<MemoryShape>& memories, size_t m, int64_t urams) {
  if (m == memories.size()) return 0;
  const MemoryShape& memory = memories[m];
  int64_t least = INT64_MAX;
  for (int64_t bits = 0;; bits = std::min(bits + 72, memory.width)) {
    const int64_t taken = memory.banks * ((bits + 71) / 72) * ((memory.depth + 4095) / 4096);
    if (taken > urams) break;
    least = std::min(
        least, memory.banks * halves(memory.width - bits, memory.depth, memory.two_ports) + least_halves(memories, m + 1, urams - taken));
    if (bits == memory.width) break;
  }
  return least;
}

Drawn drawn(std::mt19937_64& random) {
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  Drawn one;
  for (int64_t m = 1 + below(4); m > 0; --m)
    one.memories.push_back({.width = 1 + below(400), .depth = 65 + below(9000), .banks = 1 + below(2), .two_ports = below(2) == 0});
  one.board = {.bram36 = static_cast<double>(below(80)), .urams = static_cast<double>(below(14))};
  one.others = static_cast<double>(below(20)) / 2;
  return one;
}

TEST(SharedOut, IsFoundWhereverThereIsAWay) {
  std::mt19937_64 random(11);
  int fitting = 0, split = 0;
  for (int draw = 0; draw < 600; ++draw) {
    const Drawn one = drawn(random);
    const std::vector<int64_t> bits = ultra_bits(one.memories, one.board, one.others);
    PackedBlocks taken{.bram36 = one.others};
    bool cut = false;
    for (size_t m = 0; m < bits.size(); ++m) {
      const MemoryShape& memory = one.memories[m];
      ASSERT_TRUE(bits[m] == memory.width || (bits[m] % 72 == 0 && bits[m] >= 0 && bits[m] < memory.width)) << bits[m];
      const PackedBlocks own = blocks_of(memory, bits[m]);
      EXPECT_EQ(own.bram36, static_cast<double>(memory.banks * halves(memory.width - bits[m], memory.depth, memory.two_ports)) / 2);
      taken.bram36 += own.bram36;
      taken.urams += own.urams;
      cut = cut || (bits[m] > 0 && bits[m] < memory.width);
    }
    ASSERT_LE(taken.urams, one.board.urams);
    const int64_t least = least_halves(one.memories, 0, static_cast<int64_t>(one.board.urams));
    const bool can_fit = one.others + static_cast<double>(least) / 2 <= one.board.bram36;
    EXPECT_EQ(taken.bram36 <= one.board.bram36, can_fit) << draw;
    if (!can_fit) {
      EXPECT_EQ(taken.bram36, one.others + static_cast<double>(least) / 2) << draw << ": as little as can be";
    }
    fitting += can_fit ? 1 : 0;
    split += cut && can_fit ? 1 : 0;
  }
  EXPECT_GT(fitting, 150);
  EXPECT_GT(split, 20);
}

// Whatever can lie in one kind of block does.
TEST(SharedOut, CutsNothingWhereWholeMemoriesFit) {
  const std::vector<MemoryShape> memories = {{.width = 288, .depth = 4096}, {.width = 576, .depth = 4096}};
  EXPECT_EQ(ultra_bits(memories, {.bram36 = 40, .urams = 10}, 8), (std::vector<int64_t>{0, 576}));
  EXPECT_EQ(ultra_bits(memories, {.bram36 = 39, .urams = 10}, 8), (std::vector<int64_t>{288, 432}));
  EXPECT_EQ(ultra_bits(memories, {.bram36 = 200, .urams = 0}, 8), (std::vector<int64_t>{0, 0}));
}

}  // namespace
}  // namespace millrace
