// What a device keeps of the micro-batches under way, from the schedule it follows.
//
//   const ScheduleSpec spec = schedule_spec(plan, device, 1);
//   std::vector<Slot> slots(micro_batches_held(spec));            // micro-batch s is in slots[s % size]
//
// Weight versions are versions_held() of schedule.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/schedule.h"

namespace millrace {

// Behind how many later E's a G waits: zero-bubble alone delays it, so that F to G stays within the ring's largest window, of which a
// drained mini-batch cannot use more than it has micro-batches.
int64_t gradient_lag(const ScheduleSpec& spec);
// Activations: from F to G.
int64_t micro_batches_held(const ScheduleSpec& spec);
// Errors: from E to G.
int64_t errors_held(const ScheduleSpec& spec);

// Both, of each device of a ring with such windows.
struct HeldByDevice {
  std::vector<int64_t> micro_batches, errors;
};
HeldByDevice held_by_devices(Alignment alignment, int64_t micro_batches, std::span<const int64_t> windows);

}  // namespace millrace
