// What a ring lacks, in words.
#include "partitioner/hybrid/shortage_text.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(amount_text("dsp", 0.25), "1 DSP slices");
}

}  // namespace
}  // namespace millrace
