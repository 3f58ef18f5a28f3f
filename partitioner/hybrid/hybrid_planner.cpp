#include "partitioner/hybrid/hybrid_planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/beside.h"
#include "core/base/error.h"
#include "core/plan/schedule.h"
#include "core/plan/time_chunking.h"
#include "core/plan/words_outside.h"
#include "partitioner/hybrid/other_cuts.h"
#include "partitioner/hybrid/pace_bound.h"
#include "partitioner/hybrid/places_to_try.h"
#include "partitioner/hybrid/ring_attempt.h"
#include "partitioner/hybrid/ring_plan.h"
#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/hybrid/shortage_text.h"

namespace millrace {
namespace {

// By how much another micro-batch has to be faster, and by how much where it also delays what streams; there it is faster between updates
// for sure when it is by so much.
constexpr double kWorthAnother = 1e-9;
constexpr double kWorthSharing = 1e-3;
constexpr double kSurelyFaster = 0.01;
// Micro-batches that are looked at after one that is no faster, where rows stream.
constexpr int64_t kMostNoFaster = 1;
// Samples that may share a micro-batch unasked: cost models know the memory of a million, and nothing gains from so many.
constexpr int64_t kMostTogether = 65'536;
// Devices that a micro-batch fills one after the other while a ring drains: with fewer micro-batches than an eighth of the devices almost
// all of them wait.
constexpr int64_t kMostFilled = 8;
// By how much chunks of time have to be faster than whole sequences, since what a kernel more costs is modelled roughly; and by how much
// more of them than fewer.
constexpr double kWorthChunks = 0.01;
constexpr double kWorthMoreChunks = 1e-3;
constexpr int64_t kMostChunks = 64;
// Where what waits in boards' own memories makes a plan slower by so much, others are looked for, so often at most.
constexpr double kWorthWords = 2e-3;
constexpr double kWorthRound = 1e-4;  // of them, by how much it makes the plan faster
constexpr int kMostRoundsForWords = 4;
// What a search promises, with what waits outside a plan keeps at least so much as a rule.
constexpr double kMostlyKept = 0.95;
// Between which the pace of engines is looked for, and how closely.
constexpr double kLeastOfPace = 1e-9, kMostOfPace = 1e3, kLonger = 1.4, kMuchLonger = 1.05;

// The samples of a few micro-batches share a pass over gradients off chip: of more of them less is moved, and more activations are held.
// Not where a trained batch norm's statistics are those of a micro-batch.
bool passes_may_be_shared(const PlanTask& task) {
  if (task.options.accounting != Accounting::kFull) return false;
  const std::vector<Node>& nodes = task.graph->nodes();
  const auto normalises = [](const Node& node) {
    const auto* norm = std::get_if<BatchNorm>(&node.layer.operation);
    return norm != nullptr && norm->statistics == Statistics::kExact;
  };
  if (std::any_of(nodes.begin(), nodes.end(), normalises)) return false;
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return lies_off_chip(task, node); });
}

// What a search for plans found out beside them.
struct Findings {
  Shortage shortage;
  std::string standstill;
  std::map<int64_t, double> bounds;  // by micro-batch: seconds per sample, wherever weights lie
};

int64_t remote_elements(const Plan& plan) {
  int64_t elements = 0;
  for (const ParameterHome& home : plan.homes) elements += home.home != home.user ? home.count : 0;
  return elements;
}

bool no_faster(const PlanTask& task, int64_t micro_batch, double period) {
  if (task.options.accounting == Accounting::kFull && PaceBound(task, micro_batch).rules_out(period)) return true;
  return cuts_rule_out(task, micro_batch, period);
}

// Engines that stream rows are the same with any micro-batch, but for those of recurrent layers.
bool differ_in_passes_alone(const PlanTask& task) {
  const auto recurrent = [](const Node& node) { return std::holds_alternative<Recurrent>(node.layer.operation); };
  return streams_rows(task) && std::ranges::none_of(task.graph->nodes(), recurrent);
}

