// Cells divided among boards: as fast as the best of all divisions.
#include "partitioner/baseline/unit_split.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace millrace::unit_split {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double seconds_of(const UnitSplit& split, const std::vector<int64_t>& cuts) {
  int64_t most = 0;
  for (size_t b = 0; b < split.boards; ++b) most = std::max(most, cuts[b + 1] - cuts[b]);
  double seconds = 0;
  for (size_t b = 0; b < split.boards; ++b) seconds = std::max(seconds, split.seconds(b, cuts[b + 1] - cuts[b]) + split.exchange(b, most));
  for (const LinkLine& line : split.links) seconds = std::max(seconds, line.base + line.slope * static_cast<double>(cuts[line.link + 1]));
  return seconds;
}

double least(const UnitSplit& split, std::vector<int64_t>& cuts) {
  if (cuts.size() == split.boards) {
    cuts.push_back(split.cells);
    const double seconds = seconds_of(split, cuts);
    cuts.pop_back();
    return seconds;
  }
  double best = kNever;
  const auto left = static_cast<int64_t>(split.boards - cuts.size());
  for (int64_t cut = cuts.back() + 1; cut + left <= split.cells; ++cut) {
    cuts.push_back(cut);
    best = std::min(best, least(split, cuts));
    cuts.pop_back();
  }
  return best;
}

TEST(UnitSplit, IsTheBestOfAllDivisions) {
  int64_t none = 0, uneven = 0, by_links = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
    UnitSplit split;
    split.cells = draw(2, 14);
    split.boards = static_cast<size_t>(draw(2, std::min<int64_t>(4, split.cells)));
    // Stairs that never fall, and end where the board is full.
    std::vector<std::vector<double>> stairs(split.boards);
    for (auto& stair : stairs) {
      double seconds = 1e-6 * static_cast<double>(draw(1, 40));
      const int64_t full = draw(0, 1) == 0 ? draw(1, 1 + split.cells / 2) : split.cells;
      for (int64_t units = 1; units <= split.cells; ++units) {
        if (draw(0, 2) == 0) seconds += 1e-7 * static_cast<double>(draw(0, 50));
        stair.push_back(units <= full ? seconds : kNever);
      }
    }
    split.seconds = [&](size_t board, int64_t units) { return units < 1 ? 0 : stairs[board][static_cast<size_t>(units - 1)]; };
    std::vector<double> latency, rate;
    for (size_t b = 0; b < split.boards; ++b) {
      latency.push_back(1e-7 * static_cast<double>(draw(0, 30)));
      rate.push_back(1e-8 * static_cast<double>(draw(0, 40)));
    }
    split.exchange = [&](size_t board, int64_t most) { return latency[board] + rate[board] * static_cast<double>(most); };
    for (size_t l = 0; l + 1 < split.boards; ++l)
      for (int64_t lines = draw(0, 2); lines > 0; --lines)
        split.links.push_back({l, 1e-7 * static_cast<double>(draw(0, 400)), 1e-7 * static_cast<double>(draw(-30, 30))});
    std::vector<int64_t> cuts = {0};
    const double best = least(split, cuts);
    const auto found = best_split(split);
    ASSERT_EQ(found.has_value(), best < kNever) << "seed " << seed;
    if (!found) {
      ++none;
      continue;
    }
    ASSERT_NEAR(found->seconds, best, 1e-11 * best) << "seed " << seed;
    ASSERT_EQ(found->units.front().begin, 0);
    ASSERT_EQ(found->units.back().end, split.cells);
    cuts = {0};
    for (const ChannelRange& range : found->units) {
      ASSERT_EQ(range.begin, cuts.back());
      cuts.push_back(range.end);
    }
    ASSERT_EQ(seconds_of(split, cuts), found->seconds);
    uneven += found->units.front().size() > found->units.back().size() + 1 ? 1 : 0;
    UnitSplit free = split;
    free.links.clear();
    by_links += best_split(free)->seconds < found->seconds ? 1 : 0;
  }
  EXPECT_GT(none, 100);
  EXPECT_GT(uneven, 300);
  EXPECT_GT(by_links, 300);
}

// More than one board fits without the links, and none with them; fewer cells than boards.
TEST(UnitSplit, SaysNothingWhereNothingFits) {
  UnitSplit split{.cells = 2, .boards = 3, .seconds = {}, .exchange = {}, .links = {}};
  EXPECT_FALSE(best_split(split));
  split.cells = 8;
  split.seconds = [](size_t, int64_t units) { return units > 2 ? kNever : 1e-6; };
  split.exchange = [](size_t, int64_t) { return 0.0; };
  EXPECT_FALSE(best_split(split));
}

}  // namespace
}  // namespace millrace::unit_split
