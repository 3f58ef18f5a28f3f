#include "partitioner/baseline/kind_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/recomputation.h"
#include "core/plan/schedule.h"
#include "core/plan/seats.h"
#include "core/plan/time_chunking.h"
#include "partitioner/baseline/kind_folded.h"
#include "partitioner/baseline/unit_split.h"
#include "partitioner/hybrid/places_to_try.h"
#include "partitioner/hybrid/ring_plan.h"

namespace millrace {
namespace by_kind {
namespace {

PlanRequest request_of(const PlanTask& task, int64_t micro_batch) {
  PlanRequest request{.cluster = task.cluster,
                      .alignment = task.options.alignment,
                      .mini_batch = task.options.mini_batch,
                      .micro_batch = micro_batch,
                      .optimizer = task.options.optimizer,
                      .arithmetic = task.options.arithmetic};
  request.windows = default_windows(static_cast<int64_t>(task.models.size()), request.alignment, request.mini_batch / micro_batch);
  return request;
}

class KindSearch {
 public:
  KindSearch(const PlanTask& task, int64_t micro_batch)
      : task_(task),
        graph_(*task.graph),
        units_(units_of(graph_)),
        devices_(task.models.size()),
        request_(request_of(task, micro_batch)),
        costs_(task, units_, request_),
        traffic_(graph_, units_, request_) {}

  // Seconds a sample of the best ring, and its cuts; infinite where nothing fits, and reason() says why.
  double solve() {
    if (folds(task_.cluster)) {
      FoldedRing best = best_folded_ring(task_, units_, costs_, traffic_);
      stretches_ = std::move(best.stretches);
      return best.seconds;
    }
    const size_t units = units_.size();
    std::vector<std::vector<double>> best(devices_ + 1, std::vector<double>(units + 1, kNever));
    std::vector<std::vector<Stretch>> last(devices_ + 1, std::vector<Stretch>(units + 1));
    best[0][0] = 0;
    const auto reach = [&](double period, Stretch stretch) {
      const size_t to = stretch.device + stretch.boards(), end = stretch.end;
      // Of rings as fast one in which what follows a layer is with its steps.
      const auto apart = [&](const Stretch& other) { return units_[other.begin].part == Part::kAfter; };
      const bool as_fast = period == best[to][end] && period < kNever && apart(last[to][end]) && !apart(stretch);
      if (period >= best[to][end] && !as_fast) return;
      best[to][end] = period;
      last[to][end] = std::move(stretch);
    };
    for (size_t d = 0; d < devices_; ++d)
      for (size_t begin = 0; begin < units; ++begin) {
        if (d > 0 && bridged(d - 1) && (units_[begin].part == Part::kSteps || units_[begin].part == Part::kAfter)) continue;
        const double before =
            std::max(best[d][begin], d > 0 ? traffic_.seconds(task_.cluster.links[d - 1], begin, costs_.lends(d - 1, begin)) : 0);
        if (before == kNever) continue;
        for (size_t end = begin + 1; end <= units; ++end) {
          Amounts taken{};
          if (costs_.may_have(d, begin, end)) reach(std::max(before, costs_.segment_seconds(d, begin, end, taken)), {d, begin, end, {}});
        }
        if (!costs_.may_have(d, begin, begin + 1) || !costs_.is_board(d)) continue;
        for (size_t boards = 2; d + boards <= devices_ && costs_.is_board(d + boards - 1) && !bridged(d + boards - 2); ++boards)
          for (size_t end = begin + 1; end <= units_.size() && costs_.steps_alone(begin, end); ++end)
            if (const auto split = shared_by(d, boards, begin, end)) reach(std::max(before, split->seconds), {d, begin, end, split->units});
      }
    stretches_.clear();
    if (best[devices_][units] == kNever) return kNever;
    for (size_t d = devices_, end = units; d > 0;) {
      const Stretch& stretch = last[d][end];
      stretches_.insert(stretches_.begin(), stretch);
      d = stretch.device;
      end = stretch.begin;
    }
    return best[devices_][units];
  }

  // A layer's products, taken in chunks, are a kernel to each.
  Plan plan(double bound, int64_t time_chunks) const {
    const Plan whole = plan(bound, time_chunks, {});
    return time_chunks == 1 ? whole : plan(bound, time_chunks, chunked_layers(whole, graph_));
  }

