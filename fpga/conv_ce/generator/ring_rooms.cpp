#include "fpga/conv_ce/generator/ring_rooms.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/plan/placement.h"
#include "fpga/common/generator/resource_report.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/generator/ring_streams.h"

namespace millrace {

namespace {

// Steps in which the share is sought.
constexpr int64_t kSteps = 64;

std::vector<DeviceDesign> designs_of(const Placement& placement, const RingPace& pace) {
  std::set<int64_t> computing;
  for (const Shard& shard : placement.plan().shards) computing.insert(shard.device);
  std::vector<DeviceDesign> designs;
  designs.reserve(computing.size());
  try {
    for (const int64_t device : computing) designs.push_back(device_design(placement, device, nullptr, {}, pace));
  } catch (const Error&) {
    return {};  // said by whoever generates that device
  }
  return designs;
}

bool fits(const DeviceDesign& base, const RingRooms& rooms, const Plan& plan) {
  DeviceDesign design = base;
  give_rooms(rooms, design);
  share_out_memories(board_capacity(plan, design.board), design);
  return what_does_not_fit(hardware_use(design), plan).empty();
}

}  // namespace

int64_t& room_at(DeviceDesign& design, const RoomPlace& place) {
  const auto unit = [&]() -> ShardDesign& {
    return place.owner < design.shards.size() ? design.shards[place.owner] : design.tails[place.owner - design.shards.size()];
  };
  switch (place.kind) {
    case RoomPlace::Kind::kActRam: return unit().act_ram_beats;
    case RoomPlace::Kind::kWinners: return unit().kept_beats;
    case RoomPlace::Kind::kMasks: return unit().mask_beats;
    case RoomPlace::Kind::kMap: return design.maps[place.owner].readers[place.reader].waiting_beats;
    case RoomPlace::Kind::kErrors: break;
  }
  return design.maps[place.owner].readers[place.reader].error_beats;
}

RingRooms ring_rooms(const Placement& placement, const RingPace& pace) {
  const Plan& plan = placement.plan();
  RingPace bare = pace;
  bare.rooms = {};
  if (pace.period_seconds <= 0) return {};
  const std::vector<DeviceDesign> designs = designs_of(placement, bare);
  std::vector<PlacedDesign> placed;
  for (const DeviceDesign& design : designs) {
    const double clock = planned_clock(plan, design.board);
    if (clock <= 0 || board_capacity(plan, design.board).bram36 <= 0) return {};
    placed.push_back({&design, 1 / clock});
  }
  if (placed.empty()) return {};
  RingRooms rooms;
  const RingStreams ring(placed);
  const RowTimes easy = easy_times(ring, placed);
  for (size_t queue = 0; queue < ring.memories.size(); ++queue) {
    const WaitingMemory& memory = ring.memories[queue];
    if (!memory.waits()) continue;
    int64_t& beats = rooms.enough[memory.device][memory.place];
    beats = std::max(beats, static_cast<int64_t>(std::ceil(easy.peak_rows[queue] * static_cast<double>(memory.row_beats))));
  }
  int64_t step = kSteps;
  const auto with = [&](int64_t steps) {
    rooms.share = static_cast<double>(steps) / kSteps;
    return rooms;
  };
  for (const DeviceDesign& design : designs) {
    if (fits(design, with(step), plan)) continue;
    int64_t fitting = 0;  // the plan's own room
    while (step > fitting + 1) {
      const int64_t middle = (step + fitting) / 2;
      (fits(design, with(middle), plan) ? fitting : step) = middle;
    }
    step = fitting;
  }
  return with(step);
}

void give_rooms(const RingRooms& rooms, DeviceDesign& design) {
  const auto own = rooms.enough.find(design.index);
  if (own == rooms.enough.end()) return;
  for (const auto& [place, beats] : own->second) {
    int64_t& room = room_at(design, place);
    room = std::max(room, static_cast<int64_t>(std::ceil(rooms.share * static_cast<double>(beats))));
  }
}

}  // namespace millrace
