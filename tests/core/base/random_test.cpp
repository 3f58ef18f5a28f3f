#include "core/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace millrace {
namespace {

// The published known answers of Philox 4x32-10 (Random123's kat_vectors).
TEST(Philox, GivesThePublishedAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox(0, 0).block(0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(0xffffffffffffffff, 0xffffffffffffffff).block(0xffffffffffffffff),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0: digits of pi.
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x0370734413198a2e).block(0x85a308d3243f6a88),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ElementsAreTheWordsOfTheirBlock) {
  const Philox draw(3, 4);
  for (uint64_t element = 0; element < 40; ++element) EXPECT_EQ(draw.bits(element), draw.block(element / 4)[element % 4]);
}

TEST(Philox, UniformAndNormalHaveTheirMoments) {
  const Philox draw(1, stream_id("test"));
  constexpr int kCount = 200'000;
  double uniform = 0;
  double normal = 0;
  double squares = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const float u = draw.uniform(i);
    ASSERT_GE(u, 0.0F);
    ASSERT_LT(u, 1.0F);
    uniform += static_cast<double>(u);
    const double z = draw.normal(i);
    normal += z;
    squares += z * z;
  }
  EXPECT_NEAR(uniform / kCount, 0.5, 0.003);
  EXPECT_NEAR(normal / kCount, 0.0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0, 0.01);
}

TEST(Philox, BelowStaysBelowAndReachesEverything) {
  const Philox draw(9, 9);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 400; ++i) seen.insert(draw.below(i, 7));
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(StreamId, TellsPurposesAndNamesApart) {
  EXPECT_NE(stream_id("dropout", "a"), stream_id("dropout", "b"));
  EXPECT_NE(stream_id("dropout", "a"), stream_id("weight", "a"));
  EXPECT_NE(stream_id("ab", "c"), stream_id("a", "bc"));
  EXPECT_EQ(stream_id("dropout", "a"), stream_id("dropout", "a"));
}

TEST(ShuffledIndices, AreAPermutationThatFollowsItsArguments) {
  const auto a = shuffled_indices(1000, 1, 2);
  auto sorted = a;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<int64_t>(i));
  EXPECT_EQ(a, shuffled_indices(1000, 1, 2));
  EXPECT_NE(a, shuffled_indices(1000, 1, 3));
  EXPECT_NE(a, shuffled_indices(1000, 2, 2));
  EXPECT_TRUE(shuffled_indices(0, 1, 1).empty());
}

}  // namespace
}  // namespace millrace
