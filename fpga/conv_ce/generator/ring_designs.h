// All that computes in a plan's ring, designed, in the ring's order: what row_timing.h times and ring_rooms.h gives room to. Internal to
// fpga/conv_ce.
//
//   const RingDesigns ring = ring_designs(placement, pace);
//   if (ring.reason.empty()) fmt::print("{}\n", ring_waiting(ring.placed).seconds);
//
// A board has its design; GPUs and CPUs, whose phases take turns on one device, have the micro-batch that they take at once and what it
// takes them. Pure functions of the plan; `placed` points into `designs`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/ring_engines.h"

namespace millrace {

class Placement;

// A board where there is a design; else a device that takes whole micro-batches.
struct PlacedDesign {
  const DeviceDesign* design = nullptr;
  double cycle_seconds = 1;
  int64_t micro_batch = 1;
  double micro_batch_seconds = 0;  // of F, E and G one after the other

  static PlacedDesign of_micro_batches(int64_t samples, double seconds) { return {nullptr, 1, samples, seconds}; }
};

struct RingDesigns {
  std::vector<DeviceDesign> designs = {};
  std::vector<PlacedDesign> placed = {};
  std::string reason = {};  // why there are none, where some device has no hardware; else empty
};
// Fails as device_design() does on a plan that contradicts itself or the generator.
RingDesigns ring_designs(const Placement& placement, const RingPace& pace);

}  // namespace millrace
