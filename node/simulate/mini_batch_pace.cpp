#include "node/simulate/mini_batch_pace.h"

#include <algorithm>
#include <cmath>

#include "core/plan/flows.h"
#include "node/simulate/compile_context.h"
#include "node/simulate/simulate.h"

namespace millrace {
namespace {

constexpr int64_t kMostMicroBatches = 16;
constexpr int64_t kSteadySamples = 48;     // at least
constexpr int64_t kMostRows = 20'000'000;  // through links and engines: a few seconds
constexpr double kUpdatePeriods = 1.8;
constexpr double kLongUpdate = 5;  // periods; a longer one may hide that the ring does not keep its period between updates either
constexpr double kSteady = 5e-3;   // by how much what a sample takes may differ between two lengths

// The same plan with an update after so many micro-batches.
Plan with_mini_batch(const Plan& plan, const Graph& graph, int64_t micro_batches) {
  Plan shorter = plan;
  shorter.mini_batch = micro_batches * plan.micro_batch;
  const int64_t most = drains(plan.alignment) ? micro_batches : micro_batches + 1;
  for (int64_t& window : shorter.windows) window = std::min(window, most);
  shorter.flows = flows_of(shorter, graph);
  return shorter;
}

// Of a sample, over all links and engines.
double rows_of(const Plan& plan, const Graph& graph) {
  double rows = 0;
  const simulation::RowCounts counts(graph, false);
  for (const Shard& shard : plan.shards) rows += 3.0 * counts.of(graph.index_of(shard.layer));
  for (const Flow& flow : plan.flows) rows += carries_parameters(flow) ? 64 : counts.of(tensor_of(graph, flow).node);
  return rows;
}

}  // namespace

MiniBatchPace mini_batch_pace(const Plan& plan, const Graph& graph, const Replicas& replicas) {
  const simulation::PlanPace pace = simulation::pace_of(plan, graph);
  const int64_t all = plan.micro_batches();
  const bool some_turn = std::find(pace.turns.begin(), pace.turns.end(), true) != pace.turns.end();
  int64_t run = all;
  // Under flush a window is the whole mini-batch, whatever its size, and every F and E takes a pass of parameters stored elsewhere.
  const bool passes = std::any_of(plan.flows.begin(), plan.flows.end(), [](const Flow& flow) { return carries_parameters(flow); });
  if (!some_turn && !(plan.alignment == Alignment::kFlush && passes))
    run = std::min(all, plan.alignment == Alignment::kFlush ? kMostMicroBatches : std::max(kMostMicroBatches, plan.windows.front()));
  // Of parameters stored elsewhere a mini-batch takes a pass more than it has micro-batches: in shorter ones that can fill a link.
  Plan shorter = run == all ? plan : with_mini_batch(plan, graph, run);
  while (run < all && simulation::pace_of(shorter, graph).period > pace.period) {
    run = std::min(2 * run, all);
    shorter = run == all ? plan : with_mini_batch(plan, graph, run);
  }
  const int64_t fewest = some_turn ? 6 : run > kMostMicroBatches || plan.micro_batch > 1 ? 4 : 2;
  const int64_t mini_batches = std::max(fewest, (kSteadySamples + run * plan.micro_batch - 1) / (run * plan.micro_batch));
  const int64_t samples = mini_batches * run * plan.micro_batch;
  const double period = 1e-12 * static_cast<double>(pace.period);
  if (pace.streams && rows_of(plan, graph) * static_cast<double>(samples) > static_cast<double>(kMostRows))
    return {.seconds = period * (static_cast<double>(plan.mini_batch) + kUpdatePeriods), .simulated = false};
  const auto seconds_of = [&](const Plan& asked, int64_t count) {
    SimulationOptions options;
    options.samples = count;
    options.act_ram = plan.accounting == Accounting::kFull ? 1.0 : 0.0;
    options.scenario.replicas = replicas;
    return static_cast<double>(asked.mini_batch) / mini_batch_rate(asked, simulate(asked, graph, options));
  };
  double seconds = seconds_of(shorter, samples);
  double each = period;
  // Parameters from elsewhere, or windows that Act-RAM keeps small, may hold a ring back at every sample: twice as long a mini-batch tells.
  while (run < all && seconds - each * static_cast<double>(shorter.mini_batch) > kLongUpdate * period) {
    run = std::min(2 * run, all);
    const Plan longer = run == all ? plan : with_mini_batch(plan, graph, run);
    const double of_longer = seconds_of(longer, fewest * longer.mini_batch);
    const double slope = (of_longer - seconds) / static_cast<double>(longer.mini_batch - shorter.mini_batch);
    const bool steady = std::abs(slope - each) < kSteady * each;
    seconds = of_longer;
    shorter = longer;
    each = std::max(slope, period);
    if (steady) break;
  }
  return {.seconds = seconds + each * static_cast<double>(plan.mini_batch - shorter.mini_batch)};
}

}  // namespace millrace
