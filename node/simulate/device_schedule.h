// Internal to node/simulate: what one window makes of the plan's schedule, cut off after so many micro-batches.
//
//   const DeviceSchedule schedule = device_schedule(schedule_spec(plan, device, 0), /*micro_batches=*/64, /*side_by_side=*/true);
//   schedule.forward_version[5];     // the updates that F_5 waits for
//   schedule.actions;                // what a device that takes turns does, in order
//
// `side_by_side`: engines that keep order per engine only.
// Everything comes from actions_of, the trainer's own function.
#pragma once

#include "node/simulate/network.h"

namespace millrace::simulation {

DeviceSchedule device_schedule(ScheduleSpec spec, int64_t micro_batches, bool side_by_side);

// Passes of a whole mini-batch, once the pipeline is full; of what there is, where the run is shorter.
double passes_per_mini_batch(const DeviceSchedule& schedule);

}  // namespace millrace::simulation
