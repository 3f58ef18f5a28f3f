#include "node/simulate/mini_batch_pace.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/index.h"
#include "core/plan/flows.h"
#include "node/simulate/compile_context.h"
#include "node/simulate/simulate.h"
#include "node/simulate/update_hold.h"

namespace millrace {
namespace {

constexpr int64_t kMostMicroBatches = 16;
constexpr int64_t kMostOfSeveralSamples = 8;  // where a micro-batch has more than one
constexpr int64_t kFewestMicroBatches = 4;
constexpr double kFewRows = 32768;      // of a run that is short however long its mini-batches are
constexpr int64_t kSteadySamples = 48;  // at least
constexpr double kUpdatePeriods = 1.8;
constexpr double kSteady = 5e-3;     // by how much what a sample takes may differ between two lengths
constexpr double kKeepsPace = 2e-3;  // by how much a sample may take longer than a period between updates
// By how much the last two mini-batches of a run may differ, or it is run again with so many.
constexpr double kAlike = 2e-3;
constexpr int64_t kMostToSettle = 6;

// The same plan with an update after so many micro-batches.
Plan with_mini_batch(const Plan& plan, const Graph& graph, int64_t micro_batches) {
  Plan shorter = plan;
  shorter.mini_batch = micro_batches * plan.micro_batch;
  const int64_t most = drains(plan.alignment) ? micro_batches : micro_batches + 1;
  for (int64_t& window : shorter.windows) window = std::min(window, most);
  shorter.flows = flows_of(shorter, graph);
  return shorter;
}

// What a sample takes between updates: over the second halves of all mini-batches but the first.
double seconds_between_updates(const Plan& plan, const SimulationResult& result) {
  const int64_t half = plan.micro_batches() / 2 * plan.micro_batch;
  const int64_t whole = result.samples / plan.mini_batch;
  int64_t picoseconds = 0;
  for (int64_t batch = 1; batch < whole; ++batch) {
    const int64_t end = (batch + 1) * plan.mini_batch;
    picoseconds += item(result.finished, end - 1) - item(result.finished, end - half - 1);
  }
  return whole > 1 && half > 0 ? 1e-12 * static_cast<double>(picoseconds) / static_cast<double>((whole - 1) * half) : 0;
}

// Of a ring that is not run: where parameters come from elsewhere, the gradients of the last micro-batch go home and the first pass of what
// they made comes back, each as long as a micro-batch.
double fitted_update(const Plan& plan, bool passes) { return passes ? 0.5 + 2 * static_cast<double>(plan.micro_batch) : kUpdatePeriods; }

// Of the device that takes longest for its parameters.
double longest_update(const Plan& plan) {
  std::vector<int64_t> picoseconds(to_size(plan.devices()));
  for (const Shard& shard : plan.shards) item(picoseconds, shard.device) += shard.update_picoseconds;
  return 1e-12 * static_cast<double>(*std::ranges::max_element(picoseconds));
}

// The last two mini-batches, of three at least.
bool last_two_alike(const Plan& plan, const SimulationResult& result) {
  const int64_t whole = result.samples / plan.mini_batch;
  if (whole < 3) return true;
  const auto end_of = [&](int64_t mini_batch) {
    return static_cast<double>(item(result.finished, (mini_batch + 1) * plan.mini_batch - 1));
  };
  const double last = end_of(whole - 1) - end_of(whole - 2), before = end_of(whole - 2) - end_of(whole - 3);
  return std::abs(last - before) <= kAlike * last;
}

}  // namespace

MiniBatchPace mini_batch_pace(const Plan& plan, const Graph& graph, const Replicas& replicas) {
  const simulation::PlanPace pace = simulation::pace_of(plan, graph);
  const int64_t all = plan.micro_batches();
  const bool some_turn = std::find(pace.turns.begin(), pace.turns.end(), true) != pace.turns.end();
  const int64_t most = plan.micro_batch > 1 ? kMostOfSeveralSamples : kMostMicroBatches;
  int64_t run = all;
  // Under flush a window is the whole mini-batch, whatever its size, and every F and E takes a pass of parameters stored elsewhere.
  const bool passes = std::any_of(plan.flows.begin(), plan.flows.end(), [](const Flow& flow) { return carries_parameters(flow); });
  if (!some_turn && !(plan.alignment == Alignment::kFlush && passes))
    run = std::min(all, plan.alignment == Alignment::kFlush ? most : std::max(most, plan.windows.front()));
  // What fills may slow a ring down late: a short run tells.
  if (pace.streams && rows_of_sample(plan, graph) * static_cast<double>(2 * plan.mini_batch) <= kFewRows) run = all;
  // Of parameters stored elsewhere a mini-batch takes a pass more than it has micro-batches: in shorter ones that can fill a link.
  Plan shorter = run == all ? plan : with_mini_batch(plan, graph, run);
  while (run < all && simulation::pace_of(shorter, graph).period > pace.period) {
    run = std::min(2 * run, all);
    shorter = run == all ? plan : with_mini_batch(plan, graph, run);
  }
  const int64_t fewest = some_turn ? 6 : run > most || plan.micro_batch > 1 ? 4 : 2;
  const auto samples_of = [&](int64_t micro_batches) {
    const int64_t of_mini_batch = micro_batches * plan.micro_batch;
    return of_mini_batch * std::max(fewest, (kSteadySamples + of_mini_batch - 1) / of_mini_batch);
  };
  const double rows = pace.streams ? rows_of_sample(plan, graph) : 0;
  const auto takes_long = [&](int64_t micro_batches) { return rows * static_cast<double>(samples_of(micro_batches)) > kMostSimulatedRows; };
  const int64_t least = std::max(kFewestMicroBatches, plan.windows.front() + 1);
  while (takes_long(run) && run < all && run / 2 >= least && !some_turn) {
    const Plan half = with_mini_batch(plan, graph, run / 2);
    if (simulation::pace_of(half, graph).period > pace.period) break;
    run /= 2;
    shorter = half;
  }
  const double period = 1e-12 * static_cast<double>(pace.period);
  if (takes_long(run)) {
    if (passes || some_turn || rows * 2 * static_cast<double>(plan.micro_batch) > kMostSimulatedRows)
      return {.seconds = period * (static_cast<double>(plan.mini_batch) + fitted_update(plan, passes)) + longest_update(plan),
              .origin = "fitted"};
    const int64_t held = simulation::update_hold(plan, graph, replicas);
    return {.seconds = period * static_cast<double>(plan.mini_batch) + 1e-12 * static_cast<double>(held), .origin = "modelled"};
  }
  double between = 0;
  const auto seconds_of = [&](const Plan& asked, int64_t count) {
    SimulationOptions options;
    options.samples = count;
    options.pace_alone = true;
    options.act_ram = plan.accounting == Accounting::kFull ? 1.0 : 0.0;
    options.scenario.replicas = replicas;
    SimulationResult result = simulate(asked, graph, options);
    // The first mini-batches fill a ring, in some for longer than in others.
    const int64_t settling = kMostToSettle * asked.mini_batch;
    if (count < settling && !last_two_alike(asked, result)) {
      options.samples = settling;
      result = simulate(asked, graph, options);
    }
    between = seconds_between_updates(asked, result);
    return static_cast<double>(asked.mini_batch) / mini_batch_rate(asked, result);
  };
  double seconds = seconds_of(shorter, samples_of(run));
  const bool keeps_pace = some_turn || between <= period * (1 + kKeepsPace);
  double each = keeps_pace ? period : between;
  // Parameters from elsewhere, or windows that Act-RAM keeps small, may hold a ring back at every sample: twice as long a mini-batch tells.
  while (run < all && !keeps_pace) {
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
