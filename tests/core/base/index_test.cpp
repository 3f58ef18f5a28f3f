// Checked indices and sizes: core/base/index.h.
#include "core/base/index.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace millrace {
namespace {

TEST(Index, FindsElementsByAnyIntegerOfAnyContainer) {
  std::vector<int> values{7, 8, 9};
  item(values, int64_t{1}) = 5;
  EXPECT_EQ(item(values, 1), 5);
  EXPECT_EQ(item(std::span<const int>(values), int8_t{2}), 9);
  EXPECT_EQ(item(std::array{1, 2}, uint64_t{0}), 1);
  constexpr const char* kNames[] = {"none", "some"};
  enum class Amount { kNone, kSome };
  EXPECT_STREQ(item(kNames, Amount::kSome), "some");
  EXPECT_EQ(to_size(int64_t{3}), values.size());
}

TEST(Index, NamesIndexAndPlaceOfWhatIsNotThere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<int> values(3);
  EXPECT_DEATH((void)item(values, -1), "index_test.cpp.*index -1 of 3");
  EXPECT_DEATH((void)item(values, int64_t{3}), "index_test.cpp.*index 3 of 3");
  EXPECT_DEATH((void)item(values, int64_t{1} << 32), "index 4294967296 of 3");
  EXPECT_DEATH((void)to_size(int64_t{-2}), "index_test.cpp.*a size of -2");
}

TEST(Index, InnerLoopsFindTheSame) {
  std::vector<int> values{7, 8, 9};
  fast_item(values, int64_t{1}) = 5;
  EXPECT_EQ(fast_item(values, 1), 5);
  EXPECT_EQ(fast_item(std::array{1, 2}, uint64_t{0}), 1);
}

}  // namespace
}  // namespace millrace
