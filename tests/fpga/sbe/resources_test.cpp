// Blocks as they are reached: the paper's design on its board, beside its own equation, which counts bits.
#include "fpga/sbe/resources.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/fpga/sbe/random_engines.h"

namespace millrace {
namespace {

const SbeBoard kZynq{.name = "zc706",
                     .dsp = 900,
                     .lut = 218600,
                     .lutram_lut = 70400,
                     .bram36 = 545,
                     .bytes_per_second = 0.85 * 12.8e9,
                     .clock_hz = 125e6,
                     .bus_bits = 256};

SbeConfig paper_with(int64_t blocks, bool one_memory) {
  return {.shape = {1792, 256, 4}, .row_lanes = 1024, .block_chunks = 2048 / blocks, .one_weight_memory = one_memory, .steps = 64};
}

}  // namespace

TEST(SbeResources, ThePapersDesign) {
  EXPECT_EQ(kZynq.words_per_cycle(), 16);
  EXPECT_DOUBLE_EQ(sbe_use(paper_with(4, false), kZynq).bram36, 559.5);
  EXPECT_DOUBLE_EQ(sbe_use(paper_with(4, true), kZynq).bram36, 527.5);
  EXPECT_DOUBLE_EQ(sbe_use(paper_with(8, false), kZynq).bram36, 544.5);
  EXPECT_DOUBLE_EQ(sbe_use(paper_with(8, true), kZynq).bram36, 288.5);
  EXPECT_DOUBLE_EQ(sbe_use(paper_with(16, false), kZynq).bram36, 537.0);
  EXPECT_DOUBLE_EQ(sbe_use(paper_with(16, true), kZynq).bram36, 281.0);
  EXPECT_DOUBLE_EQ(sbe_use(paper_with(32, true), kZynq).bram36, 277.5);
}

// 16,384 bits a cycle: 64 banks of a beat of 256 bits, each of eight half blocks up to 512 deep, however few columns a block has.
TEST(SbeResources, WidthDecidesBeforeBitsDo) {
  for (const int64_t blocks : {8, 16, 32, 64}) EXPECT_EQ(sbe_use(paper_with(blocks, true), kZynq).weights, 512) << blocks;
  EXPECT_EQ(sbe_use(paper_with(4, true), kZynq).weights, 960);  // 1,024 deep: bits decide again
}

TEST(SbeResources, SumsLeaveLutramBeyondSixtyFour) {
  EXPECT_NEAR(sbe_use(paper_with(16, true), kZynq).lutram_lut, 43'690, 1);
  SbeConfig more = paper_with(16, true);
  more.steps = 128;
  EXPECT_EQ(sbe_use(more, kZynq).lutram_lut, 0);
  EXPECT_EQ(sbe_use(more, kZynq).sums / 2, 455.5);
}

TEST(SbeResources, WhatExceedsTheSlicesIsBuiltOfLuts) {
  const SbeUse use = sbe_use(paper_with(16, true), kZynq);
  EXPECT_EQ(use.dsp, 900);
  EXPECT_EQ(use.fabric_multipliers, 1024 + 16 - 900);
  EXPECT_NEAR(use.lut, 140 * 288 + 43'690 + 4 * 512 + 900, 1);
  EXPECT_TRUE(use.fits(kZynq));
}

TEST(SbeResources, WhatIsMissingIsNamed) {
  const std::vector<Lack> lacks = sbe_use(paper_with(4, false), kZynq).lacks(kZynq);
  ASSERT_EQ(lacks.size(), 1U);
  EXPECT_EQ(lacks[0].resource, "bram36");
  EXPECT_DOUBLE_EQ(lacks[0].wanted - lacks[0].there, 14.5);
}

// No memory holds fewer bits than its blocks have, and every multiplier is somewhere.
TEST(SbeResources, BlocksHoldWhatTheyMust) {
  testing_support::Dice dice(5);
  for (int i = 0; i < 500; ++i) {
    const SbeConfig config = testing_support::random_engine(dice);
    const SbeUse use = sbe_use(config, kZynq);
    const int64_t pinned = config.pinned == Pinned::kNone     ? 0
                           : config.pinned == Pinned::kHidden ? config.hidden_chunks()
                                                              : config.hidden_chunks() + config.input_chunks();
    const int64_t kept = pinned + (config.pinned == Pinned::kAll ? 0 : config.slots * config.block_chunks);
    ASSERT_GE(use.weights * 18'432, static_cast<double>(kept * config.groups() * config.multipliers() * 16));
    ASSERT_EQ(use.dsp + static_cast<double>(use.fabric_multipliers),
              static_cast<double>(config.multipliers() + config.shape.projection * config.tail_units + 4 * config.tail_units));
    ASSERT_GE(use.projection * 18'432, static_cast<double>(config.shape.projection * config.shape.hidden * 16));
    ASSERT_DOUBLE_EQ(use.bram36, (use.weights + use.inputs + use.hidden + use.cells + use.outputs + use.sums + use.projection) / 2);
    ASSERT_EQ(use.fits(kZynq), use.lacks(kZynq).empty());
  }
}

}  // namespace millrace
