#include "node/simulate/update_hold.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/base/index.h"
#include "node/simulate/simulate.h"

namespace millrace::simulation {
namespace {

constexpr int64_t kNever = int64_t{1} << 60;

struct Span {
  int64_t start = 0, end = 0;
};
using Phases = std::array<std::optional<Span>, 3>;  // F, E, G

// By how much a shard's actions come late behind an update.
struct Late {
  int64_t forward = 0;  // F behind G
  int64_t error = 0;    // E behind G
  int64_t behind = 0;   // E behind F
};

Late lateness(const Phases& phases, const Plan& plan, int64_t device, int64_t period, int64_t all_reduce) {
  const auto& [forward, error, gradient] = phases;
  const int64_t ahead = drains(plan.alignment) ? 0 : (item(plan.windows, device) - 1) * plan.micro_batch;
  Late late{.forward = gradient->end + all_reduce - forward->start - (ahead + 1) * period, .error = -kNever, .behind = -kNever};
  // Others drain, or keep apart what F read.
  if (plan.alignment != Alignment::kFpdeep || !error) return late;
  late.error = gradient->end + all_reduce - error->start - period;
  late.behind = forward->end + all_reduce - error->start + (ahead - 1) * period;
  return late;
}

}  // namespace

int64_t update_hold(const Plan& plan, const Graph& graph, const Replicas& replicas) {
  SimulationOptions options;
  options.samples = 2 * plan.micro_batch;
  options.act_ram = plan.accounting == Accounting::kFull ? 1.0 : 0.0;
  options.paced = false;
  options.trace = true;
  const SimulationResult result = simulate(plan, graph, options);
  std::map<int32_t, Phases> shards;
  for (const TraceSpan& span : result.trace)
    if (span.cycle == 0 && span.shard >= 0) item(shards[span.shard], span.phase) = {span.start, span.end};
  std::vector<int64_t> bits(to_size(plan.devices()), 0);
  if (replicas.count > 1) bits = column_bits(plan);
  const int64_t period = slowest_stage(plan, graph);
  int64_t held = 0, behind = -kNever;
  // From the last to the first: errors that come late hold up those upstream.
  for (auto place = shards.rbegin(); place != shards.rend(); ++place) {
    const auto& [shard, phases] = *place;
    if (!phases[0] || !phases[2]) continue;
    const int64_t device = item(plan.shards, shard).device;
    const int64_t all_reduce = replicas.count > 1 ? all_reduce_picoseconds(replicas, item(bits, device)) : 0;
    const Late late = lateness(phases, plan, device, period, all_reduce);
    behind = std::max(behind, late.behind);
    held = std::max({held, late.forward, late.error, (late.forward + behind) / 2});
  }
  return held;
}

}  // namespace millrace::simulation
