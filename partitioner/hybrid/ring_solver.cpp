#include "partitioner/hybrid/ring_solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/schedule.h"
#include "partitioner/hybrid/joint_bisection.h"
#include "partitioner/hybrid/lifetimes.h"

namespace millrace {
namespace {

constexpr double kShortestPeriod = 1e-15;   // a femtosecond: what is shorter is no answer to anything
constexpr double kPeriodTolerance = 1e-12;  // relative
constexpr double kQuickTolerance = 1e-5;
constexpr double kShareTolerance = 1e-9;
constexpr double kFirstPeriod = 1e-3;
// Looks for periods around the least one, until it is known so closely, each so far beside the one before and then twice as far. The part
// of the work that is done grows with such a power of the period; where it grows less, memory is short.
constexpr int kMostLooks = 8;
constexpr int64_t kMostToLook = 200;  // devices: of more every look takes as long
constexpr double kNear = 0.02, kBeside = 0.01, kMostLonger = 4, kUsualGrowth = 1.8, kMostGrowth = 2.5, kLeastGrowth = 0.6,
                 kAlmostAll = 0.95;
constexpr double kLongerThanBusy = 1.5;
constexpr double kLongToWeigh = 0.1;  // up to here, in seconds, a shorter period is mostly enough and takes less time to try

Chain chain_of(const PlanTask& task) { return Chain(*task.graph); }

// Where boards stream samples between devices that take micro-batches: how many micro-batches are on their way from a device to the
// ring's end and back. A device that takes turns has one at work. A run of boards passes rows on as they come, but what follows it waits
// for a whole micro-batch, and so do its own errors, which come all at once: one each way. At the ring's end errors follow at once. On top
// comes what a sample takes to pass. More than that would have to wait in FIFOs, which hold rows.
std::vector<int64_t> mixed_windows(const PlanTask& task, const std::vector<double>& lifetimes, int64_t micro_batch, int64_t most) {
  std::vector<int64_t> windows(task.models.size());
  const double passing = (*std::max_element(lifetimes.begin(), lifetimes.end()) + 1) / static_cast<double>(micro_batch);
  double under_way = 0;
  for (size_t d = windows.size(); d-- > 0;) {
    const bool last = d + 1 == windows.size();
    if (!task.models[d]->dedicated_engines()) {
      under_way += 1;
    } else if (last || !task.models[d + 1]->dedicated_engines()) {
      under_way += passing + (last ? 1 : 2);
    }
    windows[d] = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(under_way - 1e-9)), 1, most);
  }
  return windows;
}

std::vector<int64_t> windows_of(const PlanTask& task, const std::vector<double>& lifetimes, int64_t micro_batch) {
  if (micro_batch < 1 || task.options.mini_batch < micro_batch || task.options.mini_batch % micro_batch != 0)
    fail(ErrorCode::kUsage, "mini-batch {} is not a multiple of micro-batch {}; choose sizes that divide", task.options.mini_batch,
         micro_batch);
  const int64_t micro_batches = task.options.mini_batch / micro_batch;
  const auto streams = [](const CostModel* model) { return model->dedicated_engines(); };
  const bool some_stream = std::any_of(task.models.begin(), task.models.end(), streams);
  const bool all_stream = std::all_of(task.models.begin(), task.models.end(), streams);
  if (some_stream && !all_stream && task.options.alignment != Alignment::kFlush)
    return mixed_windows(task, lifetimes, micro_batch, drains(task.options.alignment) ? micro_batches : micro_batches + 1);
  return default_windows(static_cast<int64_t>(task.models.size()), task.options.alignment, micro_batches);
}

// As --cut has it behind the link.
std::string cut_words(const Chain& chain, int64_t position) {
  const Cut cut = chain.cut_at(position);
  std::string words = chain.head_of(cut.group).layer.name;
  if (cut.channel > 0 || cut.outputs > 0) words += fmt::format(":{}", cut.channel);
  if (cut.outputs > 0) words += fmt::format(":{}", cut.outputs);
  return words;
}

