// The streams of generated devices, joined as a ring joins them: what row_timing.h times. Internal to fpga/conv_ce.
//
//   const RingStreams ring({{design, 1 / 200e6}, {next, 1 / 200e6}});
//   ring.timing.run({.samples = 24}).period;
//   ring.memories[i].layer;                 // of the i-th queue; a memory where something waits for errors, or a map for a join
//
// Streams at the ends are always ready, as in a device's own testbench, unless the ring is closed: then the errors of a sample come once
// its scores are all out, as the host makes them. Designs point to whoever made them, and may differ from what the generator gives.
// Devices that are no boards take micro-batches (stream_links.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/ring_designs.h"
#include "fpga/conv_ce/generator/ring_rooms.h"
#include "fpga/conv_ce/generator/row_timing.h"

namespace millrace {

// What a queue is made of.
struct WaitingMemory {
  int64_t device = 0;
  std::string layer;
  std::string memory;  // "Act-RAM", "winners"; empty: a few rows between two modules
  RoomPlace place = {};
  int64_t sample_rows = 1;
  int64_t row_beats = 1;
  double room_rows = 1;

  bool waits() const { return !memory.empty(); }
};

// A ring that takes so many of its engines' seconds, or fewer.
inline constexpr double kWaitsForNothing = 1.002;

struct RingStreams {
  explicit RingStreams(const std::vector<PlacedDesign>& designs, bool closed = true);

  RowTiming timing;
  std::vector<WaitingMemory> memories;  // by queue
  size_t source = 0;                    // the network's input
};

// Samples of a run, of which the second half counts: those that share a pass over gradients, and micro-batches, come whole.
int64_t counted_samples(const std::vector<PlacedDesign>& designs);
// The slowest engine's of all, or of a device that takes micro-batches, per sample.
double engines_seconds(const std::vector<PlacedDesign>& designs);
// With room for all, and samples that come at the engines' pace: the peaks are what the memories need.
RowTimes easy_times(const RingStreams& ring, const std::vector<PlacedDesign>& designs, double engines_seconds);

}  // namespace millrace
