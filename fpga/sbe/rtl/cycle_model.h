// Cycles of the engine as it is built, chunk by chunk: what timing.h's recurrence over slots leaves out is in here.
//
//   const BuiltCycles cycles = built_cycles(config, /*memory_latency=*/100);
//   cycles.batch;                 // from batch to batch, no stream or memory pausing
//
// Beside timing.h: a transfer's first beat is kAskCycles and the memory's latency behind its slot's release (hidden where the bus is
// still busy); x comes over its stream, a chunk a cycle, into two slots; each chunk of h waits for its own units, a group's last chunk
// for the tail, and sums that left for the store three cycles before they come back. Takes as long as there are chunks in eight batches.
#pragma once

#include <cstdint>

#include "fpga/sbe/engine_config.h"

namespace millrace {

inline constexpr int64_t kAskCycles = 3;        // a slot's release, the request's two registers
inline constexpr int64_t kInputSlotCycles = 1;  // between two slots of x

struct BuiltCycles {
  double batch = 0;   // in the steady state
  int64_t first = 0;  // of the first batch, up to its last product
};

BuiltCycles built_cycles(const SbeConfig& config, int64_t memory_latency);

}  // namespace millrace