// Fails where the devices beside the link do not divide the layer there, or not there, naming the nearest places where they do.
void check_place(const PlanTask& task, const Chain& chain, int64_t link, int64_t position) {
  const int64_t group = chain.group_at(position);
  if (position == chain.begin_of(group) || position == chain.end()) return;
  int64_t below = chain.begin_of(group), above = chain.end_of(group);
  const auto refuse = [&](const std::string& why) {
    std::string nearest;
    if (below > 0 || task.options.allow_empty) nearest = fmt::format("{}={}", link, cut_words(chain, below));
    if (above < chain.end()) nearest += fmt::format("{}{}={}", nearest.empty() ? "" : " or ", link, cut_words(chain, above));
    fail(ErrorCode::kUsage, "a cut of link {} at {}: {}; {}", link, cut_words(chain, position), why,
         nearest.empty() ? "leave it out" : "the nearest that it can keep is " + nearest);
  };
  const auto named = [&](int64_t device) { return fmt::format("device {} ({})", device, fast_item(task.cluster.devices, device).device); };
  const Node& head = chain.head_of(group);
  if (task.options.strategy == Strategy::kLayer) refuse(fmt::format("--strategy layer keeps layer \"{}\" whole", head.layer.name));
  for (const int64_t device : {link, link + 1})
    if (!fast_item(task.models, device)->divides(head)) refuse(fmt::format("{} keeps layer \"{}\" whole", named(device), head.layer.name));
  const auto quantum = [&](int64_t device) { return fast_item(task.models, device)->channel_quantum(); };
  const int64_t device = quantum(link) >= quantum(link + 1) ? link : link + 1;
  for (const Progression& places : chain.places_inside(group, quantum(device))) {
    if (position >= places.begin && position <= places.end && (position - places.begin) % places.step == 0) return;
    if (position > places.begin) below = places.begin + (std::min(position, places.end) - places.begin) / places.step * places.step;
    if (position < places.end) above = position < places.begin ? places.begin : below + places.step;
  }
  refuse(fmt::format("{} divides channels by {} at a time", named(device), quantum(device)));
}

// Orders given by hand, as the positions that each link may cut at.
CutRules rules_of(const PlanTask& task, const Chain& chain) {
  const Graph& graph = *task.graph;
  const auto devices = static_cast<int64_t>(task.models.size());
  CutRules rules{.allow_empty = task.options.allow_empty, .whole_layers = task.options.strategy == Strategy::kLayer};
  if (task.options.pins.empty() && task.options.cuts.empty()) return rules;
  const auto group_of = [&](const std::string& layer) {
    const int64_t node = graph.find(layer);
    std::vector<std::string> names;
    for (const Node& known : graph.nodes()) names.push_back(known.layer.name);
    if (node < 0) fail(ErrorCode::kUsage, "model {} has no layer \"{}\"{}", graph.model().name, layer, suggestion(layer, names));
    return graph.node(node).group;
  };
  const size_t links = to_size(std::max<int64_t>(devices - 1, 0));
  rules.windows.assign(links, {0, chain.end(), 1});
  std::vector<std::string> first_by(links), last_by(links);  // who asks for the window's ends
  const auto keep_from = [&](int64_t link, int64_t position, const std::string& asked) {
    if (position < fast_item(rules.windows, link).begin) return;
    fast_item(rules.windows, link).begin = position;
    fast_item(first_by, link) = asked;
  };
  const auto keep_to = [&](int64_t link, int64_t position, const std::string& asked) {
    if (position > fast_item(rules.windows, link).end) return;
    fast_item(rules.windows, link).end = position;
    fast_item(last_by, link) = asked;
  };
  for (const auto& [layer, device] : task.options.pins) {
    if (device < 0 || device >= devices)
      fail(ErrorCode::kUsage, "layer \"{}\" is pinned to device {}; the cluster has devices 0 to {}", layer, device, devices - 1);
    const int64_t group = group_of(layer);
    const std::string asked = fmt::format("the pin of layer \"{}\" to device {}", layer, device);
    for (int64_t link = 0; link + 1 < devices; ++link) {
      if (link < device) keep_to(link, chain.begin_of(group), asked);
      if (link >= device) keep_from(link, chain.end_of(group), asked);
    }
  }
  for (const auto& [link, cut] : task.options.cuts) {
    if (link < 0 || link >= devices - 1)
      fail(ErrorCode::kUsage, "a cut is given for link {}; the cluster has links 0 to {}", link, devices - 2);
    const int64_t position = chain.position_of({group_of(cut.layer), cut.channel, cut.outputs});
    check_place(task, chain, link, position);
    const std::string asked = fmt::format("the cut of link {} at {}", link, cut_words(chain, position));
    keep_from(link, position, asked);
    keep_to(link, position, asked);
  }
  int64_t furthest = 0;  // of the links so far, the one that cuts last
  for (int64_t link = 0; link + 1 < devices; ++link) {
    if (fast_item(rules.windows, link).begin > fast_item(rules.windows, furthest).begin) furthest = link;
    if (fast_item(rules.windows, furthest).begin <= fast_item(rules.windows, link).end) continue;
    fail(
        ErrorCode::kUsage,
        "{} and {} exclude each other: devices have layers in the model's order, each with what runs after it; drop or move one of the two",
        fast_item(first_by, furthest), fast_item(last_by, link));
  }
  return rules;
}

