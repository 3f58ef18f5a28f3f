// Internal to node/simulate: what one window makes of the plan's schedule, cut off after so many micro-batches.
//
//   const DeviceSchedule schedule = device_schedule(schedule_spec(plan, device, 0), /*micro_batches=*/64);
//   schedule.forward_version[5];     // the updates that F_5 waits for
//   schedule.actions;                // what a device that takes turns does, in order
//
// Everything comes from actions_of, the trainer's own function.
#pragma once

#include "node/simulate/network.h"

namespace millrace {

DeviceSchedule device_schedule(ScheduleSpec spec, int64_t micro_batches);

// Passes of a whole mini-batch, once the pipeline is full; of what there is, where the run is shorter.
double passes_per_mini_batch(const DeviceSchedule& schedule);

}  // namespace millrace
