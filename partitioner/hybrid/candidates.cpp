#include "partitioner/hybrid/candidates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/plan/schedule.h"
#include "core/plan/time_chunking.h"
#include "core/plan/words_outside.h"
#include "partitioner/hybrid/other_cuts.h"
#include "partitioner/hybrid/pace_bound.h"
#include "partitioner/hybrid/places_to_try.h"
#include "partitioner/hybrid/ring_plan.h"

namespace millrace {
namespace {

// By how much another micro-batch has to be faster where it also delays what streams; there it is faster between updates for sure when it
// is by so much.
constexpr double kSurelyFaster = 0.01;
// Micro-batches that are looked at after one that is no faster, where rows stream.
constexpr int64_t kMostNoFaster = 1;

int64_t remote_elements(const Plan& plan) {
  int64_t elements = 0;
  for (const ParameterHome& home : plan.homes) elements += home.home != home.user ? home.count : 0;
  return elements;
}

bool no_faster(const PlanTask& task, int64_t micro_batch, double period) {
  if (task.options.accounting == Accounting::kFull && PaceBound(task, micro_batch).rules_out(period)) return true;
  return cuts_rule_out(task, micro_batch, period);
}

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

}  // namespace

bool waits_outside(const Candidate& candidate) { return candidate.attempt->task.options.act_rams_outside; }

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

bool no_better(const Candidate& candidate, const Candidate& known) {
  return !known.stands_still && (waits_outside(candidate) || !waits_outside(known)) &&
         candidate.plan.micro_batch >= known.plan.micro_batch &&
         candidate.summary.seconds_per_image >= known.summary.seconds_per_image / (1 + kWorthAnother) &&
         remote_elements(candidate.plan) >= remote_elements(known.plan);
}

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
  const auto lower_bound_of = [&](int64_t micro_batch, double seconds) {
    double& bound = findings.bounds.try_emplace(micro_batch, seconds).first->second;
    bound = std::min(bound, seconds);
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
    std::shared_ptr<const RingAttempt> attempt = best_attempt(task, micro_batch);
    const double longest = longest_of_use(candidates, before, wanted);
    std::optional<Candidate> fastest;
    if (attempt->solution.feasible) {
      fastest = fastest_of(task, attempt, longest);
    } else {
      Shortage shortage = attempt->solution.shortage;
      double ruled_out = std::numeric_limits<double>::infinity();
      if (full && streams && may_reserve_too_much(task)) fastest = fastest_of_what_is_built(task, micro_batch, shortage, ruled_out);
      if (!fastest) {
        if (std::isfinite(ruled_out)) lower_bound_of(micro_batch, ruled_out);
        if (findings.shortage.kind == Shortage::Kind::kNone) findings.shortage = shortage;
        if (streams) break;  // more samples hold more memory
        continue;
      }
      attempt = fastest->attempt;
    }
    const RingSolution& solution = attempt->solution;
    double of_plan = fastest ? fastest->plan.lower_bound_seconds_per_image : solution.lower_bound;
    if (!fastest && std::isfinite(longest) && longest > of_plan && has_two_kinds(task) && task.models.size() <= kLongRing)
      of_plan = longest_ruled_out_as_built(task, micro_batch, longest, of_plan);
    lower_bound_of(micro_batch, of_plan);
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

}  // namespace millrace