HomeTraffic home_traffic_of_size(const PlanTask& task, int64_t micro_batch, int64_t window) {
  const ScheduleSpec spec{.alignment = task.options.alignment, .micro_batches = task.options.mini_batch / micro_batch, .window = window};
  return {.allowed = task.options.balance != Balance::kNever,
          .bits_per_element = static_cast<double>(bits_of(task.options.arithmetic.wire)),
          .passes_per_sample = static_cast<double>(parameter_passes_per_mini_batch(spec)) / static_cast<double>(task.options.mini_batch),
          .gradients_per_sample = 1.0 / static_cast<double>(micro_batch)};
}

HomeTraffic home_traffic_of(const PlanTask& task, const std::vector<double>& lifetimes, int64_t micro_batch, int64_t window) {
  HomeTraffic traffic = home_traffic_of_size(task, micro_batch, window);
  for (const int64_t size : task.options.micro_batches) {
    const HomeTraffic of_size = home_traffic_of_size(task, size, windows_of(task, lifetimes, size).front());
    traffic.passes_per_sample = std::min(traffic.passes_per_sample, of_size.passes_per_sample);
    traffic.gradients_per_sample = std::min(traffic.gradients_per_sample, of_size.gradients_per_sample);
  }
  return traffic;
}

}  // namespace

RingSolver::RingSolver(const PlanTask& task, int64_t micro_batch)
    : task_(&task),
      micro_batch_(micro_batch),
      chain_(chain_of(task)),
      lifetimes_(activation_lifetimes(*task.graph,
                                      {.fc_barrier = task.options.fc_barrier,
                                       .instant_unpooling = task.options.fpdeep_lifetimes,
                                       .unpadded_ends = task.options.accounting == Accounting::kFull,
                                       .least_rows = task.options.accounting == Accounting::kFull && !task.options.fpdeep_lifetimes})),
      windows_(windows_of(task, lifetimes_, micro_batch)),
      segments_(chain_, task, lifetimes_, micro_batch, windows_),
      cut_loads_(chain_, bits_of(task.options.arithmetic.wire)),
      links_(links_of(task.cluster)),
      search_(segments_, cut_loads_, links_, rules_of(task, chain_)),
      traffic_(home_traffic_of(task, lifetimes_, micro_batch, windows_.front())),
      joint_(segments_, cut_loads_, links_, search_, traffic_, task.options.allow_empty),
      exhaustive_(segments_, cut_loads_, links_, search_, traffic_, task.options.allow_empty,
                  [this](int64_t device, int64_t from, int64_t to, double period, HomeProblem& problem) {
                    add_stored(device, from, to, period, true, problem);
                  }) {}

