#include <gmock/gmock.h>

#include <atomic>
#include <set>

#include "core/base/error.h"
#include "partitioner/study/parallel.h"
#include "partitioner/study/study.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Counts, AreRangesNumbersAndLists) {
  EXPECT_THAT(parse_counts("5:25:5"), ElementsAre(5, 10, 15, 20, 25));
  EXPECT_THAT(parse_counts("5:24:5"), ElementsAre(5, 10, 15, 20));
  EXPECT_THAT(parse_counts("3:6"), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(parse_counts("8"), ElementsAre(8));
  EXPECT_THAT(parse_counts("16,4,8,4"), ElementsAre(4, 8, 16));
  EXPECT_THAT(parse_counts("1:4,8:16:4,100"), ElementsAre(1, 2, 3, 4, 8, 12, 16, 100));
  EXPECT_THAT(parse_counts("7:7"), ElementsAre(7));
  EXPECT_EQ(parse_counts("1:4096").size(), 4096u);
}

TEST(Counts, SayWhatIsWrong) {
  const auto complaint = [](const char* text) -> std::string {
    try {
      parse_counts(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint(""), HasSubstr("not a whole number"));
  EXPECT_THAT(complaint("five"), HasSubstr("\"five\" is not a whole number"));
  EXPECT_THAT(complaint("5:"), HasSubstr("not a whole number"));
  EXPECT_THAT(complaint("5,,6"), HasSubstr("not a whole number"));
  EXPECT_THAT(complaint("5.5"), HasSubstr("not a whole number"));
  EXPECT_THAT(complaint("1:2:3:4"), HasSubstr("FROM:TO"));
  EXPECT_THAT(complaint("9:5"), HasSubstr("backwards"));
  EXPECT_THAT(complaint("0"), HasSubstr("1 to 4096"));
  EXPECT_THAT(complaint("-3"), HasSubstr("1 to 4096"));
  EXPECT_THAT(complaint("1:5:0"), HasSubstr("1 to 4096"));
  EXPECT_THAT(complaint("4097"), HasSubstr("1 to 4096"));
  EXPECT_THAT(complaint("99999999999999999999"), HasSubstr("1 to 4096"));
}

TEST(Parallel, TakesEveryTurnOnce) {
  for (const int threads : {-1, 1, 2, 7, 100}) {
    std::vector<std::atomic<int>> taken(50);
    for_each_in_parallel(taken.size(), threads, [&](size_t i) { ++taken[i]; });
    for (const auto& count : taken) EXPECT_EQ(count, 1);
  }
  for_each_in_parallel(0, 4, [](size_t) { FAIL(); });
}

TEST(Parallel, ThrowsTheErrorOfTheEarliestTurn) {
  for (int trial = 0; trial < 20; ++trial) {
    try {
      for_each_in_parallel(100, 4, [](size_t i) {
        if (i >= 3) fail(ErrorCode::kUsage, "turn {}", i);
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "turn 3");
    }
  }
}

}  // namespace
}  // namespace millrace