// The micro-batches that the pace alone does not rule out, wherever weights lie.
std::vector<int64_t> sizes_of_pace(const PlanTask& task, double period) {
  std::vector<int64_t> sizes = micro_batches_to_try(task);
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

bool chooses_chunks(const PlanTask& task) { return task.options.time_chunks == 0; }
bool add_mini_batch_time(const PlanTask& task, Candidate& candidate, std::string& standstill);

// Twice as many as long as they are faster: what fills and drains with every update gets shorter, and nothing between updates does.
// Parameters that live elsewhere travel once per micro-batch.
void choose_chunks(const PlanTask& task, Candidate& whole) {
  const bool lives_elsewhere = std::ranges::any_of(whole.plan.homes, [](const ParameterHome& home) { return home.home != home.user; });
  const double steady = static_cast<double>(whole.plan.mini_batch) * whole.summary.seconds_per_image;
  Plan divided = whole.plan;
  divided.time_chunks = 2;
  const double wanted = whole.summary.images_per_second * (1 + kWorthChunks);
  std::optional<Candidate> best;
  if (!lives_elsewhere && whole.summary.mini_batch_seconds > steady * (1 + kWorthChunks) && TimeChunking(divided, *task.graph).any()) {
    PlanTask fixed = task;
    const int64_t most = std::min(kMostChunks, most_time_chunks(*task.graph));
    for (int64_t chunks = 2; chunks <= most; chunks *= 2) {
      fixed.options.time_chunks = chunks;
      Candidate more = candidate_of(fixed, whole.attempt, whole.plan.lower_bound_seconds_per_image);
      std::string standstill;
      if (!add_mini_batch_time(fixed, more, standstill)) break;
      if (best && more.summary.images_per_second <= best->summary.images_per_second * (1 + kWorthMoreChunks)) break;
      best = std::move(more);
    }
  }
  if (best && best->summary.images_per_second > wanted) whole = std::move(*best);
}

// False where the plan comes to a standstill, and why.
bool add_mini_batch_time(const PlanTask& task, Candidate& candidate, std::string& standstill) {
  if (!task.mini_batch_time)
    fail(ErrorCode::kUsage, "full accounting needs to know what a mini-batch takes: give PlanTask::mini_batch_time, or account as FPDeep");
  if (candidate.timed) return !candidate.stands_still;
  candidate.timed = true;
  if (task.waiting_words) {
    candidate.waiting = task.waiting_words(candidate.plan, *task.graph);
    add_words_outside(candidate.plan, *task.graph, candidate.waiting);
  }
  try {
    const MiniBatchTime time = task.mini_batch_time(candidate.plan, *task.graph);
    candidate.plan.constants.push_back({std::string(kMiniBatchSeconds), time.seconds, time.origin});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kStandstill) throw;
    standstill = error.what();
    candidate.stands_still = true;
    candidate.summary.images_per_second = 0;
    return false;
  }
  candidate.summary = summarize(candidate.plan, *task.graph);
  candidate.plan.optimality_gap = std::max(0.0, candidate.summary.seconds_per_image / candidate.plan.lower_bound_seconds_per_image - 1);
  if (chooses_chunks(task)) choose_chunks(task, candidate);
  return true;
}

bool waits_outside(const Candidate& candidate) { return candidate.attempt->task.options.act_rams_outside; }

// As slow between updates, and not less to send when one comes: an update takes no less either, unless rows are sooner back from the chip.
bool no_better(const Candidate& candidate, const Candidate& known) {
  return !known.stands_still && (waits_outside(candidate) || !waits_outside(known)) &&
         candidate.plan.micro_batch >= known.plan.micro_batch &&
         candidate.summary.seconds_per_image >= known.summary.seconds_per_image / (1 + kWorthAnother) &&
         remote_elements(candidate.plan) >= remote_elements(known.plan);
}

// Where rows stream, weights off chip alone ask for micro-batches. They may be as fast between updates, and lose less at one.
bool may_be_faster(const PlanTask& task, int64_t micro_batch, Candidate& known, std::string& standstill) {
  if (remote_elements(known.plan) == 0 && no_faster(task, micro_batch, known.summary.seconds_per_image / (1 + kWorthSharing))) return false;
  if (!no_faster(task, micro_batch, known.summary.seconds_per_image / (1 + kSurelyFaster))) return true;
  if (!add_mini_batch_time(task, known, standstill)) return true;
  return !no_faster(task, micro_batch, 1 / (known.summary.images_per_second * (1 + kWorthSharing)));
}

bool is_faster(const PlanTask& task, Candidate& candidate, Candidate& known, std::string& standstill) {
  if (no_better(candidate, known)) return false;
  if (!known.timed && candidate.summary.images_per_second > known.summary.images_per_second * (1 + kSurelyFaster)) return true;
  if (!add_mini_batch_time(task, known, standstill)) return true;
  const double wanted = known.summary.images_per_second * (1 + kWorthSharing);
  if (candidate.summary.images_per_second <= wanted) return false;
  return add_mini_batch_time(task, candidate, standstill) && candidate.summary.images_per_second > wanted;
}