  Reason reason() const {
    Reason reason = costs_.lack();
    if (const Reason seats = seats_of_boards(); !seats.text.empty()) return seats;
    if (reason.text.empty()) {
      reason.resource = "devices";
      reason.missing = 1;
      reason.text = fmt::format(
          "no way to cut {} gives every board the steps of one recurrent layer and every other device a layer or a part of one; write the "
          "cluster in the order of the layers",
          graph_.model().name);
    }
    if (task_.options.divide_all && devices_ == 1) {
      reason.resource = "devices";
      reason.missing = 1;
      reason.text = fmt::format("one device has both parts of every recurrent layer of {}; name two or more, or let layers be whole",
                                graph_.model().name);
    }
    if (Reason crowd = boards_without_cells(); !crowd.text.empty()) return crowd;
    const auto most = static_cast<double>(units_.size());
    // Boards side by side share what one of them would make.
    size_t takers = 0;
    for (size_t d = 0; d < devices_; ++d) takers += d == 0 || !costs_.is_board(d) || !costs_.is_board(d - 1) ? size_t{1} : 0;
    if (static_cast<double>(takers) > most) {
      reason.resource = "layers";
      reason.missing = static_cast<double>(devices_) - most;
      reason.text = fmt::format(
          "strategy kind gives every device a layer, or a part of a recurrent one, and {} has {} of them for {} devices; "
          "use {} devices at most",
          graph_.model().name, units_.size(), devices_, units_.size());
    }
    return reason;
  }

 private:
  Plan plan(double bound, int64_t time_chunks, const ChunkedLayers& chunked) const {
    std::vector<Shard> shards;
    PlanRequest request = request_;
    request.time_chunks = time_chunks;
    std::vector<double> shared(devices_);
    const auto add = [&](size_t device, const Unit& unit, ShardQuestion asked) {
      Shard shard = shard_of(graph_, unit, static_cast<int64_t>(device));
      if (!chunked.empty() && chunked[device].contains(shard.layer)) asked.time_chunks = time_chunks;
      const ShardCost cost = task_.models[device]->cost_of(asked);
      shard.units = asked.units;
      shard.unit = cost.unit;
      shard.phases = cost.phases;
      shard.resources = cost.resources;
      shard.buffers = cost.buffers;
      shard.act_ram_bits = cost.act_ram_bits;
      shard.update_picoseconds = update_of(cost);
      share_place(shard, cost.shared_bytes, shared[device]);
      shards.push_back(std::move(shard));
    };
    for (size_t s = 0; s < stretches_.size(); ++s) {
      const Stretch& stretch = stretches_[s];
      const size_t d = stretch.device;
      if (stretch.units.empty()) {
        for (const Unit& unit : parts_between(units_, stretch.begin, stretch.end)) add(d, unit, costs_.question(d, unit).asked);
      } else {
        const Unit steps = parts_between(units_, stretch.begin, stretch.end).front();
        for (size_t b = 0; b < stretch.boards(); ++b) {
          request.windows[d + b] = request.windows[d + stretch.boards() - 1];
          add(d + b, steps, costs_.shared_question(d + b, steps, d + stretch.boards() - 1, stretch.units[b]).asked);
        }
      }
      if (costs_.lends(d, stretch.end))
        add_lent_steps(d, units_[stretch.end], shards.back(), stretches_[s + 1].units, request.remote_homes);
    }
    Plan plan = assemble_plan(graph_, request, std::move(shards));
    plan.strategy = std::string(name_of(Strategy::kKind));
    plan.accounting = task_.options.accounting;
    plan.lower_bound_seconds_per_image = bound;
    for (const CostModel* model : task_.models) add_figures_of(*model, plan);
    return plan;
  }

  bool bridged(size_t link) const { return task_.bridges.contains(static_cast<int64_t>(link)); }

