#include "partitioner/baseline/kind_parallel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/plan/assemble.h"
#include "core/plan/flow_load.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/schedule.h"
#include "partitioner/hybrid/hybrid_planner.h"

namespace millrace {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class Part { kWhole, kProducts, kSteps };

// What a cut may lie between.
struct Unit {
  int64_t group = 0;
  Part part = Part::kWhole;
};

std::vector<Unit> units_of(const Graph& graph) {
  std::vector<Unit> units;
  for (size_t g = 0; g < graph.groups().size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    if (role_of(graph.node(graph.groups()[g].head).layer.operation) == Role::kRecurrence) {
      units.push_back({group, Part::kProducts});
      units.push_back({group, Part::kSteps});
    } else {
      units.push_back({group, Part::kWhole});
    }
  }
  return units;
}

// The parts in units [from, to), two of one layer as the layer.
std::vector<Unit> parts_between(const std::vector<Unit>& units, size_t from, size_t to) {
  std::vector<Unit> parts;
  for (size_t u = from; u < to; ++u) {
    const bool joins = u > from && units[u].part == Part::kSteps;
    if (joins) parts.back().part = Part::kWhole;
    if (!joins) parts.push_back(units[u]);
  }
  return parts;
}

Shard shard_of(const Graph& graph, const Unit& unit, int64_t device) {
  const Node& head = graph.node(graph.groups()[static_cast<size_t>(unit.group)].head);
  Shard shard;
  shard.device = device;
  shard.layer = head.layer.name;
  if (unit.part != Part::kSteps) shard.blocks = {{{0, head.input_shapes[0].channels}, {0, sum_shape(head).channels}}};
  return shard;
}

class KindSearch {
 public:
  KindSearch(const PlanTask& task, int64_t micro_batch)
      : task_(task),
        graph_(*task.graph),
        units_(units_of(graph_)),
        devices_(task.models.size()),
        request_{.cluster = task.cluster,
                 .alignment = task.options.alignment,
                 .mini_batch = task.options.mini_batch,
                 .micro_batch = micro_batch,
                 .optimizer = task.options.optimizer,
                 .arithmetic = task.options.arithmetic} {
    request_.windows = default_windows(static_cast<int64_t>(devices_), request_.alignment, request_.mini_batch / micro_batch);
  }

  // Seconds a sample of the best ring, and its cuts; infinite where nothing fits, and reason() says why.
  double solve() {
    count_links();
    const size_t units = units_.size();
    std::vector<std::vector<double>> best(devices_ + 1, std::vector<double>(units + 1, kNever));
    std::vector<std::vector<size_t>> from(devices_ + 1, std::vector<size_t>(units + 1, 0));
    best[0][0] = 0;
    for (size_t d = 0; d < devices_; ++d)
      for (size_t begin = d; begin < units; ++begin) {
        const double before = std::max(best[d][begin], d > 0 ? link_seconds(d - 1, begin) : 0);
        if (before == kNever) continue;
        for (size_t end = begin + 1; end <= units; ++end) {
          if (!may_have(d, begin, end)) continue;
          const double period = std::max(before, segment_seconds(d, begin, end));
          if (period < best[d + 1][end]) {
            best[d + 1][end] = period;
            from[d + 1][end] = begin;
          }
        }
      }
    cuts_.assign(devices_ + 1, units);
    for (size_t d = devices_; d > 0; --d) cuts_[d - 1] = from[d][cuts_[d]];
    return best[devices_][units];
  }

  Plan plan(double bound) const {
    std::vector<Shard> shards;
    PlanRequest request = request_;
    for (size_t d = 0; d < devices_; ++d) {
      for (const Unit& unit : parts_between(units_, cuts_[d], cuts_[d + 1])) {
        Shard shard = shard_of(graph_, unit, static_cast<int64_t>(d));
        const ShardCost cost = task_.models[d]->cost_of(question(d, unit).asked);
        shard.unit = cost.unit;
        shard.phases = cost.phases;
        shard.resources = cost.resources;
        shard.buffers = cost.buffers;
        shard.act_ram_bits = cost.act_ram_bits;
        shards.push_back(std::move(shard));
      }
      if (lends(d, cuts_[d + 1])) add_lent_steps(d, units_[cuts_[d + 1]], shards.back(), request.remote_homes);
    }
    Plan plan = assemble_plan(graph_, request, std::move(shards));
    plan.strategy = std::string(name_of(Strategy::kKind));
    plan.accounting = task_.options.accounting;
    plan.lower_bound_seconds_per_image = bound;
    for (const CostModel* model : task_.models) add_figures_of(*model, plan);
    return plan;
  }

