#include "fpga/conv_ce/generator/ring_rooms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <ranges>

#include "core/plan/placement.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/common/generator/resource_report.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/generator/ring_designs.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/generator/ring_streams.h"
#include "fpga/conv_ce/rtl/outside_room.h"

namespace millrace {

namespace {

// Steps in which the share is sought.
constexpr int64_t kSteps = 64;
// Of a FIFO.
constexpr int64_t kLeastBeats = 4;
// Than the engines' period, that a board's own memory may take for a sample: words that are streamed may leave little of its bandwidth.
constexpr std::array kLongerPeriods = {1.0, 1.005, 1.01, 1.02, 1.03, 1.05, 1.075, 1.1, 1.15, 1.25, 1.5, 2.0};

// Of row sorters, beside what they hold anyway.
constexpr std::array kMoreSortedBlocks = {2 * kSortedBlocks, 4 * kSortedBlocks};

RingDesigns copy_of(const RingDesigns& ring) {
  RingDesigns other = ring;
  for (PlacedDesign& placed : other.placed)
    if (placed.design != nullptr) placed.design = other.designs.data() + (placed.design - ring.designs.data());
  return other;
}

// The ring as it is, with room for rows of maps that are read here and behind, on their way there.
RingDesigns with_passing_room(const RingDesigns& ring) {
  RingDesigns other = copy_of(ring);
  for (DeviceDesign& design : other.designs)
    for (MapDesign& map : design.maps)
      for (MapReader& reader : map.readers)
        if (reader.next && map.readers.size() > 1)
          reader.waiting_beats = std::max<int64_t>(divided_up(reader.channels.size(), design.lanes) * map.height * map.width, kLeastBeats);
  return other;
}

void set_sorted_blocks(DeviceDesign& design, int64_t blocks) {
  for (std::vector<ShardDesign>* units : {&design.shards, &design.tails})
    for (ShardDesign& unit : *units)
      if (unit.sorts_errors() || (unit.owner && unit.sorts_unpooled())) unit.sorted_blocks = blocks;
}

// Likewise, with row sorters that hold so many blocks.
RingDesigns with_sorted_blocks(const RingDesigns& ring, int64_t blocks) {
  RingDesigns other = copy_of(ring);
  for (DeviceDesign& design : other.designs) set_sorted_blocks(design, blocks);
  return other;
}

bool is_passing(const DeviceDesign& design, const RoomPlace& place) {
  return place.kind == RoomPlace::Kind::kMap && design.maps[place.owner].readers[place.reader].next;
}

// With its rooms.
DeviceDesign built(const DeviceDesign& base, const RingRooms& rooms, const Plan& plan) {
  DeviceDesign design = base;
  give_rooms(rooms, design);
  share_out_memories(board_capacity(plan, design.board), design);
  return design;
}

bool fits(const DeviceDesign& base, const RingRooms& rooms, const Plan& plan) {
  return what_does_not_fit(hardware_use(built(base, rooms, plan)), plan).empty();
}

// Of block RAM and UltraRAM by their shares of the board's, of a memory as deep as it should be.
double share_of_board(const MemoryShape& memory, const BoardAmounts& board) {
  const double bram36 = static_cast<double>(bram18_of(memory)) / 2 / board.bram36;
  return board.urams <= 0 ? bram36 : std::min(bram36, static_cast<double>(uram_blocks(memory)) / board.urams);
}

// The board's own memory in bytes; 0: the plan does not say it.
double memory_outside(const Plan& plan, const std::string& board) {
  for (const DeviceBudget& budget : plan.budgets)
    if (budget.device == board)
      for (const NamedAmount& amount : budget.amounts)
        if (amount.name == "dram_bytes") return amount.amount;
  return 0;
}

// Halves of a BRAM36 that are free at most when what waits in a place leaves the chip, whatever kind of block it lies in.
int64_t most_freed(const DeviceDesign& design, const RoomPlace& place) {
  switch (place.kind) {
    case RoomPlace::Kind::kActRam: return bram18_of(design.unit(place.owner).act_ram_memory());
    case RoomPlace::Kind::kWinners: return bram18_of(design.unit(place.owner).winner_memory());
    case RoomPlace::Kind::kMasks:
    case RoomPlace::Kind::kNorm: {
      const ShardDesign& unit = design.unit(place.owner);
      return unit.norm_memories() * bram18_of(unit.norm_memory()) + bram18_of({.width = design.lanes, .depth = unit.mask_beats});
    }
    case RoomPlace::Kind::kMap:
    case RoomPlace::Kind::kErrors: break;
  }
  const MapReader& reader = design.maps[place.owner].readers[place.reader];
  const int64_t width = design.lanes * kElementBits;
  return bram18_of({.width = width, .depth = reader.waiting_beats}) + bram18_of({.width = width, .depth = reader.error_beats});
}

// Moves memories outside until the rest has all the room that would do, as far as the memory outside keeps the pace and has the bytes: one
// that is enough alone, of those the one that moves the fewest bytes; else the largest first, and none that is not needed in the end.
void move_outside(const Placement& placement, const DeviceDesign& base, double period_seconds, RingRooms& rooms) {
  const Plan& plan = placement.plan();
  if (off_chip_seconds(base, placement, 1) <= 0) return;
  const std::map<RoomPlace, int64_t>& enough = rooms.enough[base.index];
  const BoardAmounts board = board_capacity(plan, base.board);
  const double bytes = memory_outside(plan, base.board);
  struct Candidate {
    RoomPlace place;
    int64_t samples;
    double share;
    double moved;        // bytes a sample
    double most_bram36;  // free behind it
  };
  std::map<RoomPlace, int64_t>& outside = rooms.outside[base.index];
  const DeviceDesign crowded = built(base, rooms, plan);
  // Shared out, the least there is unless all fits.
  const double lacking = built_amounts(hardware_use(crowded)).bram36 - board.bram36;
  std::vector<Candidate> candidates;
  for (const OutsideFifo& fifo : movable_fifos(base)) {
    const auto wanted = enough.find(fifo.of);
    if (wanted == enough.end() || outside.contains(fifo.of) ||
        std::ranges::find(candidates, fifo.of, &Candidate::place) != candidates.end())
      continue;
    const double share = share_of_board({.width = fifo.word_bits, .depth = wanted->second}, board);
    if (share <= 0) continue;
    const int64_t samples = divided_up(wanted->second, fifo.rows * fifo.row_words) + kSamplesOnTheirWay;
    candidates.push_back({fifo.of, samples, share, static_cast<double>(fifo.rows * fifo.row_words * fifo.word_bits),
                          static_cast<double>(most_freed(crowded, fifo.of)) / 2});
  }
  const auto move = [&](const Candidate& one) {
    outside[one.place] = one.samples;
    DeviceDesign design = base;
    give_rooms(rooms, design);
    const bool fast = give_outside_room(design, one.place, one.samples) && off_chip_seconds(design, placement) <= period_seconds;
    if (!fast || (bytes > 0 && static_cast<double>(bytes_reached(design)) > bytes)) outside.erase(one.place);
    return outside.contains(one.place);
  };
  std::ranges::stable_sort(candidates, {}, &Candidate::moved);
  for (const Candidate& one : candidates) {
    if (one.most_bram36 < lacking) continue;
    if (move(one) && fits(base, rooms, plan)) return;
    outside.erase(one.place);
  }
  std::vector<Candidate> by_size = candidates;
  std::ranges::stable_sort(by_size, std::ranges::greater(), &Candidate::share);
  double freed = 0;
  const auto all_fits = [&] { return freed >= lacking && fits(base, rooms, plan); };
  for (const Candidate& one : by_size) {
    if (all_fits()) break;
    if (move(one)) freed += one.most_bram36;
  }
  const bool moved_enough = all_fits();
  for (const Candidate& one : std::views::reverse(candidates)) {
    if (!moved_enough || !outside.contains(one.place)) continue;
    outside.erase(one.place);
    if (!fits(base, rooms, plan)) outside[one.place] = one.samples;
  }
  if (outside.empty()) rooms.outside.erase(base.index);
}

// `rooms` with what may lie outside while no board's own memory takes longer for a sample, and the largest share of room that all boards
// have.
RingRooms rooms_within(const Placement& placement, const std::vector<DeviceDesign>& designs, RingRooms rooms, double period_seconds) {
  const Plan& plan = placement.plan();
  rooms.share = 1;
  for (const DeviceDesign& design : designs)
    if (!fits(design, rooms, plan)) move_outside(placement, design, period_seconds, rooms);
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

// What the device's row sorters hold, unless it is what a board has no blocks for.
void take_sorted_blocks(DeviceDesign& design, const Plan& plan, RingRooms& rooms) {
  int64_t most = kSortedBlocks;
  for (const ShardDesign& shard : design.shards) most = std::max(most, shard.sorted_blocks);
  for (const ShardDesign& tail : design.tails) most = std::max(most, tail.sorted_blocks);
  if (most == kSortedBlocks) return;
  DeviceDesign shallow = design;
  set_sorted_blocks(shallow, kSortedBlocks);
  if (!fits(design, {}, plan) && fits(shallow, {}, plan))
    design = std::move(shallow);
  else
    rooms.sorted_blocks[design.index] = most;
}

// What the plan has outside, with the room that would do.
void add_planned_outside(const DeviceDesign& design, RingRooms& rooms) {
  for (const OutsideFifo& fifo : outside_fifos(design)) {
    const int64_t enough = divided_up(rooms.enough[design.index][fifo.of], fifo.rows * fifo.row_words) + kSamplesOnTheirWay;
    rooms.outside[design.index][fifo.of] = std::max(fifo.room->samples, enough);
  }
}

}  // namespace

int64_t& room_at(DeviceDesign& design, const RoomPlace& place) {
  const auto unit = [&]() -> ShardDesign& {
    return place.owner < design.shards.size() ? design.shards[place.owner] : design.tails[place.owner - design.shards.size()];
  };
  switch (place.kind) {
    case RoomPlace::Kind::kActRam: return unit().act_ram_beats;
    case RoomPlace::Kind::kWinners: return unit().kept_beats;
    case RoomPlace::Kind::kMasks:
    case RoomPlace::Kind::kNorm: return unit().mask_beats;
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
  RingDesigns ring = ring_designs(placement, bare);  // whoever generates a device says why it is not
  if (!ring.reason.empty()) return {};
  for (const DeviceDesign& design : ring.designs)
    if (board_capacity(plan, design.board).bram36 <= 0) return {};
  RingRooms rooms;
  std::vector<WaitingMemory> memories;
  const auto timed = [&](const RingDesigns& designs, double engines) {
    RingStreams streams(designs.placed);
    RowTimes times = easy_times(streams, designs.placed, engines);
    memories = std::move(streams.memories);
    return times;
  };
  double engines = engines_seconds(ring.placed);
  RowTimes easy = timed(ring, engines);
  const auto take_if_faster = [&](RingDesigns other) {
    const std::vector<WaitingMemory> before = memories;
    const double other_engines = engines_seconds(other.placed);
    RowTimes times = timed(other, other_engines);
    if (times.period * kWaitsForNothing >= easy.period) {
      memories = before;
      return;
    }
    easy = std::move(times);
    ring = std::move(other);
    engines = other_engines;
  };
  const auto loses_pace = [&] { return easy.period > kWaitsForNothing * engines; };
  if (loses_pace()) take_if_faster(with_passing_room(ring));
  for (const int64_t blocks : kMoreSortedBlocks)
    if (loses_pace()) take_if_faster(with_sorted_blocks(ring, blocks));
  for (DeviceDesign& design : ring.designs) take_sorted_blocks(design, plan, rooms);
  std::map<int64_t, DeviceDesign*> of_device;
  for (DeviceDesign& design : ring.designs) of_device[design.index] = &design;
  for (size_t queue = 0; queue < memories.size(); ++queue) {
    const WaitingMemory& memory = memories[queue];
    if (!memory.waits()) continue;
    const bool passes = is_passing(*of_device.at(memory.device), memory.place);
    int64_t& beats = (passes ? rooms.passing : rooms.enough)[memory.device][memory.place];
    beats = std::max(
        {beats, static_cast<int64_t>(std::ceil(easy.peak_rows[queue] * static_cast<double>(memory.row_beats))), passes ? kLeastBeats : 0});
  }
  // Those come first, unless they are what a board has no blocks for.
  for (DeviceDesign& design : ring.designs) {
    const auto passing = rooms.passing.find(design.index);
    if (passing == rooms.passing.end()) continue;
    for (const auto& [place, beats] : passing->second) room_at(design, place) = 0;
    if (!fits(design, rooms, plan) && fits(design, {}, plan)) rooms.passing.erase(passing);
  }
  const std::vector<DeviceDesign>& designs = ring.designs;
  for (const DeviceDesign& design : designs) add_planned_outside(design, rooms);
  const RingRooms least = rooms;
  const auto has_room = [&](const RingRooms& found) {
    return found.share > 0 || std::ranges::all_of(designs, [&](const DeviceDesign& design) { return fits(design, found, plan); });
  };
  double kept = -1;
  for (const double longer : kLongerPeriods) {
    const RingRooms found = rooms_within(placement, designs, least, longer * pace.period_seconds);
    // What has none in twice the time has none in less.
    const bool is_first = kept < 0;
    if (is_first && !has_room(found) && !has_room(rooms_within(placement, designs, least, kLongerPeriods.back() * pace.period_seconds)))
      return found;
    // Whichever is slower of the memories' room and the words outside.
    if (const double pace_kept = std::min(found.share, 1 / longer); pace_kept > kept) {
      kept = pace_kept;
      rooms = found;
    }
    if (found.share == 1) break;
  }
  return rooms;
}

void give_rooms(const RingRooms& rooms, DeviceDesign& design) {
  if (const auto sorted = rooms.sorted_blocks.find(design.index); sorted != rooms.sorted_blocks.end())
    set_sorted_blocks(design, sorted->second);
  if (const auto passing = rooms.passing.find(design.index); passing != rooms.passing.end())
    for (const auto& [place, beats] : passing->second) room_at(design, place) = beats;
  const auto own = rooms.enough.find(design.index);
  if (own == rooms.enough.end()) return;
  const auto outside = rooms.outside.find(design.index);
  if (outside != rooms.outside.end())
    for (const auto& [place, samples] : outside->second) give_outside_room(design, place, samples);
  for (const auto& [place, beats] : own->second) {
    if (outside != rooms.outside.end() && outside->second.contains(place)) continue;
    int64_t& room = room_at(design, place);
    room = std::max(room, static_cast<int64_t>(std::ceil(rooms.share * static_cast<double>(beats))));
  }
}

}  // namespace millrace
