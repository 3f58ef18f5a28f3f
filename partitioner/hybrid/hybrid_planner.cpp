#include "partitioner/hybrid/hybrid_planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/base/beside.h"
#include "core/base/error.h"
#include "core/plan/words_outside.h"
#include "partitioner/hybrid/candidates.h"
#include "partitioner/hybrid/pace_bound.h"
#include "partitioner/hybrid/places_to_try.h"
#include "partitioner/hybrid/ring_attempt.h"
#include "partitioner/hybrid/ring_plan.h"
#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/hybrid/shortage_text.h"

namespace millrace {
namespace {

// Where what waits in boards' own memories makes a plan slower by so much, others are looked for, so often at most.
constexpr double kWorthWords = 2e-3;
constexpr double kWorthRound = 1e-4;  // of them, by how much it makes the plan faster
constexpr int kMostRoundsForWords = 4;
// By how much room for a sample more makes a plan faster, or it is not given; samples at most.
constexpr double kWorthSamples = 5e-3;
constexpr int kMostRoundsForSamples = 4;
// What a search promises, with what waits outside a plan keeps at least so much as a rule.
constexpr double kMostlyKept = 0.95;
// Between which the pace of engines is looked for, and how closely.
constexpr double kLeastOfPace = 1e-9, kMostOfPace = 1e3, kLonger = 1.4, kMuchLonger = 1.05;

// Engines that stream rows are the same with any micro-batch, but for those of recurrent layers.
bool differ_in_passes_alone(const PlanTask& task) {
  const auto recurrent = [](const Node& node) { return std::holds_alternative<Recurrent>(node.layer.operation); };
  return streams_rows(task) && std::ranges::none_of(task.graph->nodes(), recurrent);
}

// The micro-batches that the pace alone does not rule out, wherever weights lie.
std::vector<int64_t> sizes_of_pace(const PlanTask& task, double period, int64_t devices = 0) {
  std::vector<int64_t> sizes = micro_batches_to_try(task, devices);
  if (task.options.accounting != Accounting::kFull) return sizes;
  if (differ_in_passes_alone(task)) {
    if (PaceBound(task, sizes.front()).rules_out(period)) sizes.clear();
  } else {
    std::erase_if(sizes, [&](int64_t size) { return PaceBound(task, size).rules_out(period); });
  }
  return sizes;
}

// With one of the sizes. Of boards one look at the best of all that are left, the memory of the smallest and the passes of the largest,
// rules out most of what none of them reaches. `closely`: looks at each where that does not.
bool reaches(const PlanTask& task, const std::vector<int64_t>& sizes, double period, bool closely = true) {
  const bool looks_at_all = differ_in_passes_alone(task);
  for (auto size = sizes.begin(); size != sizes.end(); ++size) {
    if (looks_at_all && sizes.end() - size > 2) {
      PlanTask best_of_all = task;
      best_of_all.options.micro_batches.assign(size, sizes.end());
      if (cuts_rule_out(best_of_all, *size, period)) return false;
      if (!closely) return true;
    }
    if (!cuts_rule_out(task, *size, period)) return true;
  }
  return false;
}

// Of two ways that have no plan the one that comes closer; what is not decided stays so.
Shortage nearer(const Shortage& one, const Shortage& other) {
  if (one.kind == Shortage::Kind::kNone || one.kind == Shortage::Kind::kNotDecided) return one.kind == Shortage::Kind::kNone ? other : one;
  if (other.kind == Shortage::Kind::kNone) return one;
  const bool less = one.kind == other.kind && one.resource == other.resource && one.missing < other.missing;
  return less && other.kind != Shortage::Kind::kNotDecided ? one : other;
}

// Whether boards are kept from the pace of their engines by memory.
bool lacks_memory(const PlanTask& task) {
  const int64_t micro_batch = micro_batches_to_try(task).front();
  const PaceBound bound(task, micro_batch);
  double high = std::max(busy_seconds(task), kLeastOfPace) * kLonger;
  // Mostly memory lacks so much that no closer look is needed.
  std::future<bool> lacks = beside([&task, micro_batch, high] { return cuts_rule_out(task, micro_batch, high); });
  if (!bound.rules_out(high) && lacks.get()) return true;
  while (high < kMostOfPace && bound.rules_out(high)) high *= kLonger;
  double low = high / kLonger;
  while (low > kLeastOfPace && !bound.rules_out(low)) high = std::exchange(low, low / kLonger);
  while (high > low * kMuchLonger) {
    const double middle = std::sqrt(low * high);
    (bound.rules_out(middle) ? low : high) = middle;
  }
  return cuts_rule_out(task, micro_batch, high);
}

// What is known to be the fastest so far mostly loses little when its mini-batches are timed: others that come nowhere near are left out
// before it is, unless it turns out to lose more.
std::vector<Candidate> candidates_of_places(const PlanTask& task, Findings& findings) {
  Shortage shortage;
  std::vector<Candidate> candidates;
  const bool full = task.options.accounting == Accounting::kFull;
  const auto fastest = [&]() -> Candidate* {
    const auto best = std::ranges::max_element(candidates, {}, [](const Candidate& known) { return known.summary.images_per_second; });
    return best == candidates.end() ? nullptr : &*best;
  };
  const auto reaches_rate = [&](const PlanTask& placed, double rate) {
    if (rate <= 0) return true;
    const std::vector<int64_t> sizes = sizes_of_pace(placed, 1 / rate);
    const bool as_built_alone = placed.options.on_chip == task.options.on_chip && has_two_kinds(placed);
    return as_built_alone ? !sizes.empty() : reaches(placed, sizes, 1 / rate);
  };
  struct LeftOut {
    const PlanTask* placed;
    double rate;
  };
  std::vector<LeftOut> left_out;
  const auto look = [&](const PlanTask& placed) {
    findings.shortage = {};
    std::ranges::move(candidates_of(placed, candidates, findings), std::back_inserter(candidates));
    shortage = nearer(shortage, findings.shortage);
  };
  // Between updates, with all that waits, since another loses as much with them; but less where rows are sooner back from the chip.
  const auto rate_to_surpass = [&](const PlanTask& placed) {
    Candidate* best = fastest();
    for (; full && best != nullptr && !best->timed; best = fastest()) {
      if (task.while_timed) task.while_timed(1 / best->summary.seconds_per_image);
      add_mini_batch_time(task, *best, findings.standstill);
    }
    if (best == nullptr || best->summary.images_per_second <= 0) return task.wanted;
    const bool sooner = full && waits_outside(*best) && !placed.options.act_rams_outside;
    const double rate = sooner ? best->summary.images_per_second : 1 / best->summary.seconds_per_image;
    return std::max(task.wanted, (1 + (full ? kWorthSharing : kWorthAnother)) * rate);
  };
  std::vector<PlanTask> places = places_to_try(task);
  // That first which is more likely to be the faster.
  places = rooms_to_try(task, places, may_wait_outside(task) && !has_two_kinds(task) && lacks_memory(places.front()));
  bool hardly_fits = false;
  for (const PlanTask& placed : places) {
    if (hardly_fits && placed.options.act_rams_outside) continue;
    const Candidate* best = fastest();
    if (full && best != nullptr && !best->timed) {
      const double rate = std::max(task.wanted, kMostlyKept / best->summary.seconds_per_image);
      if (!reaches_rate(placed, rate)) {
        left_out.push_back({&placed, rate});
        continue;
      }
    }
    if (reaches_rate(placed, rate_to_surpass(placed))) look(placed);
    // Where little is missing it takes minutes to find out of blocks of two kinds whether they are enough outside.
    hardly_fits = has_two_kinds(task) && candidates.empty();
  }
  for (const LeftOut& one : left_out)
    if (const double rate = rate_to_surpass(*one.placed); rate < one.rate && reaches_rate(*one.placed, rate)) look(*one.placed);
  // What hardly finds its blocks may be slower than with all weights outside.
  if (full && has_two_kinds(task) && !candidates.empty() && !task.options.all_off_chip)
    for (const PlanTask& resort : last_resorts(task))
      if (const double period = 1 / rate_to_surpass(resort); reaches(resort, sizes_of_pace(resort, period), period)) look(resort);
  findings.shortage = shortage;
  return candidates;
}

// Of each device's own memory, a sample, beside what a search counts.
std::vector<double> waiting_seconds(const PlanTask& task, const Candidate& candidate) {
  std::vector<double> seconds(task.models.size(), 0);
  for (const WaitingWords& words : candidate.waiting) {
    const Shard& shard = item(candidate.plan.shards, words.shard);
    item(seconds, shard.device) += seconds_outside(candidate.plan, shard.device, std::max(words.bytes - act_ram_bytes(shard), 0.0));
  }
  return seconds;
}

// What waits in boards' own memories for its errors takes time of them that a search gave to weights, which the plan has lost by then:
// searches that leave each board as much as they have taken so far may lose less.
std::optional<Candidate> with_room_for_words(const PlanTask& task, Candidate& chosen, std::string& standstill) {
  double bound = chosen.plan.lower_bound_seconds_per_image;
  std::optional<Candidate> best;
  const auto known = [&]() -> const Candidate& { return best ? *best : chosen; };
  PlanTask leaving = chosen.attempt->task;
  leaving.models = task.models;  // with all of their memory
  leaving.options.waiting_seconds = waiting_seconds(task, chosen);
  for (int round = 0; round < kMostRoundsForWords; ++round) {
    const double seconds = known().summary.seconds_per_image;
    if (seconds <= bound * (1 + kWorthWords)) break;
    std::optional<Candidate> candidate = fastest_as_built(task, leaving, chosen.plan.micro_batch, seconds / (1 + kWorthSharing), bound, {});
    if (!candidate || !add_mini_batch_time(task, *candidate, standstill)) break;
    const std::vector<double> more = waiting_seconds(task, *candidate);
    bool none_more = true;
    for (size_t d = 0; d < more.size(); ++d) {
      double& known_before = leaving.options.waiting_seconds[d];
      none_more = none_more && more[d] <= known_before;
      known_before = std::max(known_before, more[d]);
    }
    const double before = known().summary.images_per_second;
    if (candidate->summary.images_per_second > before) best = std::move(*candidate);
    if (none_more || known().summary.images_per_second < before * (1 + kWorthRound)) break;
  }
  return best;
}

// Errors of recurrent layers come back once all steps have gone forward. How long samples wait for that depends on what the ring's other
// devices do, which no formula has: with room for more of them it may be faster, until it is no more.
std::optional<Candidate> with_room_for_samples(const PlanTask& task, Candidate& chosen, std::string& standstill) {
  const auto recurs = [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; };
  if (std::ranges::none_of(task.graph->nodes(), recurs)) return std::nullopt;
  std::optional<Candidate> best;
  PlanTask roomier = chosen.attempt->task;
  roomier.models = task.models;  // with all of their memory
  for (int round = 0; round < kMostRoundsForSamples; ++round) {
    const Candidate& known = best ? *best : chosen;
    const double wanted = known.summary.images_per_second * (1 + kWorthSamples);
    if (known.summary.seconds_per_image * wanted >= 1) break;
    roomier.options.more_samples += 1;
    const std::shared_ptr<const RingAttempt> attempt = best_attempt(roomier, chosen.plan.micro_batch);
    if (!attempt->solution.feasible) break;
    std::optional<Candidate> candidate = fastest_of(roomier, attempt);
    if (!candidate || 1 / candidate->summary.seconds_per_image <= wanted) break;
    if (!add_mini_batch_time(task, *candidate, standstill) || candidate->summary.images_per_second <= wanted) break;
    candidate->plan.lower_bound_seconds_per_image =
        std::min(candidate->plan.lower_bound_seconds_per_image, chosen.plan.lower_bound_seconds_per_image);
    best = std::move(candidate);
  }
  return best;
}

// To that of all places of weights: what is called possible is so wherever they lie.
void lower_bound(double bound, Candidate& candidate) {
  if (bound >= candidate.plan.lower_bound_seconds_per_image) return;
  set_bound(bound, candidate);
  candidate.summary.lower_bound_images_per_second = 1 / bound;
}

// Those of which a search alone says whether there is a plan.
std::vector<PlanTask> rooms_of_searches(const PlanTask& task) {
  const std::vector<PlanTask> places = places_to_try(task);
  return has_two_kinds(task) ? places : rooms_to_try(task, places, /*outside_first=*/true);
}

bool fits(const PlanTask& task, int64_t micro_batch) {
  if (RingSolver(task, micro_batch).solve(Effort::kQuick).feasible) return true;
  PlanTask relaxed = task;
  relaxed.options.allow_empty = true;
  return !task.options.allow_empty && RingSolver(relaxed, micro_batch).solve(Effort::kQuick).feasible;
}

// Of two kinds of blocks a search alone does not say whether all memories find theirs.
bool finds_blocks(const PlanTask& placed, int64_t micro_batch) {
  PlanTask one_size = placed;
  one_size.options.micro_batch = micro_batch;
  one_size.wanted = 0;
  one_size.begin_mini_batch_time = nullptr;
  one_size.while_timed = nullptr;
  Findings findings;
  return !candidates_of(one_size, {}, findings).empty();
}

// Wherever weights may lie, with the samples to a micro-batch that take the least memory.
bool has_plan(const PlanTask& task) {
  const int64_t micro_batch = task.options.micro_batch > 0 ? task.options.micro_batch : 1;
  const bool full = task.options.accounting == Accounting::kFull;
  const bool asks = full && task.finds_blocks && (has_two_kinds(task) || (streams_rows(task) && may_reserve_too_much(task)));
  const auto has_one = [&](const PlanTask& placed) { return asks ? finds_blocks(placed, micro_batch) : fits(placed, micro_batch); };
  if (full && std::ranges::any_of(last_resorts(task), has_one)) return true;
  return std::ranges::any_of(rooms_of_searches(task), has_one);
}

}  // namespace

bool can_reach(const PlanTask& asked, double samples_per_second, bool closely, bool some_idle) {
  PlanTask task = asked;
  // Those that are left may have no slow board among them.
  if (some_idle)
    for (const CostModel*& model : task.models) model = &model->among(std::span(&model, 1));
  const bool full = task.options.accounting == Accounting::kFull;
  const double period = 1 / samples_per_second;
  const std::vector<int64_t> sizes = sizes_of_pace(task, period, some_idle ? 1 : 0);
  if (sizes.empty()) return false;
  const auto some_reach = [&](const PlanTask& placed) { return reaches(placed, sizes, period, closely); };
  if (std::ranges::any_of(rooms_of_searches(task), some_reach)) return true;
  return full && !task.options.all_off_chip && std::ranges::any_of(last_resorts(task), some_reach);
}

Outcome plan_ring(const PlanTask& task) {
  const auto start = std::chrono::steady_clock::now();
  if (task.models.empty() || task.models.size() != task.cluster.devices.size())
    fail(ErrorCode::kUsage, "a cluster of {} devices comes with {} cost models", task.cluster.devices.size(), task.models.size());
  if (task.options.time_chunks > 1 && streams_rows(task))
    fail(ErrorCode::kUsage,
         "--time-chunks {} changes nothing where all devices are boards: they pass each time step on as soon as it is made; leave it out",
         task.options.time_chunks);
  Outcome outcome;
  Findings findings;
  std::vector<Candidate> candidates = candidates_of_places(task, findings);
  const bool full = task.options.accounting == Accounting::kFull;
  if (full && candidates.empty() && (task.wanted <= 0 || findings.shortage.kind != Shortage::Kind::kNone)) {
    for (const PlanTask& resort : last_resorts(task)) {
      const Shortage before = std::exchange(findings.shortage, {});
      std::ranges::move(candidates_of(resort, candidates, findings), std::back_inserter(candidates));
      findings.shortage = nearer(before, findings.shortage);
    }
  }
  // The fastest between updates first: who is slower there than another with updates need not be asked for its own.
  if (full)
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.summary.images_per_second > b.summary.images_per_second; });
  Candidate* chosen = nullptr;
  const auto faster = [&](const Candidate& candidate) {
    if (candidate.summary.images_per_second <= task.wanted) return false;
    return chosen == nullptr || candidate.summary.images_per_second > chosen->summary.images_per_second * (1 + kWorthAnother);
  };
  const bool streams = streams_rows(task);
  if (full && task.while_timed && !candidates.empty() && !candidates.front().timed)
    task.while_timed(1 / candidates.front().summary.seconds_per_image);
  for (Candidate& candidate : candidates) {
    if (!faster(candidate) || (full && streams && chosen != nullptr && no_better(candidate, *chosen))) continue;
    if (full && (!add_mini_batch_time(task, candidate, findings.standstill) || !faster(candidate))) continue;
    chosen = &candidate;
  }
  std::optional<Candidate> roomier;
  if (chosen != nullptr && full && streams && task.waiting_words) roomier = with_room_for_words(task, *chosen, findings.standstill);
  if (roomier) chosen = &*roomier;
  std::optional<Candidate> with_samples;
  if (chosen != nullptr && full && streams) with_samples = with_room_for_samples(task, *chosen, findings.standstill);
  if (with_samples) chosen = &*with_samples;
  if (chosen != nullptr) {
    outcome.feasible = true;
    if (full) lower_bound(findings.bounds.at(chosen->plan.micro_batch), *chosen);
    for (const Candidate& candidate : candidates)
      if (full && &candidate != chosen && !candidate.stands_still && candidate.plan.micro_batch == chosen->plan.micro_batch)
        choose_before(candidate.summary, chosen->summary, chosen->plan);
    chosen->summary.optimality_gap = chosen->plan.optimality_gap;
    outcome.plan = std::move(chosen->plan);
    outcome.summary = std::move(chosen->summary);
  }
  if (!outcome.feasible && !findings.standstill.empty()) {
    outcome.reason.text = findings.standstill;
    outcome.reason.resource = "fifo_rows";
  } else if (!outcome.feasible) {
    outcome.reason = reason_of(task, findings.shortage, task.counts_enough ? HasPlan(has_plan) : nullptr);
  }
  outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace millrace
