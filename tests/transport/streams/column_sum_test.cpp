#include "transport/streams/column_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"
#include "transport/streams/agreement.h"

namespace millrace {
namespace {

using testing::Each;
using testing_support::outcomes_on_threads;

// What rank r holds: of very different sizes, so that the order of a sum shows in its last bits.
template <typename T>
std::vector<T> values_of(int64_t rank, size_t count) {
  const Philox draw(static_cast<uint64_t>(rank) + 1, 5);
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(std::ldexp(draw.normal(i), static_cast<int>(draw.below(i, 30))));
  return values;
}

template <typename T>
void check_sums(int64_t ranks, size_t count, size_t piece_bytes, int64_t credits) {
  std::vector<T> expected = values_of<T>(0, count);
  for (int64_t r = 1; r < ranks; ++r) {
    const std::vector<T> next = values_of<T>(r, count);
    for (size_t i = 0; i < count; ++i) expected[i] = expected[i] + next[i];
  }
  LocalHub hub(ranks);
  const auto outcomes = outcomes_on_threads(ranks, [&](int64_t rank) {
    Transport column(hub.wire(rank));
    column.open(ColumnSum::flows(ranks, piece_bytes, credits));
    ColumnSum sum(column);
    for (int64_t round = 0; round < 3; ++round) {
      std::vector<T> values = values_of<T>(rank, count);
      sum.add_up(std::span(values), round);
      EXPECT_TRUE(values.empty() || std::memcmp(values.data(), expected.data(), count * sizeof(T)) == 0)
          << ranks << " ranks, " << count << " values, rank " << rank;
    }
    Agreement(column).close();
    // Every link carries every element once each way.
    if (rank + 1 < ranks) {
      EXPECT_EQ(column.counters(2 * rank).sent.bytes, static_cast<int64_t>(3 * count * sizeof(T)));
      EXPECT_EQ(column.counters(2 * rank + 1).received.bytes, static_cast<int64_t>(3 * count * sizeof(T)));
    }
  });
  EXPECT_THAT(outcomes, Each(""));
}

TEST(ColumnSum, AddsInTheOrderOfTheRanksBitByBit) {
  for (const int64_t ranks : {1, 2, 3, 5})
    for (const size_t count : std::vector<size_t>{0, 1, 999, 1000, 1001, 20'003}) {
      check_sums<float>(ranks, count, 4000, 2);
      check_sums<double>(ranks, count, 8000, 1);
    }
  check_sums<float>(3, 300'000, ColumnSum::kPieceBytes, 4);
}

TEST(ColumnSum, ANanOfOneReplicaReachesAll) {
  LocalHub hub(3);
  const auto outcomes = outcomes_on_threads(3, [&](int64_t rank) {
    Transport column(hub.wire(rank));
    column.open(ColumnSum::flows(3));
    std::vector<double> values = {1, rank == 1 ? std::numeric_limits<double>::quiet_NaN() : 1, std::numeric_limits<double>::infinity()};
    ColumnSum(column).add_up(std::span(values), 0);
    EXPECT_EQ(values[0], 3);
    EXPECT_TRUE(std::isnan(values[1]));
    EXPECT_TRUE(std::isinf(values[2]));
    Agreement(column).close();
  });
  EXPECT_THAT(outcomes, Each(""));
}

// The rank in the middle looks for the next sum from below, and a total came with its last look at the wire.
TEST(ColumnSum, WhatCameLastIsNotSleptOver) {
  LocalHub hub(3);
  std::vector<std::unique_ptr<Transport>> columns;
  std::vector<std::unique_ptr<ColumnSum>> sums;
  std::vector<std::vector<float>> values;
  for (int64_t rank = 0; rank < 3; ++rank) {
    columns.push_back(std::make_unique<Transport>(hub.wire(rank)));
    columns.back()->open(ColumnSum::flows(3, /*piece_bytes=*/4000, /*credits=*/2));
    sums.push_back(std::make_unique<ColumnSum>(*columns.back()));
    values.push_back(values_of<float>(rank, 4000));
  }
  for (size_t rank = 0; rank < 3; ++rank) sums[rank]->begin(std::span(values[rank]), 0);
  // A wait for what the rank looks for would end at once.
  const auto goes_on = [&](size_t rank) {
    std::vector<Interest> missing;
    sums[rank]->look(missing);
    return std::ranges::any_of(missing, [&](const Interest& interest) { return columns[rank]->ready(interest); });
  };
  EXPECT_FALSE(sums[0]->advance());  // two of four pieces leave
  EXPECT_FALSE(sums[1]->advance());  // and arrive at the end
  EXPECT_TRUE(goes_on(1));
  EXPECT_FALSE(sums[1]->advance());  // both go on up
  EXPECT_FALSE(goes_on(1));
  EXPECT_FALSE(sums[2]->advance());
  EXPECT_TRUE(goes_on(2));
  EXPECT_FALSE(sums[2]->advance());  // both totals leave
  EXPECT_FALSE(sums[1]->advance());  // and arrive at the end, while the third sum is lacking
  EXPECT_TRUE(goes_on(1));
}

TEST(ColumnSum, ReplicasThatAddUpDifferentThingsAreTold) {
  LocalHub hub(2);
  const auto outcomes = outcomes_on_threads(2, [&](int64_t rank) {
    Transport column(hub.wire(rank), {.deadline = std::chrono::seconds(2)});
    column.open(ColumnSum::flows(2));
    std::vector<float> values(rank == 0 ? 10 : 11);
    ColumnSum(column).add_up(std::span(values), 7);
  });
  EXPECT_THAT(outcomes[1], testing::HasSubstr("40 bytes arrived for micro-batch 7 where 44 were due"));
}

}  // namespace
}  // namespace millrace
