// Whether a device of a plan is generated, and whether what is generated keeps the plan's pace: multipliers, seconds, resources.
//
//   const DeviceCheck check = check_device(plan, graph, /*device=*/3);
//   if (!check.generated) fmt::print("{}\n", check.reason);                 // "layer drop6: it is neither ..."
//   fmt::print("{} of {} s\n", check.planned_seconds, check.built_seconds);
//
// Planned figures are those of the plan's engines; built ones of the design, its seconds by its own cycle model (device_cycles.h) at the
// clock that the plan has for the board, and no shorter than the words take that the plan keeps in the board's own memory. Of a device that
// is not generated, what is built is zero. Weights change nothing here and are not needed. Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/common/generator/resource_report.h"

namespace millrace {

class Placement;
struct RingPace;  // ring_engines.h

// Multipliers by phase.
struct PhaseMultipliers {
  int64_t forward = 0;
  int64_t error_back = 0;
  int64_t gradient = 0;

  int64_t all() const { return forward + error_back + gradient; }
  bool operator==(const PhaseMultipliers&) const = default;
};

// What waits for errors in the board's own memory, because the chip has too little room.
struct WaitsOutside {
  std::vector<std::string> memories;  // "Act-RAM of conv1_2"
  double bytes_per_sample = 0;        // there and back
  int64_t bytes = 0;                  // of all places
};
// "Act-RAM of conv1_2 and 2 more"
std::string memories_text(const WaitsOutside& outside);

struct DeviceCheck {
  int64_t index = 0;
  std::string board;
  bool generated = false;
  std::string reason;  // why not
  PhaseMultipliers planned, built;
  double planned_seconds = 0;  // per image, of the slowest engine
  double built_seconds = 0;    // per image, of the slowest stage or the memory off the chip
  std::string slowest;         // that stage: "FP of conv2_2"
  BoardAmounts planned_amounts, built_amounts, capacity;
  std::string lacks;  // what_does_not_fit(); empty: it fits, or nobody knows
  WeightsOnChip off_chip;
  WaitsOutside waits;

  bool fits() const { return generated && lacks.empty(); }
};

DeviceCheck check_device(const Plan& plan, const Graph& graph, int64_t device);
// Memories as they are generated (ring_rooms.h), or with the least room, for who asks for engines alone.
enum class CheckedRooms { kBuilt, kLeast };
// What the ring has in common is found once.
std::vector<DeviceCheck> check_devices(const Plan& plan, const Graph& graph, std::span<const int64_t> devices,
                                       CheckedRooms rooms = CheckedRooms::kBuilt);
// Whether all of them fit: looked at one by one, up to the first that does not.
bool all_devices_fit(const Plan& plan, const Graph& graph, std::span<const int64_t> devices, CheckedRooms rooms = CheckedRooms::kBuilt);
// For whoever has it.
std::vector<DeviceCheck> check_devices(const Placement& placement, std::span<const int64_t> devices, const RingPace& pace);

// The built ring's pace as a share of the planned one: the planned seconds of the slowest device over the built seconds of the slowest.
// Nothing where there is no device, or one of them is not generated.
std::optional<double> pace_ratio(const std::vector<DeviceCheck>& devices);

}  // namespace millrace
