// The schedule function: literal lists for small cases, and the definitions of core/plan/schedule.h as properties over
// a sweep of (alignment, n, w, mini-batches).
#include "core/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/error.h"

namespace millrace {
namespace {

std::string list(Alignment alignment, int64_t n, int64_t w, int64_t mini_batches, int64_t ring_window = 0, int32_t chunks = 1) {
  return text_of(actions_of({.alignment = alignment,
                             .micro_batches = n,
                             .window = w,
                             .ring_window = ring_window,
                             .mini_batches = mini_batches,
                             .chunks = chunks}));
}

TEST(Schedule, FpdeepKeepsTheWindowFullAcrossUpdates) {
  EXPECT_EQ(list(Alignment::kFpdeep, 2, 3, 2), "F0 F1 F2 E0 G0 F3 E1 G1 U0 E2 G2 E3 G3 U1");
  EXPECT_EQ(list(Alignment::kFpdeep, 2, 1, 2), "F0 E0 G0 F1 E1 G1 U0 F2 E2 G2 F3 E3 G3 U1");
}

TEST(Schedule, FlushRunsAllForwardsFirst) { EXPECT_EQ(list(Alignment::kFlush, 3, 3, 1), "F0 F1 F2 E0 G0 E1 G1 E2 G2 U0"); }

TEST(Schedule, OneForwardOneBackwardAlternatesAndDrains) {
  EXPECT_EQ(list(Alignment::kOneForwardOneBackward, 4, 2, 1), "F0 F1 E0 G0 F2 E1 G1 F3 E2 G2 E3 G3 U0");
}

TEST(Schedule, ZeroBubbleDelaysGradientsWithinTheRingWindow) {
  EXPECT_EQ(list(Alignment::kZeroBubble, 4, 2, 1, 3), "F0 F1 E0 F2 E1 G0 F3 E2 G1 E3 G2 G3 U0");
}

TEST(Schedule, ChunksAscendForwardAndDescendBackward) {
  EXPECT_EQ(list(Alignment::kFlush, 1, 1, 1, 0, 3), "F0.0 F0.1 F0.2 E0.2 E0.1 E0.0 G0.2 G0.1 G0.0 U0");
}

TEST(Schedule, EvaluationFollowsItsUpdateAndDrainsNothing) {
  EXPECT_EQ(text_of(actions_of({.alignment = Alignment::kFpdeep,
                                .micro_batches = 1,
                                .window = 2,
                                .mini_batches = 3,
                                .evaluate_after = {0},
                                .evaluation_micro_batches = 2})),
            "F0 F1 E0 G0 U0 V0 V1 F2 E1 G1 U1 E2 G2 U2");
}

TEST(Schedule, TextIsReadBack) {
  const auto actions =
      actions_of({.alignment = Alignment::kZeroBubble, .micro_batches = 5, .window = 2, .ring_window = 4, .mini_batches = 2, .chunks = 2});
  const auto read = parse_actions(text_of(actions));
  ASSERT_EQ(read.size(), actions.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].kind, actions[i].kind);
    EXPECT_EQ(read[i].index, actions[i].index);
    EXPECT_EQ(read[i].chunk, actions[i].chunk);
  }
}

