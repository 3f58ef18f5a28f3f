#include "fpga/conv_ce/generator/ring_waiting.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/plan/placement.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/generator/ring_streams.h"

namespace millrace {

namespace {

// A ring that loses less waits for nothing.
constexpr double kNothing = 1.002;

}  // namespace

RingWaiting ring_waiting(const std::vector<PlacedDesign>& designs) {
  const RingStreams ring(designs);
  const RowTimes built = ring.timing.run({.samples = counted_samples(designs)});
  MILLRACE_CHECK(!built.stands_still, "a ring of {} devices stands still for lack of room", designs.size());
  RingWaiting found{.seconds = built.period, .waits = {}};
  const auto held = std::ranges::max_element(built.samples_held);
  if (found.seconds <= kNothing * engines_seconds(designs) || held == built.samples_held.end() || *held <= 0) return found;
  const auto queue = static_cast<size_t>(held - built.samples_held.begin());
  const RowTimes easy = easy_times(ring, designs);
  const WaitingMemory& memory = ring.memories[queue];
  found.waits = WaitingPlace{.device = memory.device,
                             .layer = memory.layer,
                             .memory = memory.memory,
                             .room_samples = memory.room_rows / static_cast<double>(memory.sample_rows),
                             .enough_samples = easy.peak_rows[queue] / static_cast<double>(memory.sample_rows)};
  return found;
}

std::optional<RingWaiting> ring_waiting(const Plan& plan, const Graph& graph, std::span<const int64_t> devices) {
  for (const Shard& shard : plan.shards)
    if (std::ranges::find(devices, shard.device) == devices.end()) return std::nullopt;
  if (devices.empty()) return std::nullopt;
  const Placement placement(plan, graph);
  RingPace pace = ring_pace(plan, graph);
  pace.rooms = ring_rooms(placement, pace);
  std::vector<DeviceDesign> designs;
  std::vector<PlacedDesign> placed;
  designs.reserve(devices.size());
  try {
    for (const int64_t device : devices) {
      designs.push_back(device_design(placement, device, nullptr, {}, pace));
      const double clock = planned_clock(plan, designs.back().board);
      if (clock <= 0) return std::nullopt;
      placed.push_back({&designs.back(), 1 / clock});
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return std::nullopt;
  }
  return ring_waiting(placed);
}

std::string waiting_text(const WaitingPlace& place) {
  return fmt::format("forward propagation waits in the {} of {} on device {}, which has room for {:.1f} samples; {:.1f} would do",
                     place.memory, place.layer, place.device, place.room_samples, place.enough_samples);
}

}  // namespace millrace
