// The pace of a generated ring with the room that its memories have, where engines alone would be faster.
//
//   const RingWaiting ring = ring_waiting({{&first, 1 / 200e6}, {&second, 1 / 200e6}});
//   if (ring.waits) fmt::print("{}\n", waiting_text(*ring.waits));
//   // "forward propagation waits in the winners of conv1 on device 0, which has room for 1.0 samples; 2.3 would do"
//
// What FP makes waits for its errors: rows in the Act-RAMs, what won and where a ReLU let pass, what a norm was given. In hardware a dense
// layer and an average over the whole map make an error only when the whole map is in, and the host's errors follow a sample's last
// score; where a memory is full by then, FP stands still. Timed row by row (row_timing.h) over all devices at once, from which streams
// wait for which (ring_streams.h). What a memory would have to hold is the most that is in it when all have room and the ring takes
// samples at its engines' pace. Devices between boards that take whole micro-batches hold up both ways as long as they have too few samples
// for one, and while they make one. A pure function of the designs.
#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/words_outside.h"
#include "fpga/conv_ce/generator/device_check.h"

namespace millrace {

class Placement;
struct PlacedDesign;  // ring_designs.h
struct RingRooms;     // ring_rooms.h

// The memory that holds the ring back the most.
struct WaitingPlace {
  int64_t device = 0;
  std::string layer;
  std::string memory;         // "Act-RAM", "winners", ..
  double room_samples = 0;    // that it holds
  double enough_samples = 0;  // that would do
};

struct RingWaiting {
  double seconds = 0;  // per sample; 0: nothing is timed, or nothing moves
  std::optional<WaitingPlace> waits = {};
  bool stands_still = false;  // for ever: the memory of `waits` has room for too few samples
  std::string reason = {};    // why nothing is timed; else empty
};
RingWaiting ring_waiting(const std::vector<PlacedDesign>& designs);

// Rooms of the rings that were asked about last, for whoever asks about one of them again: while it is planned, and of the plan. Thread
// safe; its end waits for what it has begun.
class KnownRooms {
 public:
  RingRooms of(const Placement& placement, const RingPace& pace);
  std::optional<RingRooms> if_known(const Placement& placement, const RingPace& pace);
  // Of a ring with its rooms, as `pace` has them. The former begins to time it beside whoever goes on, for the latter to find; on a machine
  // that does one thing at a time nothing begins before it is asked for.
  void begin_waiting(const Placement& placement, const RingPace& pace) { begun(placement, pace); }
  RingWaiting waiting(const Placement& placement, const RingPace& pace) { return begun(placement, pace).get(); }

 private:
  static constexpr size_t kMost = 8;
  struct Known;
  std::shared_ptr<Known> known(const Placement& placement, const RingPace& pace, bool find_out = true);
  std::shared_future<RingWaiting> begun(const Placement& placement, const RingPace& pace);

  std::mutex mutex_;
  std::deque<std::shared_ptr<Known>> known_;
};

// The boards `devices` of a plan, and all of it together: memories, whose room is sought by timing the ring, are found once.
struct TimedRing {
  std::vector<DeviceCheck> boards;
  RingWaiting waiting;
};
TimedRing time_ring(const Plan& plan, const Graph& graph, std::span<const int64_t> devices, KnownRooms* known = nullptr);

// What lies outside, by the plan's shards, within a sample; nothing where a ring is not generated. Of a plan's own engines alone: what it
// says of words outside already changes nothing.
std::vector<WaitingWords> waiting_words(const Plan& plan, const Graph& graph, KnownRooms* known = nullptr);

// Begins to time the ring beside whoever goes on, for time_ring() to find, where its rooms are known still.
void begin_waiting(const Plan& plan, const Graph& graph, KnownRooms& known);

std::string waiting_text(const WaitingPlace& place);

}  // namespace millrace
