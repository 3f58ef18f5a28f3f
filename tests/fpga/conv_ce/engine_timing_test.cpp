#include "fpga/conv_ce/engine_timing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {

TEST(EngineTiming, TheFewestTilesThatKeepUp) {
  for (int64_t work = 1; work <= 60; ++work)
    for (int64_t units = 1; units <= 5; ++units)
      for (int64_t cycles = units; cycles <= 200; cycles += 7) {
        int64_t tiles = 1;
        while ((work + tiles - 1) / tiles > cycles / units) ++tiles;
        const EngineSize size = engine_for({units, work}, static_cast<double>(cycles));
        ASSERT_EQ(size.tiles, tiles) << work << " in " << cycles << "/" << units;
        ASSERT_EQ(cycles_per_unit({units, work}, size), (work + tiles - 1) / tiles);
        ASSERT_TRUE(size.keeps_up);
      }
}

TEST(EngineTiming, FractionsOfACycleDoNotCount) {
  EXPECT_EQ(engine_for({3, 10}, 8.99).tiles, 5);  // two cycles a row
  EXPECT_EQ(engine_for({3, 10}, 9.0).tiles, 4);
}

TEST(EngineTiming, BelowOneCycleARowNothingKeepsUp) {
  const EngineSize size = engine_for({100, 40}, 99);
  EXPECT_FALSE(size.keeps_up);
  EXPECT_EQ(size.tiles, 40);
  EXPECT_EQ(cycles_per_unit({100, 40}, size), 1);
}

TEST(EngineTiming, NoWorkIsNoEngine) {
  EXPECT_EQ(engine_for({100, 0}, 1e6).tiles, 0);
  EXPECT_TRUE(engine_for({100, 0}, 0).keeps_up);
}

TEST(EngineTiming, EndlessPeriodsAndHugeLayersStayInRange) {
  const int64_t huge = int64_t{1} << 50;
  EXPECT_EQ(engine_for({1, huge}, std::numeric_limits<double>::infinity()).tiles, 1);
  EXPECT_EQ(cycles_per_unit({1, huge}, {.tiles = 1}), huge);
  EXPECT_EQ(engine_for({1, huge}, 1).tiles, huge);
}

TEST(EngineTiming, TilesLieInARectangleThatHoldsThem) {
  for (const int64_t within : {1, 3, 16, 1000}) {
    int64_t before = 0;
    for (int64_t tiles = 1; tiles <= 2000; ++tiles) {
      const int64_t other = channels_side_by_side(tiles, within);
      const auto side = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(tiles))));
      EXPECT_GE(other * std::min(side, within), tiles);
      EXPECT_GE(other, before) << tiles << " tiles, " << within << " channels";
      before = other;
    }
  }
  EXPECT_EQ(channels_side_by_side(9, 100), 3);
  EXPECT_EQ(channels_side_by_side(12, 3), 4);
  EXPECT_EQ(channels_side_by_side(0, 3), 0);
}

}  // namespace millrace
