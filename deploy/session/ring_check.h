// What is generated for the boards of a plan, beside what is planned: for `rtl --check`, and for `plan`, which says their pace.
//
//   const RingCheck check = check_ring(plan, graph);
//   if (check.pace_ratio) fmt::print("{:.3f}\n", *check.pace_ratio);
//   fmt::print("{}\n", built_text(check));         // "pace_ratio 1.000 ...", or why there is none
//
// One function for both commands, so that they say the same. Takes some hundredths of a second for large networks, whose rows are timed
// over all devices, unless that was done while the plan was made; pure functions of the plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/conv_ce/generator/device_check.h"
#include "fpga/conv_ce/generator/ring_waiting.h"

namespace millrace {

struct CheckedDevice {
  DeviceCheck check;
  bool counts = true;  // is a board that computes something
};

struct RingCheck {
  std::vector<CheckedDevice> devices;  // all of the plan
  std::optional<double> pace_ratio;    // nothing where a board is not generated, or there is none
  // Of the ring with the room that its memories have, and all devices that compute: those that are no boards take micro-batches, as
  // planned. 0 where it stands still.
  std::optional<double> waiting_pace_ratio;
  std::string no_waiting;             // why there is none; else empty
  std::optional<WaitingPlace> waits;  // what sets it; nothing where no memory is too small
  bool timed = true;                  // false: a ring too long to be timed where a plan is made
  std::string refusal;                // why nothing was checked; empty: all was

  int64_t boards() const;
  int64_t generated() const;
  int64_t fitting() const;
};

// What the device is, where it is no FPGA. A name that the catalogue does not have (one of the user's own, or of what stands for a
// board here) is what its engines in the plan say.
std::optional<std::string> kind_that_is_no_fpga(const Plan& plan, int64_t device);

// `known`: rooms that were found while the plan was made (account()).
RingCheck check_ring(const Plan& plan, const Graph& graph, KnownRooms* known = nullptr);
// The same for a plan just made: what hardware cannot be generated for at all is said in `refusal`, and nothing fails. Rings of more than
// 200 devices are checked with the least room, and not timed.
// Longer rings are timed by `rtl --check` alone: it takes seconds for some hundreds of boards.
inline constexpr int64_t kMostTimed = 200;
RingCheck check_ring_if_possible(const Plan& plan, const Graph& graph, KnownRooms* known = nullptr);

// Why a plan of full accounting cannot be built where all its boards should be: the first that is not generated, and its layer. Empty: it
// can, or the plan promises no hardware (networks with recurrent layers, other elements than 16 bits).
std::string cannot_be_built(const Plan& plan, const Graph& graph, const RingCheck& check);

// Whether the engines of a plan that trains are those that are generated for it, where it counts what is built. Fails with kMismatch,
// naming `origin`, layer and engine.
void check_built_engines(const Plan& plan, const Graph& graph, const std::string& origin);

// "waiting_pace_ratio 0.431: the ring's pace with the room of its memories; forward ..."; empty: it is not known.
std::string waiting_text(const RingCheck& check);

// "pace_ratio 1.000, 3 of 15 boards within their resources", or "no pace_ratio: ..."; empty: there are no boards.
std::string built_text(const RingCheck& check);

}  // namespace millrace
