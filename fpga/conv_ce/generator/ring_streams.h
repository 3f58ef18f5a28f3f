// The streams of generated devices, joined as a ring joins them: what row_timing.h times. Internal to fpga/conv_ce.
//
//   const RingStreams ring({{design, 1 / 200e6}, {next, 1 / 200e6}});
//   ring.timing.run({.samples = 24}).period;
//   ring.memories[i].layer;                 // of the i-th queue; a memory where something waits for errors, or a map for a join
//
// Streams at the ends are always ready, as in a device's own testbench, unless the ring is closed: then the errors of a sample come once
// its scores are all out, as the host makes them. Designs point to whoever made them, and may differ from what the generator gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/row_timing.h"

namespace millrace {

struct PlacedDesign {
  const DeviceDesign* design = nullptr;
  double cycle_seconds = 1;
};

// What a queue is made of.
struct WaitingMemory {
  int64_t device = 0;
  std::string layer;
  std::string memory;  // "Act-RAM", "winners"; empty: a few rows between two modules
  double sample_rows = 1;
  double room_rows = 1;
};

struct RingStreams {
  explicit RingStreams(const std::vector<PlacedDesign>& designs, bool closed = true);

  RowTiming timing;
  std::vector<WaitingMemory> memories;  // by queue
  size_t source = 0;                    // the network's input
};

}  // namespace millrace
