// What devices keep, against the lists of actions themselves.
#include "core/plan/retention.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace millrace {
namespace {

// From the oldest micro-batch whose G is still to come to the newest whose F is done; and of those whose E is done.
struct Held {
  int64_t forward = 0, error = 0;
};
Held held_by_list(const ScheduleSpec& spec) {
  Held most;
  int64_t next_gradient = 0;  // G come in order
  for (const Action& action : actions_of(spec)) {
    const int64_t held = action.index - next_gradient + 1;
    if (action.kind == ActionKind::kForward) most.forward = std::max(most.forward, held);
    if (action.kind == ActionKind::kErrorBack) most.error = std::max(most.error, held);
    if (action.kind == ActionKind::kParameterGradient) next_gradient = action.index + 1;
  }
  return most;
}

TEST(Retention, IsWhatTheListKeeps) {
  int64_t cases = 0;
  for (const Alignment alignment :
       {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash, Alignment::kZeroBubble})
    for (int64_t n = 1; n <= 6; ++n)
      for (int64_t window = 1; window <= 8; ++window)
        for (int64_t ring = window; ring <= 9; ++ring) {
          if (!drains(alignment) && window > n + 1) continue;
          const ScheduleSpec spec{.alignment = alignment, .micro_batches = n, .window = window, .ring_window = ring, .mini_batches = 3};
          const Held held = held_by_list(spec);
          EXPECT_EQ(micro_batches_held(spec), held.forward) << name_of(alignment) << " n " << n << " w " << window << " ring " << ring;
          EXPECT_EQ(errors_held(spec), held.error) << name_of(alignment) << " n " << n << " w " << window << " ring " << ring;
          ++cases;
        }
  EXPECT_GT(cases, 500);
}

// A window wider than a mini-batch holds no more than the mini-batch has.
TEST(Retention, OfADrainedMiniBatchIsCappedByIt) {
  const ScheduleSpec spec{.alignment = Alignment::kZeroBubble, .micro_batches = 4, .window = 3, .ring_window = 9, .mini_batches = 1};
  EXPECT_EQ(gradient_lag(spec), 1);
  EXPECT_EQ(micro_batches_held(spec), 4);
}

// The largest window is the ring's, wherever it stands.
TEST(Retention, OfEachDeviceOfARing) {
  const std::vector<int64_t> windows{2, 5, 1, 3};
  for (const Alignment alignment : {Alignment::kFpdeep, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}) {
    const HeldByDevice held = held_by_devices(alignment, /*micro_batches=*/4, windows);
    ASSERT_EQ(held.micro_batches.size(), windows.size());
    ASSERT_EQ(held.errors.size(), windows.size());
    for (size_t d = 0; d < windows.size(); ++d) {
      const ScheduleSpec spec{.alignment = alignment, .micro_batches = 4, .window = windows[d], .ring_window = 5};
      EXPECT_EQ(held.micro_batches[d], micro_batches_held(spec)) << name_of(alignment) << " device " << d;
      EXPECT_EQ(held.errors[d], errors_held(spec)) << name_of(alignment) << " device " << d;
    }
  }
  EXPECT_TRUE(held_by_devices(Alignment::kZeroBubble, 4, {}).errors.empty());
}

}  // namespace
}  // namespace millrace
