#include "core/plan/retention.h"

#include <algorithm>

namespace millrace {
namespace {

// Of the micro-batches that run ahead. A drained mini-batch has no more of them than it has, and under flush all of them do.
int64_t window_in_use(const ScheduleSpec& spec) {
  switch (spec.alignment) {
    case Alignment::kFlush: return spec.micro_batches;
    case Alignment::kOneForwardOneBackward:
    case Alignment::kZeroBubble: return std::min(spec.window, spec.micro_batches);
    case Alignment::kFpdeep:
    case Alignment::kStash: break;
  }
  return spec.window;
}

}  // namespace

int64_t gradient_lag(const ScheduleSpec& spec) {
  if (spec.alignment != Alignment::kZeroBubble) return 0;
  return std::max<int64_t>(0, std::min(spec.ring_window, spec.micro_batches) - window_in_use(spec));
}

int64_t micro_batches_held(const ScheduleSpec& spec) { return window_in_use(spec) + gradient_lag(spec); }

int64_t errors_held(const ScheduleSpec& spec) { return gradient_lag(spec) + 1; }

HeldByDevice held_by_devices(Alignment alignment, int64_t micro_batches, std::span<const int64_t> windows) {
  HeldByDevice held;
  const int64_t ring_window = windows.empty() ? 0 : std::ranges::max(windows);
  for (const int64_t window : windows) {
    const ScheduleSpec spec{.alignment = alignment, .micro_batches = micro_batches, .window = window, .ring_window = ring_window};
    held.micro_batches.push_back(micro_batches_held(spec));
    held.errors.push_back(errors_held(spec));
  }
  return held;
}

}  // namespace millrace
