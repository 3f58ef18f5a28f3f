// How many messages of a flow may be under way or wait at its end: the one rule of trainer and simulator.
//
//   channel.credits = messages_ahead(plan, flow);
//
// One is on its way while another is worked on; forward, a device that may run w micro-batches ahead of the next one never waits for a
// credit that this one owes it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/index.h"
#include "core/documents/plan.h"
#include "core/plan/flow_load.h"

namespace millrace {

inline constexpr int64_t kFewestCredits = 2;

inline int64_t messages_ahead(const Plan& plan, const Flow& flow) {
  if (carries_parameters(flow) || flow.direction != Direction::kForward) return kFewestCredits;
  const auto link = to_size(flow.link);
  return std::max(kFewestCredits, plan.windows[link] - plan.windows[link + 1]);
}

}  // namespace millrace