// Around the least period, found from how far devices get within others: far from it a look takes long. As wide as can be where devices do
// not answer monotonously, and of long rings.
RingSolver::Bracket RingSolver::likely_bracket(const Storage& storage) const {
  Bracket bracket{0, std::numeric_limits<double>::infinity()};
  if (segments_.devices() > kMostToLook) return bracket;
  for (int64_t d = 0; d < segments_.devices(); ++d)
    if (!segments_.is_monotone(d, /*mostly=*/true)) return bracket;
  const auto work_behind = [&](int64_t position) {
    double work = 0;
    for (int64_t g = chain_.group_at(position); g < chain_.groups(); ++g) {
      const auto units = static_cast<double>(chain_.end_of(g) - chain_.begin_of(g));
      const auto left = static_cast<double>(chain_.end_of(g) - std::max(position, chain_.begin_of(g)));
      work += static_cast<double>(chain_.head_of(g).work.forward_macs) * left / units;
    }
    return work;
  };
  const double all_work = work_behind(0);
  double period = busy_seconds(*task_) * kLongerThanBusy, before = 0, part_before = 0, part = 0, beside = kBeside;
  if (period <= 0) period = kFirstPeriod;
  for (int look = 0; look < kMostLooks && bracket.feasible > bracket.infeasible * (1 + kNear); ++look, beside *= 2) {
    const CutSearch::Reached reached = search_.reached({period, period}, storage);
    if (reached.feasible) {
      bracket.feasible = period;
      if (bracket.infeasible == 0) {
        period /= kMostLonger;
        continue;
      }
    } else {
      before = std::exchange(bracket.infeasible, period);
      part_before = std::exchange(part, all_work > 0 ? work_behind(reached.begin) / all_work : 0);
      if (part < kAlmostAll) beside = kBeside;
    }
    const bool known_twice = part > 0 && part_before > 0;
    const double growth = known_twice ? std::log(part / part_before) / std::log(bracket.infeasible / before) : kUsualGrowth;
    if (!std::isfinite(bracket.feasible) && growth < kLeastGrowth && part < kAlmostAll) break;  // no period may be long enough
    const double longer = part > 0 ? std::pow(part, -1 / std::clamp(growth, kLeastGrowth, kMostGrowth)) : kMostLonger;
    const double low = bracket.infeasible * (1 + beside);
    const double high = std::min(bracket.infeasible * kMostLonger, bracket.feasible / (1 + beside));
    period = low < high ? std::clamp(bracket.infeasible * longer, low, high) : std::sqrt(bracket.infeasible * bracket.feasible);
  }
  return bracket;
}

std::optional<RingSolver::Bracket> RingSolver::least_period(const Storage& storage, double tolerance) const {
  Bracket known = likely_bracket(storage);
  const auto feasible = [&](double period) {
    if (period <= known.infeasible || period >= known.feasible) return period >= known.feasible;
    const bool works = search_.feasible({period, period}, storage);
    (works ? known.feasible : known.infeasible) = period;
    return works;
  };
  double high = kFirstPeriod;
  double low = 0;
  if (feasible(high)) {
    low = high / 4;
    while (low > kShortestPeriod && feasible(low)) {
      high = low;
      low /= 4;
    }
  } else {
    low = high;
    high *= 4;
    while (!feasible(high)) {
      if (high > kLongestPeriod) return std::nullopt;
      low = high;
      high *= 16;
      if (high > kLongToWeigh) continue;
      // Where the bisection looks next, at shorter stretches; what works there works at the end, too.
      const double middle = std::sqrt(low * high);
      const bool works = feasible(middle);
      (works ? high : low) = middle;
      if (works) break;
    }
  }
  while (high - low > tolerance * high) {
    const double middle = high > 2 * low ? std::sqrt(low * high) : low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (feasible(middle) ? high : low) = middle;
    tell(0, (high - low) / high, tolerance);
  }
  return Bracket{low, high};
}

void RingSolver::tell(double begin, double distance, double tolerance) const {
  if (!task_->progress) return;
  const double left = std::log(std::clamp(distance, tolerance, 1.0) / tolerance) / std::log(1 / tolerance);
  task_->progress(begin + 0.5 * (1 - left));
}

double RingSolver::least_compute_period(double link_period, const Storage& storage) const {
  double high = link_period;
  double low = 0;
  // Where devices set the pace, this is the answer already.
  if (!search_.feasible({link_period * (1 - 1e-6), link_period}, storage)) return link_period;
  while (high - low > 1e-9 * high) {
    const double middle = low + (high - low) / 2;
    (search_.feasible({middle, link_period}, storage) ? high : low) = middle;
    tell(0.5, (high - low) / high, 1e-9);
  }
  return high;
}

