#include "fpga/common/cost/packed_blocks.h"

#include <gtest/gtest.h>

namespace millrace {

TEST(PackedBlocks, UltraRamTakesWhatItHoldsCheaply) {
  PackedBlocks blocks;
  blocks.add({72, 4096, 8}, {2016, 960});  // 8 of 960 against 64 of 2,016
  EXPECT_EQ(blocks.urams, 8);
  EXPECT_EQ(blocks.bram36, 0);
  blocks.add({36, 512, 8}, {2016, 960});  // 8 of 960 against 4 of 2,016
  EXPECT_EQ(blocks.urams, 8);
  EXPECT_EQ(blocks.bram36, 4);
}

}  // namespace millrace
