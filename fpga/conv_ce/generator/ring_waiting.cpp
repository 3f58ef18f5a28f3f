#include "fpga/conv_ce/generator/ring_waiting.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/plan/placement.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/generator/ring_streams.h"

namespace millrace {

namespace {

// Until the pipeline is full and the same happens with every sample, and as many again to count.
constexpr int64_t kSamples = 16;
// A ring that loses less waits for nothing.
constexpr double kNothing = 1.002;
// Than the pace that is kept, when memories are measured: what came as fast would pile up.
constexpr double kSlightlySlower = 1.0005;

double engines_seconds(const std::vector<PlacedDesign>& designs) {
  double slowest = 0;
  for (const PlacedDesign& placed : designs)
    slowest = std::max(slowest, placed.cycle_seconds * static_cast<double>(slowest_stage(device_cycles(*placed.design)).cycles));
  return slowest;
}

// With room for all, and samples that come as fast as they go.
RowTimes easy_times(const RingStreams& ring, int64_t samples, double engines) {
  RowRun easy{.samples = samples, .unlimited = true, .source = ring.source, .source_period = kSlightlySlower * engines};
  RowTimes times = ring.timing.run(easy);
  if (times.period <= kSlightlySlower * easy.source_period) return times;
  easy.source_period = kSlightlySlower * times.period;  // pipelines run empty between small maps
  return ring.timing.run(easy);
}

}  // namespace

RingWaiting ring_waiting(const std::vector<PlacedDesign>& designs) {
  int64_t samples = kSamples;
  for (const PlacedDesign& placed : designs) samples = rounded_up(samples, 2 * placed.design->sample_multiple());
  const RingStreams ring(designs);
  const RowTimes built = ring.timing.run({.samples = samples});
  MILLRACE_CHECK(!built.stands_still, "a ring of {} devices stands still for lack of room", designs.size());
  RingWaiting found{.seconds = built.period, .waits = {}};
  const auto held = std::ranges::max_element(built.samples_held);
  const double engines = engines_seconds(designs);
  if (found.seconds <= kNothing * engines || held == built.samples_held.end() || *held <= 0) return found;
  const auto queue = static_cast<size_t>(held - built.samples_held.begin());
  const RowTimes easy = easy_times(ring, samples + samples / 2, engines);
  const WaitingMemory& memory = ring.memories[queue];
  found.waits = WaitingPlace{.device = memory.device,
                             .layer = memory.layer,
                             .memory = memory.memory,
                             .room_samples = memory.room_rows / memory.sample_rows,
                             .enough_samples = easy.peak_rows[queue] / memory.sample_rows};
  return found;
}

std::optional<RingWaiting> ring_waiting(const Plan& plan, const Graph& graph, std::span<const int64_t> devices) {
  for (const Shard& shard : plan.shards)
    if (std::ranges::find(devices, shard.device) == devices.end()) return std::nullopt;
  if (devices.empty()) return std::nullopt;
  const RingPace pace = ring_pace(plan, graph);
  const Placement placement(plan, graph);
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
