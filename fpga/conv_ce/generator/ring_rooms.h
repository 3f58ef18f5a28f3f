// How many samples the memories of a ring hold until errors are back: more than they must, where boards have blocks to spare.
//
//   RingPace pace = ring_pace(plan, graph);
//   pace.rooms = ring_rooms(placement, pace);
//   device_design(placement, device, weights, formats, pace);       // with that room
//
// A ring goes as fast as the memory allows that has the smallest share of the room that would do (ring_waiting.h). So all get one share,
// the largest at which every board has the memory, up to all of it; a plan's own room stays where it is more. Where a board has too few
// blocks for all of it, memories move to the board's own memory outside (outside_fifos.h), as far as its bandwidth and its bytes go:
// the one that moves the fewest bytes if one is enough, else those that take the most blocks, and none that is not needed. Boards that
// share a layer get its rows at once and need them one after the other, as partial sums pass; where line buffers are full by then, rows
// wait on their way to the next board, in a FIFO. EB through a stride makes fewer rows in a sample's first and last step than in others;
// where its neighbours take rows as fast as they come, row sorters hold more blocks, so that there are rows meanwhile. Nothing is given
// where the plan says no times or no block RAM, or where a device is not generated. The plan does not change: what is built keeps more of
// its pace. Pure functions of their arguments. Internal to fpga/conv_ce.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace millrace {

class Placement;
struct DeviceDesign;
struct RingPace;

// A memory of a device in which something waits for errors, or a map for a join.
struct RoomPlace {
  enum class Kind { kActRam, kWinners, kMasks, kNorm, kMap, kErrors };
  Kind kind = Kind::kActRam;
  size_t owner = 0;   // a unit of the design, or a map
  size_t reader = 0;  // of a map
  auto operator<=>(const RoomPlace&) const = default;
};
int64_t& room_at(DeviceDesign& design, const RoomPlace& place);

struct RingRooms {
  double share = 0;                                              // of what would do
  std::map<int64_t, std::map<RoomPlace, int64_t>> enough = {};   // by device, in beats
  std::map<int64_t, std::map<RoomPlace, int64_t>> outside = {};  // by device, in samples: what lies outside
  std::map<int64_t, std::map<RoomPlace, int64_t>> passing = {};  // by device, in beats: rows on their way to the next one
  std::map<int64_t, int64_t> sorted_blocks = {};                 // by device: that its row sorters hold
};
RingRooms ring_rooms(const Placement& placement, const RingPace& pace);

// At most as much as would do.
void give_rooms(const RingRooms& rooms, DeviceDesign& design);

}  // namespace millrace