TEST(Schedule, BadTextIsNamed) {
  for (const char* text : {"F", "X3", "F-1", "F3x", "F3.", "F3.-1", "F99999999999999999999"}) {
    try {
      parse_actions(std::string("E0 ") + text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMalformed);
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  }
}

TEST(Schedule, ImpossibleSpecsAreRefused) {
  EXPECT_THROW(actions_of({.alignment = Alignment::kFpdeep, .micro_batches = 2, .window = 4}), Error);
  EXPECT_THROW(actions_of({.micro_batches = 0}), Error);
  EXPECT_THROW(actions_of({.micro_batches = 1, .window = 0}), Error);
}

struct Case {
  Alignment alignment;
  int64_t n, w, mini_batches;
};

std::vector<Case> sweep() {
  std::vector<Case> cases;
  for (const Alignment alignment :
       {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash, Alignment::kZeroBubble})
    for (int64_t n = 1; n <= 6; ++n)
      for (int64_t w = 1; w <= n + 1; ++w)
        for (int64_t m = 1; m <= 4; ++m) cases.push_back({alignment, n, w, m});
  return cases;
}

ScheduleSpec spec_of(const Case& c) {
  return {.alignment = c.alignment, .micro_batches = c.n, .window = c.w, .ring_window = c.n, .mini_batches = c.mini_batches};
}

TEST(ScheduleProperties, EveryMicroBatchGoesForwardBackAndIntoAnUpdateOnceInOrder) {
  for (const Case& c : sweep()) {
    const ScheduleSpec spec = spec_of(c);
    std::map<ActionKind, int64_t> next;
    std::set<int64_t> forwarded, erred;
    for (const Action& action : actions_of(spec)) {
      EXPECT_EQ(action.index, next[action.kind]++) << text_of(action);  // ascending, so sums are too
      if (action.kind == ActionKind::kForward) forwarded.insert(action.index);
      if (action.kind == ActionKind::kErrorBack) {
        EXPECT_TRUE(forwarded.contains(action.index));
        erred.insert(action.index);
      }
      if (action.kind == ActionKind::kParameterGradient) {
        EXPECT_TRUE(erred.contains(action.index));
      }
      if (action.kind == ActionKind::kUpdate) {
        EXPECT_EQ(next[ActionKind::kParameterGradient], (action.index + 1) * c.n);
      }
    }
    EXPECT_EQ(next[ActionKind::kForward], c.n * c.mini_batches);
    EXPECT_EQ(next[ActionKind::kParameterGradient], c.n * c.mini_batches);
    EXPECT_EQ(next[ActionKind::kUpdate], c.mini_batches);
  }
}

TEST(ScheduleProperties, VersionsAreTheUpdatesSeenSoFar) {
  for (const Case& c : sweep()) {
    const ScheduleSpec spec = spec_of(c);
    int64_t updates = 0;
    for (const Action& action : actions_of(spec)) {
      if (action.kind == ActionKind::kUpdate) {
        EXPECT_EQ(action.version, updates);
        ++updates;
      }
      if (action.kind == ActionKind::kForward) {
        EXPECT_EQ(action.version, updates) << "n=" << c.n << " w=" << c.w << " " << text_of(action);
        EXPECT_EQ(action.version, forward_version(spec, action.index));
      }
      if (action.kind == ActionKind::kErrorBack) {
        EXPECT_EQ(action.version, error_version(spec, action.index));
        if (c.alignment == Alignment::kStash)
          EXPECT_EQ(action.version, forward_version(spec, action.index));
        else
          EXPECT_EQ(action.version, updates);
        EXPECT_LT(updates - action.version, versions_held(spec));
      }
    }
  }
}

TEST(ScheduleProperties, InFlightStaysWithinTheWindow) {
  for (const Case& c : sweep()) {
    const ScheduleSpec spec = spec_of(c);
    const bool delayed = c.alignment == Alignment::kZeroBubble;
    int64_t in_flight = 0;
    int64_t most = 0;
    for (const Action& action : actions_of(spec)) {
      if (action.kind == ActionKind::kForward) most = std::max(most, ++in_flight);
      if (action.kind == (delayed ? ActionKind::kParameterGradient : ActionKind::kErrorBack)) --in_flight;
      if (drains(c.alignment) && action.kind == ActionKind::kUpdate) {
        EXPECT_EQ(in_flight, 0);
      }
    }
    const int64_t bound = c.alignment == Alignment::kFlush ? c.n : delayed ? c.n : c.w;
    EXPECT_LE(most, bound);
  }
}

TEST(ScheduleProperties, DrainedAlignmentsShareVersionsAndOrderOfGradients) {
  for (int64_t n = 1; n <= 6; ++n)
    for (int64_t w = 1; w <= n; ++w) {
      const auto gradients = [&](Alignment alignment) {
        std::vector<std::pair<int64_t, int64_t>> seen;
        for (const Action& action : actions_of(spec_of({alignment, n, w, 3})))
          if (action.kind == ActionKind::kParameterGradient) seen.push_back({action.index, action.version});
        return seen;
      };
      EXPECT_EQ(gradients(Alignment::kFlush), gradients(Alignment::kOneForwardOneBackward));
      EXPECT_EQ(gradients(Alignment::kFlush), gradients(Alignment::kZeroBubble));
    }
}

TEST(ScheduleProperties, RingsOfAnyLengthFinishWithoutDeadlock) {
  for (const Alignment alignment :
       {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash, Alignment::kZeroBubble})
    for (int64_t devices = 1; devices <= 7; ++devices)
      for (int64_t n = 1; n <= 8; n += 1) {
        const std::vector<int64_t> windows = default_windows(devices, alignment, n);
        std::vector<std::vector<Action>> lists;
        for (const int64_t w : windows)
          lists.push_back(actions_of({.alignment = alignment,
                                      .micro_batches = n,
                                      .window = w,
                                      .ring_window = windows.front(),
                                      .mini_batches = 3,
                                      .evaluate_after = {1},
                                      .evaluation_micro_batches = 2}));
        EXPECT_NO_THROW(check_schedule(lists));
        // One waiting message per link is enough for the alternating schedules; flush needs room for none either,
        // since the receiver runs its forwards as they come.
        const std::vector<int64_t> credits(static_cast<size_t>(devices), 1);
        EXPECT_NO_THROW(check_schedule(lists, credits)) << name_of(alignment) << " D=" << devices << " n=" << n;
      }
}

TEST(ScheduleCheck, NamesAMissingReceiveAndADeadlock) {
  const auto two = [](std::string_view up, std::string_view down) {
    return std::vector<std::vector<Action>>{parse_actions(up), parse_actions(down)};
  };
  try {
    check_schedule(two("F0 F1 E0 G0 E1 G1 U0", "F0 E0 G0 U0"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("device 0 has F1 where device 1 has nothing"));
  }
  try {
    check_schedule(two("F0 E0 G0 F1 E1 G1 U0", "F0 F1 E0 G0 E1 G1 U0"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("deadlocks"), testing::HasSubstr("device 0 at E0"),
                                             testing::HasSubstr("device 1 at F1")));
  }
}

TEST(ParameterPasses, FollowTheDefinition) {
  const auto passes = [](Alignment alignment, int64_t n, int64_t w) {
    return parameter_passes_per_mini_batch({.alignment = alignment, .micro_batches = n, .window = w});
  };
  // Each pass serves (E_s, F_{s+w}); an update between them costs one more.
  for (int64_t n = 1; n <= 5; ++n)
    for (int64_t w = 1; w <= n + 1; ++w) EXPECT_EQ(passes(Alignment::kFpdeep, n, w), n + 1);
  EXPECT_EQ(passes(Alignment::kFlush, 4, 4), 8);
  EXPECT_EQ(passes(Alignment::kOneForwardOneBackward, 4, 2), 6);
  // stash: E_s of the first w-1 of each mini-batch uses an older version than the F beside it.
  EXPECT_EQ(passes(Alignment::kStash, 4, 1), 5);
}

// Long mini-batches are counted on shorter ones; here they are counted action by action.
TEST(ParameterPasses, OfLongMiniBatchesAreThoseOfTheActions) {
  for (const Alignment alignment :
       {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble, Alignment::kFpdeep, Alignment::kStash})
    for (const int64_t n : {11, 12, 19, 29, 30, 47})
      for (const int64_t w : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, n - 1, n, n + 1})
        for (const int64_t ring : {int64_t{0}, w, w + 2})
          for (const int32_t chunks : {1, 3}) {
            if (drains(alignment) && w > n) continue;
            ScheduleSpec spec{.alignment = alignment, .micro_batches = n, .window = w};
            spec.ring_window = ring;
            spec.chunks = chunks;
            const int64_t counted = parameter_passes_per_mini_batch(spec);
            spec.mini_batches = 6;
            const int64_t fewer = parameter_passes(actions_of(spec));
            ++spec.mini_batches;
            EXPECT_EQ(counted, parameter_passes(actions_of(spec)) - fewer)
                << name_of(alignment) << ", " << n << " micro-batches, window " << w << " of " << ring << ", " << chunks << " chunks";
          }
  // At once, however long.
  EXPECT_EQ(parameter_passes_per_mini_batch({.alignment = Alignment::kFpdeep, .micro_batches = 1'000'000'000'000, .window = 7}),
            1'000'000'000'001);
}

}  // namespace
}  // namespace millrace
