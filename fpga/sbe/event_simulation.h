// The double buffer as events: a bus and an array of multipliers, each doing one thing at a time. Internal to fpga/sbe.
//
//   simulated_batch(config).cycles;      // what batch_timing() must give, and of words of weights
//
// Written apart from timing.cpp, which it checks: it knows blocks, slots and the two queues, and walks from event to event. Cycles that
// a step waits are step_stall.h's; an element-by-element simulation in the tests checks those. From the cycles between two batches late
// in a run, so that the first, for which nothing is loaded ahead, does not count.
#pragma once

#include <cstdint>

#include "fpga/sbe/engine_config.h"

namespace millrace {

struct SimulatedBatch {
  double cycles = 0;
  int64_t weight_words = 0;  // that crossed the bus, of each batch
};
SimulatedBatch simulated_batch(const SbeConfig& config);
inline double simulated_batch_cycles(const SbeConfig& config) { return simulated_batch(config).cycles; }

}  // namespace millrace
