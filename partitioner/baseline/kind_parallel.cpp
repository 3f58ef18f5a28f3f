#include "partitioner/baseline/kind_parallel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/error.h"
#include "core/plan/assemble.h"
#include "core/plan/flow_load.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/schedule.h"
#include "partitioner/baseline/unit_split.h"
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

// A device's run of units, or that of several boards that share the steps of one layer.
struct Stretch {
  size_t device = 0, begin = 0, end = 0;
  std::vector<ChannelRange> units;  // of each of several boards
  size_t boards() const { return std::max<size_t>(1, units.size()); }
};

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
    std::vector<std::vector<Stretch>> last(devices_ + 1, std::vector<Stretch>(units + 1));
    best[0][0] = 0;
    const auto reach = [&](double period, Stretch stretch) {
      const size_t to = stretch.device + stretch.boards(), end = stretch.end;
      if (period >= best[to][end]) return;
      best[to][end] = period;
      last[to][end] = std::move(stretch);
    };
    for (size_t d = 0; d < devices_; ++d)
      for (size_t begin = 0; begin < units; ++begin) {
        const double before = std::max(best[d][begin], d > 0 ? link_seconds(d - 1, begin) : 0);
        if (before == kNever) continue;
        for (size_t end = begin + 1; end <= units; ++end)
          if (may_have(d, begin, end)) reach(std::max(before, segment_seconds(d, begin, end)), {d, begin, end, {}});
        if (!may_have(d, begin, begin + 1) || !is_board(d)) continue;
        for (size_t boards = 2; d + boards <= devices_ && is_board(d + boards - 1); ++boards)
          if (const auto split = shared_by(d, boards, begin)) reach(std::max(before, split->seconds), {d, begin, begin + 1, split->units});
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

  Plan plan(double bound) const {
    std::vector<Shard> shards;
    PlanRequest request = request_;
    const auto add = [&](size_t device, const Unit& unit, const ShardQuestion& asked) {
      Shard shard = shard_of(graph_, unit, static_cast<int64_t>(device));
      const ShardCost cost = task_.models[device]->cost_of(asked);
      shard.units = asked.units;
      shard.unit = cost.unit;
      shard.phases = cost.phases;
      shard.resources = cost.resources;
      shard.buffers = cost.buffers;
      shard.act_ram_bits = cost.act_ram_bits;
      shards.push_back(std::move(shard));
    };
    for (size_t s = 0; s < stretches_.size(); ++s) {
      const Stretch& stretch = stretches_[s];
      const size_t d = stretch.device;
      if (stretch.units.empty()) {
        for (const Unit& unit : parts_between(units_, stretch.begin, stretch.end)) add(d, unit, question(d, unit).asked);
      } else {
        const Unit& steps = units_[stretch.begin];
        for (size_t b = 0; b < stretch.boards(); ++b) {
          request.windows[d + b] = request.windows[d + stretch.boards() - 1];
          add(d + b, steps, shared_question(d + b, steps, d + stretch.boards() - 1, stretch.units[b]).asked);
        }
      }
      if (lends(d, stretch.end)) add_lent_steps(d, units_[stretch.end], shards.back(), stretches_[s + 1].units, request.remote_homes);
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
    // Boards side by side share what one of them would make.
    size_t takers = 0;
    for (size_t d = 0; d < devices_; ++d) takers += d == 0 || !is_board(d) || !is_board(d - 1) ? size_t{1} : 0;
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
  // Boards make steps alone: somebody has to multiply before, and to go on behind.
  Reason seats_of_boards() const {
    Reason reason;
    for (size_t d = 0; d < devices_ && reason.text.empty(); ++d) {
      if (!is_board(d) || (d > 0 && (d + 1 < devices_ || units_.back().part == Part::kSteps))) continue;
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

  // Of steps that boards up to `last` share: what follows the layer is on that one, and all take every micro-batch together.
  Asked shared_question(size_t device, const Unit& steps, size_t last, const ChannelRange& units) const {
    Asked made = question(device, steps);
    made.asked.blocks = made.blocks;
    made.asked.units = units;
    made.asked.owner = device == last;
    if (device != last) made.after.clear();
    made.asked.after = made.after;
    made.asked.window = request_.windows[last];
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
  void add_lent_steps(size_t device, const Unit& steps, Shard& shard, const std::vector<ChannelRange>& units,
                      std::vector<ParameterHome>& homes) const {
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
    const auto first = static_cast<int64_t>(device) + 1;
    for (ParameterHome& home : units.empty() ? homes_before_steps(head, first) : homes_before_steps(head, first, units))
      homes.push_back(std::move(home));
  }

  // The best way for `boards` boards from `device` on to share those steps; none where they cannot, which is told.
  std::optional<BestSplit> shared_by(size_t device, size_t boards, size_t unit) {
    const Unit& steps = units_[unit];
    const Node& head = graph_.node(graph_.groups()[static_cast<size_t>(steps.group)].head);
    const auto& cell = std::get<Recurrent>(head.layer.operation);
    const size_t last = device + boards - 1;
    if (cell.hidden < static_cast<int64_t>(boards)) return std::nullopt;
    UnitSplit split{.cells = cell.hidden, .boards = boards, .seconds = {}, .exchange = {}, .links = {}};
    split.seconds = [&](size_t board, int64_t units) { return board_seconds(device + board, steps, last, units); };
    const std::vector<Link> links = links_of(task_.cluster);
    const int64_t bits = request_.micro_batch * cell.directions() * bits_of(task_.options.arithmetic.compute);
    split.exchange = [&, bits](size_t board, int64_t most) {
      const auto of = [&](int64_t row) {
        return exchange_seconds(links, static_cast<int64_t>(device), static_cast<int64_t>(last), static_cast<int64_t>(device + board), row);
      };
      const double step = of(most * bits) + (head.error_needed ? of(most * bits * error_vectors_of(cell)) : 0);
      return step * static_cast<double>(sum_shape(head).plane()) / static_cast<double>(request_.micro_batch);
    };
    for (size_t l = 0; l + 1 < boards; ++l)
      for (const auto& [base, slope] : lines_between(unit, task_.cluster.links[device + l])) split.links.push_back({l, base, slope});
    std::optional<BestSplit> best = best_split(split);
    if (!best) {
      const int64_t share = divided_up(cell.hidden, static_cast<int64_t>(boards));
      const Asked asked = shared_question(last, steps, last, {0, share});
      const std::string why = task_.models[last]->steps_refusal(asked.asked);
      if (!why.empty()) refuse_steps(last, steps, why);
    }
    return best;
  }
  static int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

  // Of so many cells' steps, without what they wait for others' rows; infinite where they do not fit.
  double board_seconds(size_t device, const Unit& steps, size_t last, int64_t units) {
    const auto key = std::tuple{task_.models[device], request_.windows[last], device == last, steps.group, units};
    const auto [found, fresh] = shares_.try_emplace(key, kNever);
    if (!fresh) return found->second;
    const CostModel& model = *task_.models[device];
    const Asked made = shared_question(device, steps, last, {0, units});
    if (!model.steps_refusal(made.asked).empty()) return kNever;
    const ShardDemand taken = model.demand_of(made.asked);
    const std::span<const NamedAmount> capacities = model.capacities();
    for (size_t i = 0; i < capacities.size(); ++i)
      if (taken.amounts[i] > capacities[i].amount) return kNever;
    return found->second = model.cost_of(made.asked).seconds_per_sample;
  }

  // What a link between two boards that share the steps takes, by the cells before it: from plans of one cell before it, and of one behind.
  std::vector<std::pair<double, double>> lines_between(size_t unit, const LinkEntry& entry) {
    auto [found, fresh] = shared_bits_.try_emplace(unit);
    const int64_t cells =
        std::get<Recurrent>(graph_.node(graph_.groups()[static_cast<size_t>(units_[unit].group)].head).layer.operation).hidden;
    if (fresh)
      for (const int64_t before : {int64_t{1}, cells - 1}) found->second.push_back(bits_between(unit, before, cells));
    const auto [f1, b1] = found->second[0];
    const auto [f2, b2] = found->second[1];
    const auto line = [&](double at_one, double at_last, double gbps) {
      const double slope = cells > 2 ? (at_last - at_one) / static_cast<double>(cells - 2) : 0;
      return std::pair{(at_one - slope) / (1e9 * gbps), slope / (1e9 * gbps)};
    };
    std::vector<std::pair<double, double>> lines = {line(f1, f2, entry.forward_gbps), line(b1, b2, entry.backward_gbps)};
    if (entry.shared_gbps > 0) lines.push_back(line(f1 + b1, f2 + b2, entry.shared_gbps));
    return lines;
  }
  std::pair<double, double> bits_between(size_t unit, int64_t before, int64_t cells) const {
    const std::vector<ChannelRange> units = {{0, before}, {before, cells}};
    std::vector<Shard> shards;
    for (const Unit& part : parts_between(units_, 0, unit)) shards.push_back(shard_of(graph_, part, 0));
    for (const int64_t board : {0, 1}) {
      shards.push_back(shard_of(graph_, units_[unit], 1 + board));
      shards.back().units = units[static_cast<size_t>(board)];
    }
    for (const Unit& part : parts_between(units_, unit + 1, units_.size())) shards.push_back(shard_of(graph_, part, 3));
    PlanRequest request = request_;
    request.cluster = uniform_cluster("cpu", unit + 1 < units_.size() ? 4 : 3);
    request.windows.clear();
    request.remote_homes = homes_before_steps(graph_.node(graph_.groups()[static_cast<size_t>(units_[unit].group)].head), 1, units);
    const Plan plan = assemble_plan(graph_, request, std::move(shards));
    std::pair<double, double> bits{0, 0};
    for (const Flow& flow : plan.flows)
      if (flow.link == 1) (flow.direction == Direction::kForward ? bits.first : bits.second) += bits_per_sample(flow, plan);
    return bits;
  }

  const ShardDemand& demand(size_t device, const Unit& unit) {
    const auto key = std::pair{device, 3 * unit.group + static_cast<int64_t>(unit.part)};
    const auto [found, fresh] = demands_.try_emplace(key);
    if (fresh) found->second = task_.models[device]->demand_of(question(device, unit).asked);
    return found->second;
  }

  double segment_seconds(size_t device, size_t begin, size_t end) {
    std::array<double, kMostResources> amounts{};
    return segment_seconds(device, begin, end, amounts);
  }
  double segment_seconds(size_t device, size_t begin, size_t end, std::array<double, kMostResources>& amounts) {
    const CostModel& model = *task_.models[device];
    double seconds = 0;
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
        refuse_steps(device, steps, why);
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
  void refuse_steps(size_t device, const Unit& steps, const std::string& why) {
    refuse(device, "weight_words", 1,
           fmt::format("device {} ({}): layer \"{}\" {}; take a larger board, more of them in a row, or leave the layer to a CPU or GPU",
                       device, task_.cluster.devices[device].device,
                       graph_.node(graph_.groups()[static_cast<size_t>(steps.group)].head).layer.name, why));
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
  std::vector<Stretch> stretches_;
  std::map<std::tuple<const CostModel*, int64_t, bool, int64_t, int64_t>, double> shares_;
  std::map<size_t, std::vector<std::pair<double, double>>> shared_bits_;  // by unit: with one cell before the link, and with one behind
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