// Of one device, with its stretch.
void RingSolver::add_stored(int64_t d, int64_t from, int64_t to, double period, bool least_room, HomeProblem& problem) const {
  const CostModel& model = segments_.model(d);
  const NamedAmount& memory = model.capacities()[model.parameter_memory()];
  HomeProblem::Device device{.capacity = memory.amount, .memory = memory.name};
  const bool off_chip = segments_.off_chip(d, from, to);
  const ShardWays ways = segments_.ways(d, from, to, period, least_room);
  double shared = 0;
  for (int64_t g = from < to ? chain_.group_at(from) : chain_.groups(); g < chain_.groups() && chain_.begin_of(g) < to; ++g) {
    const int64_t end = std::min(to, chain_.end_of(g));
    const BlockList blocks = chain_.blocks(g, std::max(from, chain_.begin_of(g)), end);
    ShardQuestion question = segments_.question(d, g, end, period, blocks);
    segments_.place_weights(d, g, ways, off_chip, question);
    const ShardDemand demand = segments_.demand_of(d, question);
    device.fixed += demand.amounts[model.parameter_memory()] - std::min(shared, demand.shared);
    shared = std::max(shared, demand.shared);
    if (demand.parameters <= 0) continue;
    HomeProblem::Weights weights{.user = d, .layer = chain_.head_of(g).layer.name, .storage = demand.parameters};
    const int64_t node = fast_item(task_->graph->groups(), g).head;
    for (const Block& block : blocks) weights.elements += weight_elements(*task_->graph, node, block);
    problem.weights.push_back(std::move(weights));
  }
  problem.devices.push_back(std::move(device));
}

HomeProblem RingSolver::home_problem(const std::vector<int64_t>& cuts, double period, bool least_room) const {
  HomeProblem problem;
  for (int64_t d = 0; d < segments_.devices(); ++d) {
    const int64_t from = d == 0 ? 0 : fast_item(cuts, d - 1);
    const int64_t to = d + 1 == segments_.devices() ? chain_.end() : fast_item(cuts, d);
    add_stored(d, from, to, period, least_room, problem);
  }
  return problem;
}

double RingSolver::link_period(const std::vector<int64_t>& cuts, const Homes& homes) const {
  double period = 0;
  for (size_t i = 0; i < cuts.size(); ++i)
    period = std::max(period, seconds_on(links_[i], traffic_.with(cut_loads_.at(cuts[i]), homes.over_link[i])));
  return period;
}

// The smallest peak whose parameter traffic fits into the period; when none does, the one that loads the links least.
std::optional<Homes> RingSolver::best_homes(const HomeProblem& problem, const std::vector<int64_t>& cuts, double period) const {
  const PlanOptions& options = task_->options;
  const Homes local = local_homes(problem);
  const bool local_fits = local.peak <= 1;
  if (options.balance == Balance::kNever) return local_fits ? std::optional(local) : std::nullopt;
  if (options.balance == Balance::kAuto && local.peak <= options.balance_target) return local;
  const auto good = [&](double share) {
    const std::optional<Homes> homes = place_homes(problem, share);
    return homes && link_period(cuts, *homes) <= period;
  };
  double high = std::min(local.peak, 1.0);
  if (!good(high)) return local_fits ? std::optional(local) : place_homes(problem, 1);
  double low = 0;
  while (high - low > kShareTolerance) {
    const double middle = low + (high - low) / 2;
    (good(middle) ? high : low) = middle;
  }
  return place_homes(problem, high);
}

std::optional<RingSolution> RingSolver::solution_of(std::vector<int64_t> cuts, const Periods& periods) const {
  RingSolution solution;
  std::optional<Homes> homes;
  for (const bool least_room : {false, true}) {
    solution.least_room = least_room;
    homes = best_homes(home_problem(cuts, periods.compute, least_room), cuts, periods.link);
    if (homes) break;
  }
  if (!homes) return std::nullopt;
  solution.feasible = true;
  solution.compute_period = periods.compute;
  solution.period = std::max(periods.compute, link_period(cuts, *homes));
  solution.cuts = std::move(cuts);
  solution.homes = std::move(*homes);
  return solution;
}

