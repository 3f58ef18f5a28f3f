#include "node/simulate/simulate.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "node/simulate/collect.h"
#include "node/simulate/compile.h"
#include "node/simulate/compile_context.h"
#include "node/simulate/engine.h"
#include "node/simulate/logical_processes.h"
#include "node/simulate/rank_watch.h"

namespace millrace {

using namespace simulation;

double rows_of_sample(const Plan& plan, const Graph& graph) {
  double rows = 0;
  const RowCounts counts(graph, false);
  for (const Shard& shard : plan.shards) rows += 3.0 * counts.of(graph.index_of(shard.layer));
  for (const Flow& flow : plan.flows) rows += carries_parameters(flow) ? 64 : counts.of(tensor_of(graph, flow).node);
  return rows;
}

int64_t enough_samples(const Plan& plan, bool replicas) {
  constexpr int64_t kSamples = 64;
  constexpr int64_t kMiniBatches = 4;
  // Draining costs time at every update: a rate without one would not be the rate.
  if (drains(plan.alignment) || plan.micro_batch > 1 || replicas)
    return std::max(kMiniBatches * plan.mini_batch, kSamples / plan.mini_batch * plan.mini_batch);
  return kSamples;
}

int64_t samples_of_mini_batches(const Plan& plan, const Graph& graph, bool replicas) {
  const int64_t enough = enough_samples(plan, replicas);
  if (plan.accounting != Accounting::kFull) return enough;
  const PlanPace pace = pace_of(plan, graph);
  const bool some_turn = std::find(pace.turns.begin(), pace.turns.end(), true) != pace.turns.end();
  const int64_t whole = plan.mini_batch * (some_turn && !drains(plan.alignment) ? 6 : 4);
  const double rows = pace.streams ? rows_of_sample(plan, graph) : 0;
  return rows * static_cast<double>(whole) <= kMostSimulatedRows ? std::max(whole, enough) : enough;
}

bool streams_rows(const Plan& plan, const Graph& graph) { return pace_of(plan, graph).streams; }

namespace {

// Mini-batches that a plan's window holds, begun ones too.
int64_t mini_batches_ahead(const Plan& plan) { return (plan.windows.front() + plan.micro_batches() - 1) / plan.micro_batches(); }

}  // namespace

int64_t samples_to_settle(const Plan& plan, const SimulationResult& result) {
  const bool turns = std::any_of(result.stages.begin(), result.stages.end(), [](const SimulatedStage& stage) { return stage.shard < 0; });
  return turns && !drains(plan.alignment) ? (4 + mini_batches_ahead(plan)) * plan.mini_batch : 0;
}

int64_t mini_batches_of_window_behind(const Plan& plan, const SimulationResult& result) {
  const int64_t settles = samples_to_settle(plan, result);
  return settles > 0 && result.samples >= settles ? mini_batches_ahead(plan) : 0;
}

double mini_batch_rate(const Plan& plan, const SimulationResult& result) {
  const int64_t whole = result.samples / plan.mini_batch;
  if (whole < 2) return 0;
  const int64_t ending = mini_batches_of_window_behind(plan, result);
  // A ring that is being filled makes its first updates early, as many of them as its window holds.
  const int64_t filling = std::min(std::max<int64_t>(whole >= 4 ? 2 : 1, 1 + ending), whole - ending - 1);
  const int64_t counted = whole - filling - ending;
  const int64_t begin = item(result.finished, filling * plan.mini_batch - 1);
  const int64_t end = item(result.finished, (whole - ending) * plan.mini_batch - 1);
  const auto rate_of = [&](int64_t picoseconds) {
    return picoseconds > 0 ? 1e12 * static_cast<double>(counted * plan.mini_batch) / static_cast<double>(picoseconds) : 0;
  };
  double rate = rate_of(end - begin);
  // With a window of more than a mini-batch samples that were sent ahead end faster for a while than all devices take new ones: the slowest
  // device tells. One without work is through with all its actions at once, and sets no pace.
  if (mini_batches_ahead(plan) < 2) return rate;
  std::map<int64_t, int64_t> taken;
  for (const SimulatedUpdate& update : result.updates) {
    if (update.mini_batch == filling - 1) taken[update.device] -= update.time;
    if (update.mini_batch == whole - ending - 1) taken[update.device] += update.time;
  }
  for (const auto& [device, picoseconds] : taken)
    if (picoseconds > 0) rate = std::min(rate, rate_of(picoseconds));
  return rate;
}

int64_t slowest_stage(const Plan& plan, const Graph& graph) { return pace_of(plan, graph).period; }

SimulationResult simulate(const Plan& given, const Graph& graph, const SimulationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  check_options(given, graph, options);
  const Plan plan = plan_as_run(given, options);
  Network network = compile(plan, graph, options, 0, plan.devices());
  network.finds_peaks = !options.pace_alone;
  Engine engine(network, plan, options, options.pace_alone ? processes_for_pace(network, plan) : processes_of_devices(network, plan));
  RankWatch watch(network.first_device);
  engine.begin();
  engine.run_until(kNeverTime);
  const SimulatedRank work = watch.stop(engine);
  if (!engine.done()) fail(ErrorCode::kStandstill, "the simulation deadlocks after {} ps: {}", engine.now(), engine.stuck());
  std::vector<SimulationResult> blocks;
  blocks.push_back(collect(engine, network, plan));
  blocks.back().ranks = {work};
  SimulationResult result = combine(plan, graph, std::move(blocks));
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace millrace
