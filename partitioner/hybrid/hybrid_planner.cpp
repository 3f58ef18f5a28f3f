#include "partitioner/hybrid/hybrid_planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>

#include "core/base/error.h"
#include "core/plan/assemble.h"
#include "core/plan/schedule.h"
#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/hybrid/shortage_text.h"

namespace millrace {
namespace {

// The share of a sample that fully connected layers and the loss hold on to it (FPDeep, fitted).
constexpr double kFullyConnectedDelay = 0.4;
// By how much a plan has to be faster for devices to stay without work.
constexpr double kWorthEmptyDevices = 1e-6;
// Longer rings that work are not planned a second time, which takes seconds.
constexpr size_t kLongRing = 200;

bool streams_rows(const PlanTask& task) {
  return std::all_of(task.models.begin(), task.models.end(), [](const CostModel* model) { return model->dedicated_engines(); });
}

std::vector<Shard> shards_of(const RingSolver& solver, const RingSolution& solution) {
  const Chain& chain = solver.chain();
  std::vector<Cut> cuts;
  for (const int64_t position : solution.cuts) cuts.push_back(chain.cut_at(position));
  std::vector<Shard> shards = shards_from_cuts(chain.graph(), cuts, chain.splits());
  size_t next = 0;
  for (int64_t d = 0; d <= static_cast<int64_t>(solution.cuts.size()); ++d) {
    const int64_t from = d == 0 ? 0 : solution.cuts[static_cast<size_t>(d - 1)];
    const int64_t to = d == static_cast<int64_t>(solution.cuts.size()) ? chain.end() : solution.cuts[static_cast<size_t>(d)];
    const bool off_chip = solver.segments().off_chip(d, from, to);
    for (int64_t g = from < to ? chain.group_at(from) : chain.groups(); g < chain.groups() && chain.begin_of(g) < to; ++g) {
      const int64_t end = std::min(to, chain.end_of(g));
      const BlockList blocks = chain.blocks(g, std::max(from, chain.begin_of(g)), end);
      ShardQuestion question = solver.segments().exact_question(d, g, end, solution.compute_period, solution.period, blocks);
      question.off_chip = off_chip;
      const ShardCost cost = solver.segments().model(d).cost_of(question);
      Shard& shard = shards[next++];
      shard.unit = cost.unit;
      shard.phases = cost.phases;
      shard.resources = cost.resources;
      shard.buffers = cost.buffers;
      shard.act_ram_bits = cost.act_ram_bits;
    }
  }
  return shards;
}

// The lifetime of the first layer on each device.
std::vector<double> first_lifetimes(const RingSolver& solver, const RingSolution& solution) {
  const Chain& chain = solver.chain();
  std::vector<double> lifetimes{solver.lifetimes().front()};
  for (const int64_t position : solution.cuts)
    lifetimes.push_back(solver.lifetimes()[static_cast<size_t>(std::min(chain.group_at(position), chain.groups() - 1))]);
  return lifetimes;
}

void add_constants(const PlanTask& task, Plan& plan) {
  std::set<std::string> seen;
  for (const CostModel* model : task.models) {
    if (!seen.insert(model->device()).second) continue;
    DeviceBudget budget{.device = model->device(), .amounts = {}};
    budget.amounts.assign(model->capacities().begin(), model->capacities().end());
    for (NamedAmount& amount : model->inventory()) budget.amounts.push_back(std::move(amount));
    plan.budgets.push_back(std::move(budget));
    for (Constant& constant : model->constants()) {
      constant.name = model->device() + "." + constant.name;
      plan.constants.push_back(std::move(constant));
    }
  }
  if (streams_rows(task)) plan.constants.push_back({"fully_connected_delay", kFullyConnectedDelay, "fitted"});
}

Plan plan_of(const PlanTask& task, const RingSolver& solver, const RingSolution& solution) {
  PlanRequest request{.cluster = task.cluster,
                      .alignment = task.options.alignment,
                      .mini_batch = task.options.mini_batch,
                      .micro_batch = solver.micro_batch(),
                      .optimizer = task.options.optimizer,
                      .arithmetic = task.options.arithmetic};
  // Under flush every micro-batch of the mini-batch is in flight, wherever it is computed.
  if (streams_rows(task) && task.options.alignment != Alignment::kFlush)
    request.windows = streaming_windows(task, first_lifetimes(solver, solution), solution.period, solver.micro_batch());
  request.remote_homes = solution.homes.remote;
  Plan plan = assemble_plan(*task.graph, request, shards_of(solver, solution));
  plan.strategy = std::string(name_of(task.options.strategy));
  plan.lower_bound_seconds_per_image = solution.lower_bound;
  add_constants(task, plan);
  return plan;
}

// Micro-batches worth trying where devices work sample by sample: divisors of the mini-batch, powers of two first.
std::vector<int64_t> micro_batches_to_try(const PlanTask& task) {
  if (task.options.micro_batch > 0) return {task.options.micro_batch};
  if (streams_rows(task)) return {1};
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= task.options.mini_batch; size *= 2)
    if (task.options.mini_batch % size == 0) sizes.push_back(size);
  const auto devices = static_cast<int64_t>(task.models.size());
  // Unaligned schedules need a mini-batch of at least D-1 micro-batches; draining ones are no use with fewer than D.
  std::erase_if(sizes, [&](int64_t size) { return size > 1 && task.options.mini_batch / size < devices; });
  return sizes;
}

// One way to see the task, and the best plan of it. The solver refers to the task beside it.
struct Attempt {
  Attempt(PlanTask the_task, int64_t micro_batch) : task(std::move(the_task)), solver(task, micro_batch) {}
  PlanTask task;
  RingSolver solver;
  RingSolution solution;
};

// Every device has work, unless leaving some without is faster, or the only way.
std::unique_ptr<Attempt> best_attempt(const PlanTask& task, int64_t micro_batch) {
  auto busy = std::make_unique<Attempt>(task, micro_batch);
  busy->solution = busy->solver.solve();
  const bool ordered = !task.options.pins.empty() || !task.options.cuts.empty();
  if (task.options.allow_empty || ordered || task.models.size() < 2) return busy;
  if (busy->solution.feasible && task.models.size() > kLongRing) return busy;
  PlanTask relaxed = task;
  relaxed.options.allow_empty = true;
  auto idle = std::make_unique<Attempt>(std::move(relaxed), micro_batch);
  if (!busy->solution.feasible) {
    idle->solution = idle->solver.solve();
    return idle->solution.feasible ? std::move(idle) : std::move(busy);
  }
  // As close as the bisections come, else as close as matters.
  for (const double closer : {1e-9, kWorthEmptyDevices}) {
    const double shorter = busy->solution.period / (1 + closer);
    if (!idle->solver.rules_out(shorter)) continue;
    busy->solution.lower_bound = std::min(busy->solution.lower_bound, shorter);
    return busy;
  }
  idle->solution = idle->solver.solve();
  if (idle->solution.feasible && idle->solution.period < busy->solution.period / (1 + kWorthEmptyDevices)) return idle;
  busy->solution.lower_bound = std::min(busy->solution.lower_bound, idle->solution.lower_bound);
  return busy;
}

}  // namespace

