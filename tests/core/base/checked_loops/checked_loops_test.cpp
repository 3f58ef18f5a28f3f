// Indices of inner loops as builds for debugging and with sanitizers have them: checked. A program of its own, since no other may see them
// so in a release.
#ifndef MILLRACE_CHECKED_LOOPS
#define MILLRACE_CHECKED_LOOPS
#endif
#include <gtest/gtest.h>

#include <vector>

#include "core/base/index.h"

namespace millrace {
namespace {

TEST(CheckedLoops, EndWhereAnIndexIsOutside) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<int> values(3);
  fast_item(values, int64_t{2}) = 5;
  EXPECT_EQ(values[2], 5);
  EXPECT_DEATH((void)fast_item(values, int64_t{3}), "checked_loops_test.cpp.*index 3 of 3");
  EXPECT_DEATH((void)fast_item(values, -1), "checked_loops_test.cpp.*index -1 of 3");
}

}  // namespace
}  // namespace millrace