// Seconds a sample between updates that no plan may take to be worth finding: those of what is known.
double longest_of_use(const std::vector<Candidate>& candidates, const std::vector<Candidate>& before, double wanted) {
  double longest = wanted > 0 ? 1 / wanted : std::numeric_limits<double>::infinity();
  for (const std::vector<Candidate>* list : {&candidates, &before})
    for (const Candidate& known : *list)
      if (!known.stands_still) longest = std::min(longest, known.summary.seconds_per_image);
  return longest;
}

// A plan for every micro-batch that allows one, each as fast as can be between updates; where parameters live with others also one where
// they do not: slower between updates, and at an update or with every pass perhaps faster. Where devices take turns also some with other
// cuts, for the same reason.
// `before`: what is known already; a plan that is no better than one of them is not asked what an update takes, and not among the answers.
std::vector<Candidate> candidates_of(const PlanTask& task, const std::vector<Candidate>& before, Findings& findings) {
  std::string& standstill = findings.standstill;
  std::vector<Candidate> candidates;
  double wanted = task.wanted;
  for (const Candidate& known : before)
    if (known.timed) wanted = std::max(wanted, (1 + kWorthSharing) * known.summary.images_per_second);
  std::vector<Candidate> at_an_update;                      // faster there, perhaps
  std::vector<std::shared_ptr<const RingAttempt>> in_turn;  // of which other cuts may be
  const bool streams = streams_rows(task);
  const bool full = task.options.accounting == Accounting::kFull;
  int64_t no_faster_in_a_row = 0;
  // What no other size surpasses mostly stays the best; the rest is found out meanwhile.
  bool begins = full && streams && task.begin_mini_batch_time != nullptr;
  const auto begin_timing = [&] {
    if (!begins || candidates.empty() || candidates.back().timed || candidates.back().summary.images_per_second <= wanted) return;
    begins = false;
    task.begin_mini_batch_time(candidates.back().plan, *task.graph);
  };
  for (const int64_t micro_batch : micro_batches_to_try(task)) {
    const bool look_closer = candidates.empty() && has_two_kinds(task);
    if (wanted > 0 && (look_closer ? PaceBound(task, micro_batch).rules_out(1 / wanted) : no_faster(task, micro_batch, 1 / wanted)))
      continue;
    // Weights fill their passes in steps: after a size that is no faster the next one may be.
    if (streams && !candidates.empty() && !may_be_faster(task, micro_batch, candidates.back(), standstill)) {
      begin_timing();
      if (++no_faster_in_a_row > kMostNoFaster) break;
      continue;
    }
    const std::shared_ptr<const RingAttempt> attempt = best_attempt(task, micro_batch);
    const RingSolution& solution = attempt->solution;
    if (!solution.feasible) {
      if (findings.shortage.kind == Shortage::Kind::kNone) findings.shortage = solution.shortage;
      if (streams) break;  // more samples hold more memory
      continue;
    }
    const double longest = longest_of_use(candidates, before, wanted);
    std::optional<Candidate> fastest = fastest_of(task, attempt, longest);
    const double of_plan = fastest ? fastest->plan.lower_bound_seconds_per_image : solution.lower_bound;
    double& bound = findings.bounds.try_emplace(micro_batch, of_plan).first->second;
    bound = std::min(bound, of_plan);
    if (!fastest && std::isfinite(longest)) {
      if (++no_faster_in_a_row > kMostNoFaster) break;
      continue;
    }
    if (!fastest) {
      if (findings.shortage.kind == Shortage::Kind::kNone) findings.shortage.kind = Shortage::Kind::kNotDecided;
      if (streams) break;
      continue;
    }
    Candidate& candidate = *fastest;
    if (full && task.options.balance != Balance::kNever && !solution.homes.remote.empty()) {
      PlanTask quiet = task;
      quiet.options.balance = Balance::kNever;
      const std::shared_ptr<const RingAttempt> with_users = best_attempt(quiet, micro_batch);
      if (with_users->solution.feasible)
        if (std::optional<Candidate> local = fastest_of(quiet, with_users)) at_an_update.push_back(std::move(*local));
    }
    if (full && !streams) in_turn.push_back(attempt);
    const auto better = std::ranges::find_if(before, [&](const Candidate& known) { return no_better(candidate, known); });
    candidate.surpassed = streams && better != before.end();
    if (candidate.surpassed && better->timed) {
      candidate.timed = true;
      candidate.summary.images_per_second = std::min(candidate.summary.images_per_second, better->summary.images_per_second);
    }
    if (streams && !candidates.empty() && !is_faster(task, candidate, candidates.back(), standstill)) {
      if (++no_faster_in_a_row > kMostNoFaster) break;
      continue;
    }
    no_faster_in_a_row = 0;
    // Where devices wait for a ring that drains, larger products pay until they do no more.
    const bool waits =
        full && !streams && !chooses_chunks(task) && task.options.mini_batch / micro_batch < std::ssize(task.models) && !candidates.empty();
    const bool told = waits && add_mini_batch_time(task, candidates.back(), standstill) && add_mini_batch_time(task, candidate, standstill);
    const bool slower = told && candidate.summary.images_per_second <= candidates.back().summary.images_per_second;
    candidates.push_back(std::move(candidate));
    if (slower) break;
  }
  begin_timing();
  // What is known by then leaves most of the other cuts out.
  for (Candidate& candidate : candidates) {
    if (in_turn.empty() || chooses_chunks(task) || candidate.summary.images_per_second <= wanted) continue;
    if (add_mini_batch_time(task, candidate, standstill)) wanted = std::max(wanted, candidate.summary.images_per_second);
  }
  std::ranges::stable_sort(in_turn, {}, [](const auto& attempt) { return attempt->solution.lower_bound; });
  for (const std::shared_ptr<const RingAttempt>& attempt : in_turn) {
    if (wanted > 0 && attempt->solution.lower_bound >= 1 / wanted) break;
    for (Candidate& other : other_cuts(task, attempt, wanted)) {
      const bool may_be_best = !chooses_chunks(task) && other.summary.images_per_second > wanted;
      if (may_be_best && add_mini_batch_time(task, other, standstill)) wanted = std::max(wanted, other.summary.images_per_second);
      at_an_update.push_back(std::move(other));
    }
  }
  std::ranges::move(at_an_update, std::back_inserter(candidates));
  std::erase_if(candidates, [](const Candidate& candidate) { return candidate.surpassed; });
  return candidates;
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

// To that of all places of weights: what is called possible is so wherever they lie.
void lower_bound(double bound, Candidate& candidate) {
  if (bound >= candidate.plan.lower_bound_seconds_per_image) return;
  candidate.plan.lower_bound_seconds_per_image = bound;
  candidate.plan.optimality_gap = std::max(0.0, candidate.summary.seconds_per_image / bound - 1);
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
  const bool asks = full && task.finds_blocks && has_two_kinds(task);
  const auto has_one = [&](const PlanTask& placed) { return fits(placed, micro_batch) && (!asks || finds_blocks(placed, micro_batch)); };
  if (full && std::ranges::any_of(last_resorts(task), has_one)) return true;
  return std::ranges::any_of(rooms_of_searches(task), has_one);
}

}  // namespace