  // Boards make steps alone: somebody has to multiply before, and to go on behind.
  Reason seats_of_boards() const {
    Reason reason;
    for (size_t d = 0; d < devices_ && reason.text.empty(); ++d) {
      if (!costs_.is_board(d) || (d > 0 && (d + 1 < devices_ || units_.back().part != Part::kWhole))) continue;
      reason.device = static_cast<int64_t>(d);
      reason.resource = "devices";
      reason.missing = 1;
      reason.text = fmt::format(
          "device {} ({}) would make the steps of a recurrent layer, which takes a CPU or GPU before it for the products with the "
          "inputs{}; "
          "write the cluster in the order of the layers: a CPU or GPU, the board, a CPU or GPU",
          d, task_.cluster.devices[d].device, d + 1 < devices_ || d == 0 ? "" : " and one behind it for the layers that follow");
    }
    return reason;
  }

  // Boards side by side share the steps of one layer, a cell at least to each, of a layer that projects as many as divide its features.
  Reason boards_without_cells() const {
    int64_t cells = 0;
    bool projects = false;
    for (const Unit& unit : units_) {
      if (unit.part != Part::kSteps) continue;
      const auto& cell = std::get<Recurrent>(head_of(unit).layer.operation);
      cells = std::max(cells, cell.hidden / grain_of(cell));
      projects = projects || cell.projection > 0;
    }
    Reason reason;
    size_t begin = 0;
    for (size_t d = 0; d <= devices_; ++d) {
      if (d < devices_ && costs_.is_board(d)) continue;
      if (const auto boards = static_cast<int64_t>(d - begin); boards > cells) {
        reason.device = static_cast<int64_t>(begin);
        reason.resource = "cells";
        reason.missing = static_cast<double>(boards - cells);
        reason.text = fmt::format(
            "devices {} to {}, {} boards side by side, would share the steps of one recurrent layer, and none of {} has more than {} "
            "cells{}; "
            "use {} boards at most",
            begin, d - 1, boards, graph_.model().name, cells,
            projects ? ", or parts that divide its cells and what they are projected to in the same proportion" : "", cells);
      }
      begin = d + 1;
    }
    return reason;
  }
  const Node& head_of(const Unit& unit) const { return graph_.node(fast_item(graph_.groups(), unit.group).head); }

  int64_t update_of(const ShardCost& cost) const {
    return task_.options.accounting == Accounting::kFull ? std::llround(1e12 * cost.update_seconds) : 0;
  }

  // Into the shard of its x W: the time of those gradients and of the update, and the memory of the steps' parameters.
  void add_lent_steps(size_t device, const Unit& steps, Shard& shard, const std::vector<ChannelRange>& units,
                      std::vector<ParameterHome>& homes) const {
    const ShardCost cost = costs_.gradients_of(device, steps);
    for (const PhaseEngine& more : cost.phases) {
      const auto found = std::ranges::find(shard.phases, more.phase, &PhaseEngine::phase);
      if (found == shard.phases.end())
        shard.phases.push_back(more);
      else
        found->picoseconds_per_unit += more.picoseconds_per_unit;
    }
    shard.update_picoseconds += update_of(cost);
    const std::string stored = "parameter_" + task_.models[device]->capacities()[task_.models[device]->parameter_memory()].name;
    const auto amount = [&](std::vector<NamedAmount>& amounts) {
      const auto found = std::ranges::find(amounts, stored, &NamedAmount::name);
      return found == amounts.end() ? nullptr : &*found;
    };
    std::vector<NamedAmount> theirs = cost.resources;
    if (NamedAmount* const own = amount(shard.resources), * const more = amount(theirs); own != nullptr && more != nullptr)
      own->amount += more->amount;
    const Node& head = graph_.node(fast_item(graph_.groups(), steps.group).head);
    const auto first = static_cast<int64_t>(device) + 1;
    for (ParameterHome& home : units.empty() ? homes_before_steps(head, first) : homes_before_steps(head, first, units))
      homes.push_back(std::move(home));
  }

