// What a ring lacks, in words.
#include "partitioner/hybrid/shortage_text.h"

#include <gtest/gtest.h>

#include <tuple>

namespace millrace {
namespace {

// However little is lacking, the amount shows it.
TEST(ShortageText, SmallAmountsAreSeen) {
  EXPECT_EQ(amount_text("memory_bytes", 12.5e9), "12.50 GB of memory");
  EXPECT_EQ(amount_text("memory_bytes", 2.5e6), "2.50 MB of memory");
  EXPECT_EQ(amount_text("dram_bytes", 640e3), "0.64 MB of off-chip memory");
  EXPECT_EQ(amount_text("dram_bytes", 3200), "3.20 kB of off-chip memory");
  EXPECT_EQ(amount_text("memory_bytes", 3.2), "4 bytes of memory");
  EXPECT_EQ(amount_text("bram_bits", 12.4e6), "12.40 Mb of on-chip memory");
  EXPECT_EQ(amount_text("bram_bits", 576), "0.58 kb of on-chip memory");
  EXPECT_EQ(amount_text("dsp", 0.25), "1 DSP slice");
}

TEST(ShortageText, OneIsNotSeveral) {
  for (const auto& [resource, one, several] :
       {std::tuple{"memory_bytes", "1 byte of memory", "2 bytes of memory"},
        std::tuple{"bram_bits", "1 bit of on-chip memory", "2 bits of on-chip memory"}, std::tuple{"dsp", "1 DSP slice", "2 DSP slices"},
        std::tuple{"lut", "1 LUT", "2 LUTs"}, std::tuple{"ff", "1 flip-flop", "2 flip-flops"},
        std::tuple{"bram36_with_0", "1 block of block RAM", "2 blocks of block RAM"},
        std::tuple{"bram36_with_8", "1 block of block RAM, each UltraRAM counted as 8",
                   "2 blocks of block RAM, each UltraRAM counted as 8"}}) {
    EXPECT_EQ(amount_text(resource, 0.5), one);
    EXPECT_EQ(amount_text(resource, 2), several);
  }
}

}  // namespace
}  // namespace millrace
