#include "fpga/common/cost/bram_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace millrace {

// The shapes of the data sheet (UG473, table of port widths): each fills its blocks exactly.
TEST(BramPacking, EveryShapeOfTheDataSheetIsOneBlock) {
  for (const auto& [width, depth] :
       std::array<std::pair<int64_t, int64_t>, 7>{{{1, 32768}, {2, 16384}, {4, 8192}, {9, 4096}, {18, 2048}, {36, 1024}, {72, 512}}})
    EXPECT_EQ(bram18_blocks({width, depth, 1}), 2) << width << " x " << depth;
  for (const auto& [width, depth] :
       std::array<std::pair<int64_t, int64_t>, 6>{{{1, 16384}, {2, 8192}, {4, 4096}, {9, 2048}, {18, 1024}, {36, 512}}})
    EXPECT_EQ(bram18_blocks({width, depth, 1}), 1) << width << " x " << depth;
  EXPECT_EQ(uram_blocks({72, 4096, 1}), 1);
}

TEST(BramPacking, OneWordOrOneBitMoreTakesAnotherBlock) {
  EXPECT_EQ(bram18_blocks({36, 513, 1}), 2);
  EXPECT_EQ(bram18_blocks({37, 512, 1}), 2);
  EXPECT_EQ(uram_blocks({72, 4097, 1}), 2);
  EXPECT_EQ(uram_blocks({73, 4096, 1}), 2);
}

TEST(BramPacking, BanksAreMemoriesOfTheirOwn) {
  EXPECT_EQ(bram18_blocks({16, 10, 9}), 9);
  EXPECT_EQ(bram18_blocks({16, 90, 1}), 1);
  EXPECT_EQ(uram_blocks({16, 10, 9}), 9);
}

TEST(BramPacking, NothingTakesNothing) {
  EXPECT_EQ(bram18_blocks({}), 0);
  EXPECT_EQ(bram18_blocks({16, 0, 4}), 0);
  EXPECT_EQ(uram_blocks({0, 16, 4}), 0);
}

// The least number of blocks over every way to put columns side by side, by dynamic programming over the width.
TEST(BramPacking, IsTheLeastOverAllColumns) {
  constexpr std::array<std::pair<int64_t, int64_t>, 6> kShapes{{{36, 512}, {18, 1024}, {9, 2048}, {4, 4096}, {2, 8192}, {1, 16384}}};
  for (const int64_t depth : {1, 64, 511, 512, 513, 700, 1024, 1025, 2048, 3000, 4096, 5000, 8192, 9000, 16384, 16385, 40000}) {
    std::vector<int64_t> least(301, 0);
    for (int64_t width = 1; width <= 300; ++width) {
      int64_t best = 1 << 30;
      for (const auto& [columns, rows] : kShapes)
        best = std::min(best, (depth + rows - 1) / rows + least[static_cast<size_t>(std::max<int64_t>(0, width - columns))]);
      least[static_cast<size_t>(width)] = best;
      ASSERT_EQ(bram18_blocks({width, depth, 1}), best) << width << " x " << depth;
      ASSERT_GE(bram18_blocks({width, depth, 1}) * 18432, width * depth);
    }
  }
}

TEST(BramPacking, TwoPortsCostWhatIsLessOfACopyAndNarrowerBlocks) {
  EXPECT_EQ(bram18_blocks({.width = 36, .depth = 512, .two_ports = true}), 2) << "a copy, or twice 18 wide";
  EXPECT_EQ(bram18_blocks({.width = 36, .depth = 1024, .two_ports = true}), 2) << "18 wide";
  EXPECT_EQ(bram18_blocks({.width = 576, .depth = 1100, .two_ports = true}), 64);
  EXPECT_EQ(uram_blocks({.width = 576, .depth = 1100, .two_ports = true}), 8);
}

TEST(BramPacking, LutramIsCountedInGroupsOfFourLuts) {
  EXPECT_DOUBLE_EQ(lutram_luts(32, 6), 4);
  EXPECT_DOUBLE_EQ(lutram_luts(33, 3), 4);
  EXPECT_DOUBLE_EQ(lutram_luts(64, 48), 64);
}

}  // namespace millrace