bool can_reach(const PlanTask& task, double samples_per_second, bool closely) {
  const bool full = task.options.accounting == Accounting::kFull;
  const double period = 1 / samples_per_second;
  const std::vector<int64_t> sizes = sizes_of_pace(task, period);
  if (sizes.empty()) return false;
  const auto some_reach = [&](const PlanTask& placed) { return reaches(placed, sizes, period, closely); };
  if (std::ranges::any_of(rooms_of_searches(task), some_reach)) return true;
  return full && !task.options.all_off_chip && std::ranges::any_of(last_resorts(task), some_reach);
}

std::vector<int64_t> micro_batches_to_try(const PlanTask& task) {
  if (task.options.micro_batch > 0) return {task.options.micro_batch};
  const bool streams = streams_rows(task);
  if (streams && !passes_may_be_shared(task)) return {1};
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= std::min(task.options.mini_batch, kMostTogether); size *= 2)
    if (task.options.mini_batch % size == 0) sizes.push_back(size);
  if (streams) return sizes;
  // Unaligned schedules need a mini-batch of at least D-1 micro-batches, but where chunks of time make up for them. Draining ones wait
  // for a ring that fills and drains with fewer than D, which larger products may outweigh; long rings are not planned so often.
  const auto devices = static_cast<int64_t>(task.models.size());
  const int64_t chunks = chooses_chunks(task) ? kMostChunks : task.options.time_chunks;
  const bool may_wait = drains(task.options.alignment) && task.models.size() <= kLongRing;
  const int64_t passes = std::max<int64_t>(chunks, 1) * (may_wait ? kMostFilled : 1);
  std::erase_if(sizes, [&](int64_t size) { return size > 1 && task.options.mini_batch / size * passes < devices; });
  return sizes;
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