std::optional<RingSolution> RingSolver::solution_as_kept(const ExhaustiveAnswer& answer, const Periods& periods) const {
  std::optional<Homes> homes = homes_as_kept(home_problem(answer.cuts, periods.compute, true), answer.kept);
  if (!homes) return std::nullopt;
  RingSolution solution;
  solution.feasible = true;
  solution.cuts = answer.cuts;
  solution.compute_period = periods.compute;
  solution.least_room = true;
  solution.period = std::max(periods.compute, link_period(answer.cuts, *homes));
  solution.homes = std::move(*homes);
  return solution;
}

std::optional<RingSolution> RingSolver::solution_at(const Periods& periods, const Storage& storage) const {
  std::optional<std::vector<int64_t>> cuts = search_.cuts_at(periods, storage);
  if (!cuts) return std::nullopt;
  return solution_of(std::move(*cuts), periods);
}

// Where parameters count that can live elsewhere than with their user.
Storage RingSolver::anywhere() const {
  const bool never = task_->options.balance == Balance::kNever;
  return {.parameters = never, .spared_off_chip = never};
}

bool RingSolver::counts_engines() const {
  for (int64_t d = 0; d < segments_.devices(); ++d)
    if (segments_.enlarges(d)) return true;
  return false;
}

double RingSolver::longest_ruled_out(double period, double known) const {
  constexpr double kCloseEnough = 1e-4;
  Storage storage = anywhere();
  storage.undecided_fits = true;
  const auto impossible = [&](double at) { return !search_.feasible({at, at}, storage); };
  double high = period, low = known;
  if (impossible(period)) return period;
  for (double left = 0.999; low == 0 && high > kShortestPeriod; left = std::max(1 - 4 * (1 - left), left / 4))
    if (const double at = period * left; impossible(at)) {
      low = at;
    } else {
      high = at;
    }
  while (low > 0 && high - low > kCloseEnough * high) {
    const double middle = low + (high - low) / 2;
    (impossible(middle) ? low : high) = middle;
  }
  return low;
}

RingSolution RingSolver::solve_within(double period) const { return solution_at({period, period}, anywhere()).value_or(RingSolution{}); }

bool RingSolver::rules_out(double period, Effort effort) const {
  const Periods periods{period, period};
  Storage storage = anywhere();
  storage.undecided_fits = true;
  if (!search_.feasible(periods, storage)) return true;
  if (task_->options.balance == Balance::kNever || !joint_.some_move()) return false;
  constexpr int64_t kFewCells = 24, kManyCells = 96;
  if (effort == Effort::kQuick)
    return joint_.at(periods, kFewCells, JointSearch::Rooms::kLeastOfAll).verdict == JointAnswer::Verdict::kImpossible;
  for (const int64_t cells : {kFewCells, kManyCells}) {
    const JointAnswer::Verdict verdict = joint_.at(periods, cells).verdict;
    if (verdict != JointAnswer::Verdict::kUndecided) return verdict == JointAnswer::Verdict::kImpossible;
  }
  return false;
}

