#include "fpga/common/cost/clock_time.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {

TEST(ClockTime, PicosecondsAreRoundedUpExactly) {
  EXPECT_EQ(picoseconds_of(0, 200'000'000), 0);
  EXPECT_EQ(picoseconds_of(7, 200'000'000), 35'000);
  EXPECT_EQ(picoseconds_of(3, 333'333'333), 9'001);  // 9000.000009
  EXPECT_EQ(picoseconds_of(int64_t{1} << 50, 200'000'000), (int64_t{1} << 50) * 5'000);
  EXPECT_EQ(picoseconds_of(int64_t{1} << 50, 3), std::numeric_limits<int64_t>::max());
}

}  // namespace millrace