  // The best way for `boards` boards from `device` on to share those steps; none where they cannot, which is told.
  std::optional<BestSplit> shared_by(size_t device, size_t boards, size_t unit, size_t end) {
    const Unit steps = parts_between(units_, unit, end).front();
    const Node& head = graph_.node(fast_item(graph_.groups(), steps.group).head);
    const auto& cell = std::get<Recurrent>(head.layer.operation);
    const size_t last = device + boards - 1;
    const int64_t grain = grain_of(cell), grains = cell.hidden / grain;  // what is divided
    if (grains < static_cast<int64_t>(boards)) return std::nullopt;
    UnitSplit split{.cells = grains, .boards = boards, .seconds = {}, .exchange = {}, .links = {}};
    split.seconds = [&](size_t board, int64_t units) { return costs_.board_seconds(device + board, steps, last, grain * units); };
    const std::vector<Link> links = links_of(task_.cluster);
    const int64_t bits = request_.micro_batch * bits_of(task_.options.arithmetic.compute);
    split.exchange = [&, bits](size_t board, int64_t most) {
      const double step = exchange_seconds(head, links, static_cast<int64_t>(device), static_cast<int64_t>(last),
                                           static_cast<int64_t>(device + board), grain * most, bits);
      return step * static_cast<double>(sum_shape(head).plane()) / static_cast<double>(request_.micro_batch);
    };
    for (size_t l = 0; l + 1 < boards; ++l)
      for (const auto& [base, slope] : traffic_.lines_between(unit, task_.cluster.links[device + l]))
        split.links.push_back({l, base, static_cast<double>(grain) * slope});
    std::optional<BestSplit> best = best_split(split);
    if (best)
      for (ChannelRange& units : best->units) units = {grain * units.begin, grain * units.end};
    if (!best) {
      const int64_t share = grain * divided_up(grains, static_cast<int64_t>(boards));
      const KindCosts::Asked asked = costs_.shared_question(last, steps, last, {0, share});
      const std::string why = task_.models[last]->steps_refusal(asked.asked);
      if (!why.empty()) costs_.refuse_steps(last, steps, why);
    }
    return best;
  }
  static int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

  const PlanTask& task_;
  const Graph& graph_;
  std::vector<Unit> units_;
  size_t devices_;
  PlanRequest request_;
  KindCosts costs_;
  KindTraffic traffic_;
  std::vector<Stretch> stretches_;
};

std::vector<int64_t> sizes_to_try(const PlanTask& task) {
  if (task.options.pair_mode == PairMode::kOverlap) return micro_batches_to_try(task);
  if (task.options.accounting != Accounting::kFull)
    fail(ErrorCode::kUsage, "mode {} compares what whole mini-batches take; leave --accounting fpdeep out",
         name_of(task.options.pair_mode));
  if (task.options.time_chunks > 1)
    fail(ErrorCode::kUsage, "mode {} takes sequences whole; leave --time-chunks {} out", name_of(task.options.pair_mode),
         task.options.time_chunks);
  if (task.options.micro_batch != 0 && task.options.micro_batch != task.options.mini_batch)
    fail(ErrorCode::kUsage, "mode {} takes a mini-batch at once, of one micro-batch; leave --micro-batch {} out",
         name_of(task.options.pair_mode), task.options.micro_batch);
  return {task.options.mini_batch};
}

Reason no_pair(PairMode mode) {
  Reason reason;
  reason.resource = "devices";
  reason.missing = 1;
  reason.text = fmt::format(
      "no board makes the steps of a layer where that is fastest, so mode {} has nothing to compare; have every layer divided "
      "(--divide all)",
      name_of(mode));
  return reason;
}

void check_task(const PlanTask& task) {
  if (task.models.empty() || task.models.size() != task.cluster.devices.size())
    fail(ErrorCode::kUsage, "a cluster of {} devices comes with {} cost models", task.cluster.devices.size(), task.models.size());
  if (!task.options.pins.empty() || !task.options.cuts.empty())
    fail(ErrorCode::kUsage, "strategy kind finds its own cuts; leave --pin and --cut out, or plan with hybrid");
  check_recurrent(*task.graph);
}

}  // namespace
}  // namespace by_kind

namespace by_kind {
namespace {

struct Candidate {
  Plan plan;
  PlanSummary summary;
};

// None where the plan comes to a standstill, and why.
std::optional<Candidate> candidate_of(const PlanTask& task, Plan plan, double period, std::string& standstill) {
  if (task.options.accounting == Accounting::kFull) {
    try {
      const MiniBatchTime time = task.mini_batch_time(plan, *task.graph);
      plan.constants.push_back({std::string(kMiniBatchSeconds), time.seconds, time.origin});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kStandstill) throw;
      standstill = error.what();
      return std::nullopt;
    }
  }
  PlanSummary summary = summarize(plan, *task.graph);
  summary.optimality_gap = plan.optimality_gap = std::max(0.0, summary.seconds_per_image / period - 1);
  return Candidate{std::move(plan), std::move(summary)};
}

// Twice as many as long as they are faster: products of a chunk are made, and cross, beside the steps of another, so that a mini-batch
// fills and drains sooner, and nothing between updates takes longer. `best` is of whole sequences, or none where those stand still.
void choose_chunks(const PlanTask& task, const KindSearch& search, double period, std::optional<Candidate>& best, std::string& standstill) {
  const double wanted = best ? best->summary.images_per_second * (1 + kWorthChunks) : 0;
  std::optional<Candidate> found;
  const int64_t most = std::min(kMostChunks, most_time_chunks(*task.graph));
  for (int64_t chunks = 2; chunks <= most; chunks *= 2) {
    Plan plan = search.plan(period, chunks);
    if (!TimeChunking(plan, *task.graph).any()) return;
    std::optional<Candidate> more = candidate_of(task, std::move(plan), period, standstill);
    if (!more) continue;
    if (found && more->summary.images_per_second <= found->summary.images_per_second * (1 + kWorthMoreChunks)) break;
    found = std::move(more);
  }
  if (found && found->summary.images_per_second > wanted) best = std::move(found);
}

}  // namespace
}  // namespace by_kind

