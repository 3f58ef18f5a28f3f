// Who deals devices in turns when nobody says: a function of plan and places.
#include "deploy/session/ring_deal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

Plan plan_of(int64_t devices, Alignment alignment) {
  Plan plan;
  plan.cluster.devices.resize(static_cast<size_t>(devices));
  plan.alignment = alignment;
  return plan;
}

TEST(RingDeal, TurnsWhereADrainingRingHasSeveralDevicesPerRankOnOneHost) {
  const RankPlaces two{.ranks = 2, .hosts = 1, .replicas = 1, .on_processors = true};
  const auto with = [&](auto change) {
    RankPlaces places = two;
    change(places);
    return chosen_deal("auto", plan_of(8, Alignment::kFlush), places);
  };
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble})
    EXPECT_EQ(chosen_deal("", plan_of(8, alignment), two), Deal::kTurns);
  EXPECT_EQ(chosen_deal("", plan_of(8, Alignment::kFpdeep), two), Deal::kBlocks);
  EXPECT_EQ(chosen_deal("", plan_of(8, Alignment::kStash), two), Deal::kBlocks);
  EXPECT_EQ(chosen_deal("", plan_of(3, Alignment::kFlush), two), Deal::kBlocks);
  EXPECT_EQ(with([](RankPlaces& places) { places.ranks = 1; }), Deal::kBlocks);
  EXPECT_EQ(with([](RankPlaces& places) { places.hosts = 2; }), Deal::kBlocks);
  EXPECT_EQ(with([](RankPlaces& places) { places.replicas = 2; }), Deal::kBlocks);
  EXPECT_EQ(with([](RankPlaces& places) { places.on_processors = false; }), Deal::kBlocks);
}

TEST(RingDeal, IsWhatWasAskedFor) {
  EXPECT_EQ(chosen_deal("turns", plan_of(8, Alignment::kFpdeep), {.ranks = 2, .hosts = 2}), Deal::kTurns);
  EXPECT_EQ(chosen_deal("blocks", plan_of(8, Alignment::kFlush), {.ranks = 2, .on_processors = true}), Deal::kBlocks);
  expect_error(ErrorCode::kUsage, "--deal", [] { check_deal("cards"); });
  expect_error(ErrorCode::kUsage, "one rank", [] { chosen_deal("turns", plan_of(8, Alignment::kFlush), {}); });
}

}  // namespace
}  // namespace millrace