RingSolution RingSolver::solve(Effort effort, const std::function<void(double period)>& found) const {
  const bool quick = effort == Effort::kQuick;
  const std::optional<Bracket> bracket = least_period(anywhere(), quick ? kQuickTolerance : kPeriodTolerance);
  RingSolution best;
  if (!bracket) {
    best.shortage = shortage();
    return best;
  }
  const auto consider = [&](const Periods& periods, const Storage& storage) {
    std::optional<RingSolution> solution = solution_at(periods, storage);
    if (solution && (!best.feasible || solution->period < best.period)) best = std::move(*solution);
  };
  const double period = bracket->feasible;
  if (found) found(period);
  const auto settled = [&] { return best.feasible && (quick || best.period <= period * (1 + 1e-9)); };
  const double compute = quick ? period : least_compute_period(period, anywhere());
  // Cuts that leave every parameter at home, below the balancing target, cost no traffic: take them where they are as fast.
  const bool prefers_home = task_->options.balance == Balance::kAuto;
  if (prefers_home) {
    const Storage light{.parameters = true, .share = task_->options.balance_target};
    consider({compute, period}, light);
    if (!settled()) consider({period, period}, light);
  }
  if (!settled()) consider({compute, period}, anywhere());
  double impossible = bracket->infeasible;
  if (!settled()) {
    JointBisection bisection(*this, impossible, std::move(best));
    bisection.run(period, effort);
    best = bisection.best();
    impossible = bisection.impossible();
    if (!best.feasible) {
      best.shortage = shortage_together(bisection.nearest(), kLongestPeriod);
      if (!bisection.decided()) best.shortage.kind = Shortage::Kind::kNotDecided;
      return best;
    }
  }
  // A longer period than asked for at first may leave every parameter at home after all.
  if (prefers_home && !best.homes.remote.empty()) {
    const Storage light{.parameters = true, .share = task_->options.balance_target};
    for (const double devices : {best.compute_period, best.period}) {
      std::optional<RingSolution> at_home = solution_at({devices, best.period}, light);
      if (!at_home || !at_home->homes.remote.empty() || at_home->period > best.period) continue;
      best = std::move(*at_home);
      break;
    }
  }
  best.lower_bound = impossible;
  return best;
}

// What the cuts that come closest lack.
Shortage RingSolver::shortage_together(const std::vector<int64_t>& cuts, double period) const {
  Shortage shortage;
  shortage.kind = Shortage::Kind::kTogetherTooSmall;
  if (static_cast<int64_t>(cuts.size()) + 1 != segments_.devices()) return shortage;
  const HomeShortage missing = shortage_of_homes(home_problem(cuts, period, true), 1);
  const CostModel& model = segments_.model(missing.device);
  shortage.device = missing.device;
  shortage.resource = model.capacities()[model.parameter_memory()].name;
  shortage.missing = missing.storage;
  return shortage;
}

// No period at all is long enough: find the device where every prefix ends, and what it lacks for one unit more.
Shortage RingSolver::shortage() const {
  Shortage shortage;
  const Storage storage = anywhere();
  if (chain_.end() < segments_.devices() && !task_->options.allow_empty) {
    shortage.kind = Shortage::Kind::kTooManyDevices;
    shortage.missing = static_cast<double>(segments_.devices() - chain_.end());
    return shortage;
  }
  shortage.whole = task_->options.strategy == Strategy::kLayer;
  const auto reach = [&](int64_t device, int64_t from) {
    const int64_t to = segments_.reach(device, from, kLongestPeriod, storage);
    return shortage.whole && to < chain_.end() ? std::max(from, chain_.begin_of(chain_.group_at(to))) : to;
  };
  int64_t position = 0;
  for (int64_t d = 0; d < segments_.devices(); ++d) position = reach(d, position);
  if (position == chain_.end()) {
    shortage.kind = Shortage::Kind::kOrders;  // work and memory would fit; pins, cuts, quanta or one unit each do not
    return shortage;
  }
  shortage.kind = Shortage::Kind::kOneDeviceTooSmall;
  position = 0;
  int64_t begin = 0;
  for (int64_t d = 0; d < segments_.devices(); ++d) {
    begin = position;
    position = reach(d, begin);
    shortage.device = d;
    if (position == begin) break;
  }
  // A device that cannot take a single part more, or the last one, which cannot take the rest.
  const bool stuck = position == begin;
  const int64_t group = chain_.group_at(position);
  shortage.layer = chain_.head_of(group).layer.name;
  shortage.one_part = stuck;
  const int64_t least = shortage.whole ? chain_.end_of(group) : begin + 1;
  const Overrun overrun = segments_.overrun(shortage.device, begin, stuck ? least : chain_.end(), kLongestPeriod, storage);
  shortage.resource = overrun.resource;
  shortage.missing = overrun.missing;
  for (int64_t g = chain_.group_at(begin); overrun.resource == kEngine && g <= group && shortage.refusal.empty(); ++g) {
    shortage.refusal = segments_.model(shortage.device).refusal(chain_.head_of(g));
    if (!shortage.refusal.empty()) shortage.layer = chain_.head_of(g).layer.name;
  }
  return shortage;
}

}  // namespace millrace
