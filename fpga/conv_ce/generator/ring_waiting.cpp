#include "fpga/conv_ce/generator/ring_waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/beside.h"
#include "core/base/index.h"
#include "core/plan/placement.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/generator/ring_designs.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/generator/ring_rooms.h"
#include "fpga/conv_ce/generator/ring_streams.h"

namespace millrace {

namespace {

WaitingPlace place_of(const WaitingMemory& memory, double peak_rows) {
  return {.device = memory.device,
          .layer = memory.layer,
          .memory = memory.memory,
          .room_samples = memory.room_rows / static_cast<double>(memory.sample_rows),
          .enough_samples = peak_rows / static_cast<double>(memory.sample_rows)};
}

// Of a ring that stands still: the memory with the smallest share of what would do.
std::optional<WaitingPlace> smallest_room(const RingStreams& ring, const RowTimes& easy) {
  std::optional<WaitingPlace> found;
  for (size_t queue = 0; queue < ring.memories.size() && !easy.stands_still; ++queue) {
    if (!ring.memories[queue].waits()) continue;
    const WaitingPlace place = place_of(ring.memories[queue], easy.peak_rows[queue]);
    if (!found || place.room_samples * found->enough_samples < found->room_samples * place.enough_samples) found = place;
  }
  return found;
}

RingRooms rooms_of(const Placement& placement, const RingPace& pace, KnownRooms* known) {
  return known != nullptr ? known->of(placement, pace) : ring_rooms(placement, pace);
}

RingWaiting waiting_of(const RingDesigns& ring) {
  return ring.reason.empty() ? ring_waiting(ring.placed) : RingWaiting{.reason = ring.reason};
}

}  // namespace

RingWaiting ring_waiting(const std::vector<PlacedDesign>& designs) {
  const RingStreams ring(designs);
  const RowTimes built = ring.timing.run({.samples = counted_samples(designs)});
  const double engines = engines_seconds(designs);
  if (built.stands_still) return {.waits = smallest_room(ring, easy_times(ring, designs, engines)), .stands_still = true};
  RingWaiting found{.seconds = built.period};
  const auto held = std::ranges::max_element(built.samples_held);
  if (found.seconds <= kWaitsForNothing * engines || held == built.samples_held.end() || *held <= 0) return found;
  const auto queue = to_size(held - built.samples_held.begin());
  found.waits = place_of(ring.memories[queue], easy_times(ring, designs, engines).peak_rows[queue]);
  return found;
}

struct KnownRooms::Known {
  Plan plan;
  double period_seconds = 0;
  int64_t lanes = 1;
  RingRooms rooms = {};
  std::shared_future<RingWaiting> waiting = {};  // valid once it was asked for
};

// Found now where it is not known, if it is to be.
std::shared_ptr<KnownRooms::Known> KnownRooms::known(const Placement& placement, const RingPace& pace, bool find_out) {
  // In all that rooms follow from: words outside, and what engines wait for them, are found later.
  Plan asked = placement.plan();
  for (Shard& shard : asked.shards) {
    std::erase_if(shard.resources, [](const NamedAmount& amount) { return amount.name == kWaitingBytesPerSample; });
    for (PhaseEngine& phase : shard.phases)
      if (phase.engine == "conv_ce") phase.picoseconds_per_unit = 0;
  }
  const auto same = [&](const Known& known) {
    const Plan& plan = known.plan;
    return known.period_seconds == pace.period_seconds && known.lanes == pace.lanes && plan.model_digest == asked.model_digest &&
           plan.arithmetic == asked.arithmetic && plan.alignment == asked.alignment && plan.micro_batch == asked.micro_batch &&
           plan.mini_batch == asked.mini_batch && plan.optimizer == asked.optimizer && plan.windows == asked.windows &&
           plan.cluster == asked.cluster && plan.links == asked.links && plan.shards == asked.shards && plan.groups == asked.groups &&
           plan.homes == asked.homes && plan.flows == asked.flows && plan.budgets == asked.budgets;
  };
  {
    const std::scoped_lock lock(mutex_);
    for (const std::shared_ptr<Known>& one : known_)
      if (same(*one)) return one;
  }
  if (!find_out) return nullptr;
  const auto found = std::make_shared<Known>(std::move(asked), pace.period_seconds, pace.lanes, ring_rooms(placement, pace));
  const std::scoped_lock lock(mutex_);
  if (known_.size() == kMost) known_.pop_front();
  known_.push_back(found);
  return found;
}

RingRooms KnownRooms::of(const Placement& placement, const RingPace& pace) { return known(placement, pace)->rooms; }

std::optional<RingRooms> KnownRooms::if_known(const Placement& placement, const RingPace& pace) {
  const std::shared_ptr<Known> found = known(placement, pace, /*find_out=*/false);
  return found ? std::optional(found->rooms) : std::nullopt;
}

std::shared_future<RingWaiting> KnownRooms::begun(const Placement& placement, const RingPace& pace) {
  const std::shared_ptr<Known> found = known(placement, pace);
  const std::scoped_lock lock(mutex_);
  if (found->waiting.valid()) return found->waiting;
  const auto ring = std::make_shared<const RingDesigns>(ring_designs(placement, pace));
  return found->waiting = beside([ring] { return waiting_of(*ring); });
}

TimedRing time_ring(const Plan& plan, const Graph& graph, std::span<const int64_t> devices, KnownRooms* known) {
  if (devices.empty()) return {.boards = {}, .waiting = {.reason = "no board computes"}};
  const Placement placement(plan, graph);
  RingPace pace = ring_pace(plan, graph);
  pace.rooms = rooms_of(placement, pace, known);
  TimedRing timed{.boards = check_devices(placement, devices, pace), .waiting = {}};
  timed.waiting = known != nullptr ? known->waiting(placement, pace) : waiting_of(ring_designs(placement, pace));
  return timed;
}

std::vector<WaitingWords> waiting_words(const Plan& plan, const Graph& graph, KnownRooms* known) {
  const Placement placement(plan, graph);
  RingPace pace = ring_pace(plan, graph);
  pace.rooms = rooms_of(placement, pace, known);
  std::vector<WaitingWords> found;
  for (const auto& [device, places] : pace.rooms.outside) {
    const DeviceDesign design = device_design(placement, device, nullptr, {}, pace);
    std::map<int64_t, double> bytes;  // by shard
    for (const OutsideFifo& fifo : outside_fifos(design)) {
      const std::span<const Placement::Piece> pieces = placement.on(device);
      const auto of_layer = [&](const Placement::Piece& piece) { return item(plan.shards, piece.shard).layer == fifo.layer; };
      // What follows a sum may have a name of its own.
      const auto piece = std::ranges::find_if(pieces, of_layer);
      bytes[piece == pieces.end() ? pieces.front().shard : piece->shard] += fifo.bytes_per_sample();
    }
    for (const auto& [shard, moved] : bytes) found.push_back({shard, moved});
  }
  return found;
}

void begin_waiting(const Plan& plan, const Graph& graph, KnownRooms& known) {
  const Placement placement(plan, graph);
  RingPace pace = ring_pace(plan, graph);
  const std::optional<RingRooms> rooms = known.if_known(placement, pace);
  if (!rooms) return;
  pace.rooms = *rooms;
  known.begin_waiting(placement, pace);
}

std::string waiting_text(const WaitingPlace& place) {
  // As many digits as tell both apart.
  std::string room, enough;
  for (int digits = 1; room == enough && digits <= 3; ++digits) {
    room = fmt::format("{:.{}f}", place.room_samples, digits);
    enough = fmt::format("{:.{}f}", place.enough_samples, digits);
  }
  return fmt::format("forward propagation waits in the {} of {} on device {}, which has room for {} samples; {} would do", place.memory,
                     place.layer, place.device, room, enough);
}

}  // namespace millrace