std::vector<int64_t> streaming_windows(const PlanTask& task, const std::vector<double>& first_lifetimes, double period,
                                       int64_t micro_batch) {
  const auto devices = static_cast<int64_t>(task.models.size());
  const int64_t micro_batches = task.options.mini_batch / micro_batch;
  const int64_t most = drains(task.options.alignment) ? micro_batches : micro_batches + 1;
  std::vector<int64_t> windows(static_cast<size_t>(devices));
  double latency = 0;  // there and back, from the device to the ring's end
  int64_t at_least = 1;
  for (int64_t d = devices - 1; d >= 0; --d) {
    const double samples = first_lifetimes[static_cast<size_t>(d)] + 1 + kFullyConnectedDelay + latency / period;
    const auto window = static_cast<int64_t>(std::ceil(samples / static_cast<double>(micro_batch)));
    at_least = std::max(at_least, std::clamp<int64_t>(window, 1, most));
    windows[static_cast<size_t>(d)] = at_least;
    if (d > 0) latency += 2e-6 * task.cluster.links[static_cast<size_t>(d - 1)].latency_us;
  }
  return windows;
}

Outcome plan_ring(const PlanTask& task) {
  const auto start = std::chrono::steady_clock::now();
  if (task.models.empty() || task.models.size() != task.cluster.devices.size())
    fail(ErrorCode::kUsage, "a cluster of {} devices comes with {} cost models", task.cluster.devices.size(), task.models.size());
  Outcome outcome;
  Shortage shortage;
  for (const int64_t micro_batch : micro_batches_to_try(task)) {
    const std::unique_ptr<Attempt> attempt = best_attempt(task, micro_batch);
    const RingSolver& solver = attempt->solver;
    const RingSolution& solution = attempt->solution;
    if (!solution.feasible) {
      if (shortage.kind == Shortage::Kind::kNone) shortage = solution.shortage;
      continue;
    }
    Plan plan = plan_of(task, solver, solution);
    PlanSummary summary = summarize(plan, *task.graph);
    if (outcome.feasible && summary.images_per_second <= outcome.summary.images_per_second * (1 + 1e-9)) continue;
    outcome.feasible = true;
    plan.optimality_gap = std::max(0.0, summary.seconds_per_image / plan.lower_bound_seconds_per_image - 1);
    summary.optimality_gap = plan.optimality_gap;
    outcome.plan = std::move(plan);
    outcome.summary = std::move(summary);
  }
  if (!outcome.feasible) outcome.reason = reason_of(task, shortage);
  outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace millrace
