// Parts of an amount: held against counting them, and at the ends of what an integer holds.
#include "fpga/common/arithmetic/divided_up.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

TEST(DividedUp, CountsPartsUntilAllIsTaken) {
  for (int64_t parts = 1; parts <= 9; ++parts)
    for (int64_t amount = -20; amount <= 50; ++amount) {
      int64_t count = 0;
      while (count * parts < amount) ++count;
      EXPECT_EQ(divided_up(amount, parts), count) << amount << " in parts of " << parts;
      EXPECT_EQ(rounded_up(amount, parts), count * parts) << amount << " in parts of " << parts;
    }
}

TEST(DividedUp, DoesNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(divided_up(kMost, 2), kMost / 2 + 1);
  EXPECT_EQ(divided_up(kMost, kMost), 1);
  EXPECT_EQ(divided_up(std::numeric_limits<int64_t>::min(), 3), 0);
}

}  // namespace
}  // namespace millrace
