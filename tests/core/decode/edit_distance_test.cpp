// The edit distance, held against the recursion that defines it.
#include "core/decode/edit_distance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"

namespace millrace {
namespace {

using Row = std::vector<int32_t>;

int64_t by_definition(const int32_t* a, size_t n, const int32_t* b, size_t m) {
  if (n == 0 || m == 0) return static_cast<int64_t>(n + m);
  const int64_t replaced = by_definition(a + 1, n - 1, b + 1, m - 1) + (*a == *b ? 0 : 1);
  return std::min({replaced, by_definition(a + 1, n - 1, b, m) + 1, by_definition(a, n, b + 1, m - 1) + 1});
}

Row random_row(const Philox& draw, uint64_t first) {
  Row row(draw.below(first, 7));
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<int32_t>(draw.below(first + 1 + i, 3));
  return row;
}

TEST(EditDistance, IsTheFewestEdits) {
  const Philox draw(1, 1);
  for (uint64_t i = 0; i < 300; ++i) {
    const Row a = random_row(draw, 40 * i), b = random_row(draw, 40 * i + 20);
    EXPECT_EQ(edit_distance(a, b), by_definition(a.data(), a.size(), b.data(), b.size()));
    EXPECT_EQ(edit_distance(a, b), edit_distance(b, a));
    EXPECT_EQ(edit_distance(a, a), 0);
  }
}

TEST(EditDistance, OfNothing) {
  EXPECT_EQ(edit_distance(Row{}, Row{}), 0);
  EXPECT_EQ(edit_distance(Row{1, 2, 3}, Row{}), 3);
}

TEST(CharacterErrors, AreRatedOverAllLabels) {
  CharacterErrors errors;
  EXPECT_EQ(errors.rate(), 0);
  errors.add(1, 10);
  errors.add(3, 10);
  EXPECT_DOUBLE_EQ(errors.rate(), 0.2);
  CharacterErrors nothing_to_say;
  nothing_to_say.add(4, 0);
  EXPECT_EQ(nothing_to_say.rate(), 4);
}

}  // namespace
}  // namespace millrace
