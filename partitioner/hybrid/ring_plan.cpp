#include "partitioner/hybrid/ring_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "core/base/index.h"
#include "core/plan/assemble.h"
#include "core/plan/engine_period.h"
#include "core/plan/off_chip.h"
#include "core/plan/recomputation.h"
#include "core/plan/schedule.h"
#include "core/plan/time_chunking.h"
#include "core/plan/words_outside.h"
#include "partitioner/hybrid/hybrid_planner.h"

namespace millrace {
namespace {

// As many bytes a second as a shard's words off chip are within a period.
void set_off_chip_rate(const Node& node, int64_t micro_batch, double period, Shard& shard) {
  const double bytes = off_chip_bytes_per_sample(shard, node, micro_batch);
  for (NamedAmount& amount : shard.resources)
    if (amount.name == "dram_bytes_per_second" && bytes > 0) amount.amount = bytes / period;
}

std::vector<Shard> shards_of(const PlanTask& task, const RingSolver& solver, const RingSolution& solution, int64_t time_chunks,
                             const ChunkedLayers& chunked) {
  const Chain& chain = solver.chain();
  std::vector<Cut> cuts;
  for (const int64_t position : solution.cuts) cuts.push_back(chain.cut_at(position));
  std::vector<Shard> shards = shards_from_cuts(chain.graph(), cuts, chain.splits());
  size_t next = 0;
  for (int64_t d = 0; d <= static_cast<int64_t>(solution.cuts.size()); ++d) {
    const int64_t from = d == 0 ? 0 : fast_item(solution.cuts, d - 1);
    const int64_t to = d == static_cast<int64_t>(solution.cuts.size()) ? chain.end() : fast_item(solution.cuts, d);
    const bool off_chip = solver.segments().off_chip(d, from, to);
    const SegmentLoads& segments = solver.segments();
    std::optional<ShardWays> ways = segments.ways(d, from, to, solution.compute_period, solution.least_room);
    if (segments.builds(d))
      if (std::optional<ShardWays> built = segments.built_ways(d, from, to, solution.compute_period, solution.period, *ways))
        ways = std::move(built);
    double shared = 0;
    for (int64_t g = from < to ? chain.group_at(from) : chain.groups(); g < chain.groups() && chain.begin_of(g) < to; ++g) {
      const int64_t end = std::min(to, chain.end_of(g));
      const BlockList blocks = chain.blocks(g, std::max(from, chain.begin_of(g)), end);
      ShardQuestion question = solver.segments().exact_question(d, g, end, solution.compute_period, solution.period, blocks);
      solver.segments().place_weights(d, g, *ways, off_chip, question);
      if (!chunked.empty() && fast_item(chunked, d).contains(shards[next].layer)) question.time_chunks = time_chunks;
      const ShardCost cost = solver.segments().model(d).cost_of(question);
      Shard& shard = shards[next++];
      shard.unit = cost.unit;
      shard.phases = cost.phases;
      shard.resources = cost.resources;
      shard.buffers = cost.buffers;
      shard.act_ram_bits = cost.act_ram_bits;
      if (task.options.accounting == Accounting::kFull) shard.update_picoseconds = std::llround(1e12 * cost.update_seconds);
      share_place(shard, cost.shared_bytes, shared);
      set_off_chip_rate(chain.head_of(g), solver.micro_batch(), solution.period, shard);
    }
  }
  if (task.options.accounting == Accounting::kFull)
    wait_for_words(shards, *task.graph, solver.micro_batch(),
                   [&](int64_t device) { return off_chip_bandwidth(fast_item(task.models, device)->inventory()); });
  return shards;
}

// The lifetime of the first layer on each device.
std::vector<double> first_lifetimes(const RingSolver& solver, const RingSolution& solution) {
  const Chain& chain = solver.chain();
  std::vector<double> lifetimes{solver.lifetimes().front()};
  for (const int64_t position : solution.cuts)
    lifetimes.push_back(fast_item(solver.lifetimes(), std::min(chain.group_at(position), chain.groups() - 1)));
  return lifetimes;
}

void add_constants(const PlanTask& task, Plan& plan) {
  for (const CostModel* model : task.models) add_figures_of(*model, plan);
  if (streams_rows(task)) plan.constants.push_back({"fully_connected_delay", kFullyConnectedDelay, "fitted"});
}

// Micro-batches that every device's Act-RAM holds whole, and one: what a window may be. An update waits for all that goes forward with the
// weights before it, while no error of the next mini-batch comes back that would let go of any.
int64_t window_that_fits(const PlanTask& task, const std::vector<Shard>& shards, int64_t micro_batch) {
  int64_t window = task.options.mini_batch / micro_batch + 1;
  for (const Shard& shard : shards) {
    double held = static_cast<double>(shard.act_ram_bits);
    for (const NamedAmount& buffer : shard.buffers)
      if (buffer.name.starts_with("act_ram")) held = buffer.amount;
    ChannelRange inputs;
    for (const Block& block : shard.blocks) inputs = hull(inputs, block.inputs);
    const Node& node = task.graph->node(task.graph->index_of(shard.layer));
    const auto sample = static_cast<double>(inputs.size() * node.input_shapes[0].plane() * bits_of(task.options.arithmetic.wire));
    if (sample > 0) window = std::min(window, 1 + static_cast<int64_t>(held / sample / static_cast<double>(micro_batch) * (1 + 1e-9)));
  }
  return window;
}

Plan plan_of(const PlanTask& task, const RingSolver& solver, const RingSolution& solution, int64_t time_chunks,
             const ChunkedLayers& chunked) {
  PlanRequest request{.cluster = task.cluster,
                      .alignment = task.options.alignment,
                      .mini_batch = task.options.mini_batch,
                      .micro_batch = solver.micro_batch(),
                      .optimizer = task.options.optimizer,
                      .arithmetic = task.options.arithmetic,
                      .time_chunks = time_chunks};
  // Under flush every micro-batch of the mini-batch is in flight, wherever it is computed.
  if (streams_rows(task) && task.options.alignment != Alignment::kFlush)
    request.windows = streaming_windows(task, first_lifetimes(solver, solution), solution.period, solver.micro_batch());
  else
    request.windows = solver.windows();
  std::vector<Shard> shards = shards_of(task, solver, solution, time_chunks, chunked);
  int64_t in_flight = 0;
  if (streams_rows(task) && task.options.accounting == Accounting::kFull && !drains(task.options.alignment)) {
    const int64_t most = window_that_fits(task, shards, solver.micro_batch());
    in_flight = request.windows.front() * solver.micro_batch();
    for (int64_t& window : request.windows) window = std::min(window, most);
  }
  request.remote_homes = solution.homes.remote;
  Plan plan = assemble_plan(*task.graph, request, std::move(shards));
  plan.strategy = std::string(name_of(task.options.strategy));
  plan.accounting = task.options.accounting;
  plan.lower_bound_seconds_per_image = solution.lower_bound;
  add_constants(task, plan);
  const bool engines = std::ranges::any_of(task.models, [](const CostModel* model) { return model->dedicated_engines(); });
  if (engines && task.options.accounting == Accounting::kFull)
    plan.constants.push_back({std::string(kEnginePeriod), solution.compute_period, "modelled"});
  if (in_flight > 0) plan.constants.push_back({std::string(kInFlightSamples), static_cast<double>(in_flight), "modelled"});
  return plan;
}

// Of layers that flatten the network's input no hardware is made. A board that got nothing else stays without work, and the next device has
// them, unless the cut behind it or a pin is by hand.
RingSolution without_boards_that_flatten(const PlanTask& task, const RingSolver& solver, RingSolution solution) {
  const Chain& chain = solver.chain();
  const auto flattens_input = [&](int64_t group) {
    return group < chain.groups() && std::holds_alternative<Flatten>(chain.head_of(group).layer.operation) &&
           !task.options.pins.contains(chain.head_of(group).layer.name);
  };
  int64_t flat = 0;
  for (int64_t group = 0; flattens_input(group); ++group) flat = chain.end_of(group);
  for (size_t d = 0; d < solution.cuts.size() && solution.cuts[d] <= flat; ++d) {
    const auto link = static_cast<int64_t>(d);
    if (solver.segments().builds(link) && !task.options.cuts.contains(link)) solution.cuts[d] = d == 0 ? 0 : solution.cuts[d - 1];
  }
  return solution;
}

}  // namespace

Plan ring_plan(const PlanTask& task, const RingSolver& solver, const RingSolution& solved, int64_t time_chunks) {
  const RingSolution solution = without_boards_that_flatten(task, solver, solved);
  const Plan plan = plan_of(task, solver, solution, time_chunks, {});
  return time_chunks == 1 ? plan : plan_of(task, solver, solution, time_chunks, chunked_layers(plan, *task.graph));
}

bool streams_rows(const PlanTask& task) {
  return std::all_of(task.models.begin(), task.models.end(), [](const CostModel* model) { return model->dedicated_engines(); });
}

void add_figures_of(const CostModel& model, Plan& plan) {
  const std::string device = model.device();
  const auto known = [&](const DeviceBudget& budget) { return budget.device == device; };
  if (std::any_of(plan.budgets.begin(), plan.budgets.end(), known)) return;
  DeviceBudget budget{.device = device, .amounts = {}};
  budget.amounts.assign(model.capacities().begin(), model.capacities().end());
  for (NamedAmount& amount : model.inventory()) budget.amounts.push_back(std::move(amount));
  plan.budgets.push_back(std::move(budget));
  for (Constant& constant : model.constants()) {
    constant.name = device + "." + constant.name;
    plan.constants.push_back(std::move(constant));
  }
}

std::vector<int64_t> streaming_windows(const PlanTask& task, const std::vector<double>& first_lifetimes, double period,
                                       int64_t micro_batch) {
  const auto devices = static_cast<int64_t>(task.models.size());
  const int64_t micro_batches = task.options.mini_batch / micro_batch;
  const int64_t most = drains(task.options.alignment) ? micro_batches : micro_batches + 1;
  std::vector<int64_t> windows(to_size(devices));
  double latency = 0;  // there and back, from the device to the ring's end
  int64_t at_least = 1;
  for (int64_t d = devices - 1; d >= 0; --d) {
    const double samples = fast_item(first_lifetimes, d) + 1 + kFullyConnectedDelay + latency / period;
    const auto window = static_cast<int64_t>(std::ceil(samples / static_cast<double>(micro_batch)));
    at_least = std::max(at_least, std::clamp<int64_t>(window, 1, most));
    fast_item(windows, d) = at_least;
    if (d > 0) latency += 2e-6 * fast_item(task.cluster.links, d - 1).latency_us;
  }
  return windows;
}

}  // namespace millrace
