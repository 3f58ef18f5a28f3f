// The double buffer as events: a bus and an array of multipliers, each doing one thing at a time.
//
//   simulated_batch_cycles(config);      // what batch_timing() must give
//
// Written apart from timing.cpp, which it checks: it knows blocks, slots and the two queues, and walks from event to event. Cycles that
// a step waits are step_stall.h's; an element-by-element simulation in the tests checks those. From the cycles between two batches late
// in a run, so that the first, for which nothing is loaded ahead, does not count.
#pragma once

#include "fpga/sbe/engine_config.h"

namespace millrace {

double simulated_batch_cycles(const SbeConfig& config);

}  // namespace millrace
