#include "fpga/conv_ce/generator/ring_designs.h"

#include <fmt/format.h>

#include <set>

#include "core/base/error.h"
#include "core/plan/placement.h"
#include "fpga/conv_ce/generator/planned_pace.h"

namespace millrace {

RingDesigns ring_designs(const Placement& placement, const RingPace& pace) {
  const Plan& plan = placement.plan();
  std::set<int64_t> computing;
  for (const Shard& shard : plan.shards) computing.insert(shard.device);
  RingDesigns ring;
  ring.designs.reserve(computing.size());
  for (const int64_t device : computing) {
    if (takes_turns(plan, device)) {
      const auto samples = static_cast<double>(plan.micro_batch);
      ring.placed.push_back(PlacedDesign::of_micro_batches(plan.micro_batch, samples * planned_turns_seconds(placement, device)));
      continue;
    }
    try {
      ring.designs.push_back(device_design(placement, device, nullptr, {}, pace));
    } catch (const Error& error) {
      // Any other is of a plan that contradicts itself or the generator, and names the layer.
      if (error.code() != ErrorCode::kUnavailable) throw;
      return {.reason = fmt::format("device {} is not generated: {}", device, error.message())};
    }
    const double clock = planned_clock(plan, ring.designs.back().board);
    if (clock <= 0) return {.reason = fmt::format("the plan does not say the clock of {}", ring.designs.back().board)};
    ring.placed.push_back({.design = &ring.designs.back(), .cycle_seconds = 1 / clock});
  }
  if (ring.designs.empty()) return {.reason = "no board computes"};
  return ring;
}

}  // namespace millrace
