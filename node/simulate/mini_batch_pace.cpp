#include "node/simulate/mini_batch_pace.h"

#include <algorithm>

#include "core/plan/flows.h"
#include "node/simulate/compile_context.h"
#include "node/simulate/simulate.h"

namespace millrace {
namespace {

constexpr int64_t kMostMicroBatches = 16;
constexpr int64_t kSteadySamples = 48;     // at least
constexpr int64_t kMostRows = 20'000'000;  // through links and engines: a few seconds
constexpr double kUpdatePeriods = 1.8;

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
  SimulationOptions options;
  options.samples = samples;
  options.act_ram = plan.accounting == Accounting::kFull ? 1.0 : 0.0;
  options.scenario.replicas = replicas;
  const double rate = mini_batch_rate(shorter, simulate(shorter, graph, options));
  return {.seconds = static_cast<double>(shorter.mini_batch) / rate + period * static_cast<double>(plan.mini_batch - shorter.mini_batch)};
}

}  // namespace millrace
