// Which of the devices of a rank acts next, where more than one could.
//
//   const bool by_age = takes_oldest_first(plan.alignment);
//   if (turn_of(mine, device, by_age) < turn_of(its, other, by_age)) ...      // mine goes first
//
// The lowest device goes first, but under flush the oldest micro-batch does, E before F before G: a device that ran all its F before the
// next one's first would let what it has just written leave the cache, and the following rank wait. Where windows are short, the lowest
// keeps them full. An update goes at once, an evaluation last. The order of a device's own actions is not touched, and no number depends on
// turns.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "core/documents/plan.h"
#include "core/plan/schedule.h"

namespace millrace {

// Micro-batch and phase, or device and nothing.
using Turn = std::pair<int64_t, int>;

inline bool takes_oldest_first(Alignment alignment) { return alignment == Alignment::kFlush; }

inline Turn turn_of(const Action& action, int64_t device, bool oldest_first) {
  if (!oldest_first) return {device, 0};
  switch (action.kind) {
    case ActionKind::kErrorBack: return {action.index, 0};
    case ActionKind::kForward: return {action.index, 1};
    case ActionKind::kParameterGradient: return {action.index, 2};
    case ActionKind::kUpdate: return {-1, 0};
    case ActionKind::kValidate: break;
  }
  return {std::numeric_limits<int64_t>::max(), 0};
}

}  // namespace millrace