void check_recurrent(const Graph& graph) {
  const auto recurrent = [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; };
  if (std::ranges::none_of(graph.nodes(), recurrent))
    fail(ErrorCode::kUsage,
         "strategy kind divides recurrent layers into products with the inputs and steps, and {} has none; plan with hybrid",
         graph.model().name);
}

Outcome plan_by_kind(const PlanTask& task) {
  const auto start = std::chrono::steady_clock::now();
  by_kind::check_task(task);
  Outcome outcome;
  const bool full = task.options.accounting == Accounting::kFull;
  if (full && !task.mini_batch_time)
    fail(ErrorCode::kUsage, "full accounting needs to know what a mini-batch takes: give PlanTask::mini_batch_time, or account as FPDeep");
  // Those first whose rings could be fastest: what could not be as fast as the best so far is not timed.
  std::deque<by_kind::KindSearch> searches;
  std::vector<std::pair<double, size_t>> periods;
  for (const int64_t micro_batch : by_kind::sizes_to_try(task)) {
    by_kind::KindSearch& search = searches.emplace_back(task, micro_batch);
    const double period = search.solve();
    if (period == by_kind::kNever)
      outcome.reason = search.reason();
    else
      periods.emplace_back(period, searches.size() - 1);
  }
  std::ranges::sort(periods);
  size_t best = 0;
  std::string standstill;
  for (const auto& [period, index] : periods) {
    if (outcome.feasible && 1 / period < outcome.summary.images_per_second) break;
    if (1 / period <= task.wanted) break;
    const by_kind::KindSearch& search = searches[index];
    const bool overlap = task.options.pair_mode == PairMode::kOverlap;
    Plan plan = search.plan(period, overlap ? std::max<int64_t>(1, task.options.time_chunks) : 1);
    if (!overlap) {
      if (!has_pair(plan, *task.graph)) {
        if (!outcome.feasible) outcome.reason = by_kind::no_pair(task.options.pair_mode);
        continue;
      }
      plan = in_mode(plan, *task.graph, task.options.pair_mode);
    }
    std::optional<by_kind::Candidate> found = by_kind::candidate_of(task, std::move(plan), period, standstill);
    if (full && overlap && task.options.time_chunks == 0 && !task.options.recompute)
      by_kind::choose_chunks(task, search, period, found, standstill);
    if (!found) continue;
    // Of equals the one that is tried first without such an order.
    const double gain = outcome.feasible ? found->summary.images_per_second - outcome.summary.images_per_second : 1;
    if (gain < 0 || (gain == 0 && index > best)) continue;
    best = index;
    outcome.feasible = true;
    outcome.plan = std::move(found->plan);
    outcome.summary = std::move(found->summary);
  }
  if (outcome.feasible || !standstill.empty()) outcome.reason = {};
  if (!outcome.feasible && !standstill.empty()) {
    outcome.reason.text = standstill;
    outcome.reason.resource = "fifo_rows";
  }
  outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace millrace