  Reason reason() const {
    Reason reason = lack_;
    if (const Reason seats = seats_of_boards(); !seats.text.empty()) return seats;
    if (reason.text.empty()) {
      reason.resource = "devices";
      reason.missing = 1;
      reason.text = fmt::format(
          "no way to cut {} gives every board the steps of one recurrent layer and every other device a layer or a part of one; write the "
          "cluster in the order of the layers",
          graph_.model().name);
    }
    const auto most = static_cast<double>(units_.size());
    if (static_cast<double>(devices_) > most) {
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
  // Boards make steps alone: somebody has to multiply before, and to go on behind.
  Reason seats_of_boards() const {
    Reason reason;
    for (size_t d = 0; d < devices_ && reason.text.empty(); ++d) {
      if (!is_board(d) || (d > 0 && !is_board(d - 1) && (d + 1 < devices_ || units_.back().part == Part::kSteps))) continue;
      reason.device = static_cast<int64_t>(d);
      reason.resource = "devices";
      reason.missing = 1;
      reason.text = fmt::format(
          "device {} ({}) would make the steps of a recurrent layer, which takes a CPU or GPU before it for the products with the "
          "inputs{}; "
          "write the cluster in the order of the layers, as cpu+{}+cpu",
          d, task_.cluster.devices[d].device, d + 1 < devices_ || d == 0 ? "" : " and one behind it for the layers that follow",
          task_.cluster.devices[d].device);
    }
    return reason;
  }

  // A question borrows blocks and layers.
  struct Asked {
    std::vector<Block> blocks;
    std::vector<const Node*> after;
    ShardQuestion asked;
  };
  Asked question(size_t device, const Unit& unit) const {
    const LayerGroup& group = graph_.groups()[static_cast<size_t>(unit.group)];
    const Node& head = graph_.node(group.head);
    Asked made;
    const int64_t sums = sum_shape(head).channels;
    // The steps read all sums and no input.
    made.blocks = {{{0, unit.part == Part::kSteps ? 0 : head.input_shapes[0].channels}, {0, sums}}};
    made.asked.owner = unit.part != Part::kProducts;
    for (const int64_t node : group.after)
      if (made.asked.owner) made.after.push_back(&graph_.node(node));
    made.asked.node = &head;
    made.asked.blocks = made.blocks;
    made.asked.after = made.after;
    made.asked.micro_batch = request_.micro_batch;
    made.asked.window = request_.windows[device];
    made.asked.optimizer_slots = task_.options.optimizer.slots();
    made.asked.arithmetic = task_.options.arithmetic;
    return made;
  }

  bool is_board(size_t device) const { return task_.models[device]->dedicated_engines(); }
  // A board makes the steps of one layer, whose x W is on the CPU or GPU before it; the last device of all is none.
  bool may_have(size_t device, size_t begin, size_t end) const {
    if (!is_board(device)) return true;
    return end == begin + 1 && units_[begin].part == Part::kSteps && device > 0 && !is_board(device - 1);
  }
  // Ends where a board makes the steps of its last layer: the device keeps their parameters, and makes their gradients.
  bool lends(size_t device, size_t end) const {
    return device + 1 < devices_ && end < units_.size() && is_board(device + 1) && !is_board(device) && units_[end].part == Part::kSteps;
  }
  // The gradients alone of steps that another device makes, as this one would make them.
  ShardCost gradients_of(size_t device, const Unit& steps) const {
    Node behind = graph_.node(graph_.groups()[static_cast<size_t>(steps.group)].head);
    behind.input_error_needed = true;  // or the way back through time would be among them
    Asked made = question(device, steps);
    made.asked.node = &behind;
    made.asked.after = {};
    ShardCost cost = task_.models[device]->cost_of(made.asked);
    std::erase_if(cost.phases, [](const PhaseEngine& engine) { return engine.phase != Phase::kParameterGradient; });
    return cost;
  }
  // Into the shard of its x W: the time of those gradients, and the memory of the steps' parameters.
  void add_lent_steps(size_t device, const Unit& steps, Shard& shard, std::vector<ParameterHome>& homes) const {
    const ShardCost cost = gradients_of(device, steps);
    for (const PhaseEngine& more : cost.phases) {
      const auto found = std::ranges::find(shard.phases, more.phase, &PhaseEngine::phase);
      if (found == shard.phases.end())
        shard.phases.push_back(more);
      else
        found->picoseconds_per_unit += more.picoseconds_per_unit;
    }
    const std::string stored = "parameter_" + task_.models[device]->capacities()[task_.models[device]->parameter_memory()].name;
    const auto amount = [&](std::vector<NamedAmount>& amounts) {
      const auto found = std::ranges::find(amounts, stored, &NamedAmount::name);
      return found == amounts.end() ? nullptr : &*found;
    };
    std::vector<NamedAmount> theirs = cost.resources;
    if (NamedAmount* const own = amount(shard.resources), * const more = amount(theirs); own != nullptr && more != nullptr)
      own->amount += more->amount;
    const Node& head = graph_.node(graph_.groups()[static_cast<size_t>(steps.group)].head);
    for (ParameterHome& home : homes_before_steps(head, static_cast<int64_t>(device) + 1)) homes.push_back(std::move(home));
  }

  const ShardDemand& demand(size_t device, const Unit& unit) {
    const auto key = std::pair{device, 3 * unit.group + static_cast<int64_t>(unit.part)};
    const auto [found, fresh] = demands_.try_emplace(key);
    if (fresh) found->second = task_.models[device]->demand_of(question(device, unit).asked);
    return found->second;
  }

  double segment_seconds(size_t device, size_t begin, size_t end) {
    const CostModel& model = *task_.models[device];
    double seconds = 0;
    std::array<double, kMostResources> amounts{};
    for (const Unit& unit : parts_between(units_, begin, end)) {
      const ShardDemand& taken = demand(device, unit);
      seconds += taken.seconds;
      for (size_t i = 0; i < amounts.size(); ++i) amounts[i] += taken.amounts[i];
      amounts[model.parameter_memory()] += taken.parameters;
    }
    if (is_board(device)) {
      const Unit& steps = units_[begin];
      const std::string why = model.steps_refusal(question(device, steps).asked);
      if (!why.empty()) {
        refuse(device, "weight_words", 1,
               fmt::format("device {} ({}): layer \"{}\" {}; take a larger board, or leave the layer to a CPU or GPU", device,
                           task_.cluster.devices[device].device,
                           graph_.node(graph_.groups()[static_cast<size_t>(steps.group)].head).layer.name, why));
        return kNever;
      }
    }
    if (lends(device, end)) {
      const ShardDemand& steps = demand(device, units_[end]);
      amounts[model.parameter_memory()] += steps.parameters;
      for (const PhaseEngine& gradients : gradients_of(device, units_[end]).phases)
        seconds += 1e-12 * static_cast<double>(gradients.picoseconds_per_unit);
    }
    const std::span<const NamedAmount> capacities = model.capacities();
    for (size_t i = 0; i < capacities.size(); ++i) {
      const double missing = amounts[i] - capacities[i].amount;
      if (missing <= 0) continue;
      const std::string& first = graph_.node(graph_.groups()[static_cast<size_t>(units_[begin].group)].head).layer.name;
      refuse(device, capacities[i].name, missing,
             fmt::format("device {} ({}) would need {:.4g} {} for what begins with layer \"{}\", and has {:.4g}; use more devices", device,
                         task_.cluster.devices[device].device, amounts[i], capacities[i].name, first, capacities[i].amount));
      return kNever;
    }
    return seconds;
  }
  // What lacks least is what is told.
  void refuse(size_t device, const std::string& resource, double missing, std::string text) {
    if (!lack_.text.empty() && missing >= lack_.missing) return;
    lack_ = {};
    lack_.device = static_cast<int64_t>(device);
    lack_.resource = resource;
    lack_.missing = missing;
    lack_.text = std::move(text);
  }

  // What crosses a cut depends on the cut alone: taken from a plan of two devices.
  void count_links() {
    bits_.assign(units_.size() + 1, {0, 0});
    lent_bits_ = bits_;
    PlanRequest two = request_;
    two.cluster = uniform_cluster("cpu", 2);
    two.windows.clear();
    for (size_t cut = 1; cut < units_.size(); ++cut) {
      two.remote_homes.clear();
      count_link(two, cut, bits_[cut]);
      if (units_[cut].part != Part::kSteps) continue;
      two.remote_homes = homes_before_steps(graph_.node(graph_.groups()[static_cast<size_t>(units_[cut].group)].head), 1);
      count_link(two, cut, lent_bits_[cut]);
    }
  }
  void count_link(const PlanRequest& two, size_t cut, std::pair<double, double>& bits) const {
    std::vector<Shard> shards;
    for (const Unit& unit : parts_between(units_, 0, cut)) shards.push_back(shard_of(graph_, unit, 0));
    for (const Unit& unit : parts_between(units_, cut, units_.size())) shards.push_back(shard_of(graph_, unit, 1));
    const Plan plan = assemble_plan(graph_, two, std::move(shards));
    for (const Flow& flow : plan.flows) (flow.direction == Direction::kForward ? bits.first : bits.second) += bits_per_sample(flow, plan);
  }
  double link_seconds(size_t link, size_t cut) const {
    const LinkEntry& entry = task_.cluster.links[link];
    const auto& [forward, backward] = (lends(link, cut) ? lent_bits_ : bits_)[cut];
    const double shared = entry.shared_gbps > 0 ? (forward + backward) / (1e9 * entry.shared_gbps) : 0;
    return std::max({forward / (1e9 * entry.forward_gbps), backward / (1e9 * entry.backward_gbps), shared});
  }

  const PlanTask& task_;
  const Graph& graph_;
  std::vector<Unit> units_;
  size_t devices_;
  PlanRequest request_;
  std::map<std::pair<size_t, int64_t>, ShardDemand> demands_;
  // By cut: forward and back, of a sample; and where the device before keeps the parameters of steps behind the cut.
  std::vector<std::pair<double, double>> bits_, lent_bits_;
  std::vector<size_t> cuts_;
  Reason lack_;
};

void check_task(const PlanTask& task) {
  if (task.models.empty() || task.models.size() != task.cluster.devices.size())
    fail(ErrorCode::kUsage, "a cluster of {} devices comes with {} cost models", task.cluster.devices.size(), task.models.size());
  if (!task.options.pins.empty() || !task.options.cuts.empty())
    fail(ErrorCode::kUsage, "strategy kind finds its own cuts; leave --pin and --cut out, or plan with hybrid");
  const auto recurrent = [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; };
  if (std::ranges::none_of(task.graph->nodes(), recurrent))
    fail(ErrorCode::kUsage,
         "strategy kind divides recurrent layers into products with the inputs and steps, and {} has none; plan with hybrid",
         task.graph->model().name);
}

}  // namespace

Outcome plan_by_kind(const PlanTask& task) {
  const auto start = std::chrono::steady_clock::now();
  check_task(task);
  Outcome outcome;
  const bool full = task.options.accounting == Accounting::kFull;
  if (full && !task.mini_batch_time)
    fail(ErrorCode::kUsage, "full accounting needs to know what a mini-batch takes: give PlanTask::mini_batch_time, or account as FPDeep");
  for (const int64_t micro_batch : micro_batches_to_try(task)) {
    KindSearch search(task, micro_batch);
    const double period = search.solve();
    if (period == kNever) {
      if (!outcome.feasible) outcome.reason = search.reason();
      continue;
    }
    Plan plan = search.plan(period);
    if (full) {
      const MiniBatchTime time = task.mini_batch_time(plan, *task.graph);
      plan.constants.push_back({std::string(kMiniBatchSeconds), time.seconds, time.origin});
    }
    PlanSummary summary = summarize(plan, *task.graph);
    plan.optimality_gap = std::max(0.0, summary.seconds_per_image / period - 1);
    summary.optimality_gap = plan.optimality_gap;
    if (outcome.feasible && summary.images_per_second <= outcome.summary.images_per_second) continue;
    outcome.feasible = true;
    outcome.plan = std::move(plan);
    outcome.summary = std::move(summary);
  }
  if (outcome.feasible) outcome.reason = {};
  outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace millrace
