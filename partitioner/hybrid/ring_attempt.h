// One way to see a ring's task, the search's answer to it, and the plan that is made of that.
//
//   std::shared_ptr<const RingAttempt> attempt = best_attempt(task, /*micro_batch=*/1);
//   if (attempt->solution.feasible)
//     if (std::optional<Candidate> fastest = fastest_of(task, attempt)) fastest->summary.images_per_second;
//
// A search counts what engines take as it reserves it; a candidate has them as they are built. An attempt owns its task, which its solver
// refers to, so it is never copied; candidates share attempts. Nothing here knows what a mini-batch takes. Internal to
// partitioner/hybrid.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/documents/plan.h"
#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/planning/planning.h"
#include "partitioner/planning/summary.h"

namespace millrace {

// Longer rings that work are not planned a second time, which takes seconds.
inline constexpr size_t kLongRing = 200;

struct BegunBound;

// The solver refers to the task beside it.
struct RingAttempt {
  RingAttempt(PlanTask the_task, int64_t micro_batch) : task(std::move(the_task)), solver(task, micro_batch) {}
  // With so large a part of the memory of boards, each of which the owners have for all alike.
  RingAttempt(PlanTask the_task, int64_t micro_batch, std::vector<std::shared_ptr<const CostModel>> the_owners)
      : owners(std::move(the_owners)), task(std::move(the_task)), solver(task, micro_batch) {}
  RingAttempt(const RingAttempt&) = delete;
  RingAttempt& operator=(const RingAttempt&) = delete;
  std::vector<std::shared_ptr<const CostModel>> owners;  // of the task's models, where they are the attempt's own
  PlanTask task;
  RingSolver solver;
  RingSolution solution;
  std::shared_ptr<BegunBound> begun = nullptr;  // of the solution's bound, probably
};

// Whether engines as they are built rule a period out, looked at beside whoever goes on.
struct BegunBound {
  BegunBound(PlanTask the_least, int64_t micro_batch, double the_period);
  RingAttempt least;
  double period;
  std::future<bool> is_ruled_out;  // to ask for once; its end waits for it
};

// Every device has work, unless leaving some without is faster, or the only way.
std::unique_ptr<RingAttempt> best_attempt(const PlanTask& task, int64_t micro_batch);
// Whether some boards have blocks of two kinds: then only a search that counts what is built says what fits.
bool has_two_kinds(const PlanTask& task);
// Whether what a search reserves may be far more than what is built: of those, and of convolutions of two channel groups, whose parts may
// take more than the whole.
bool may_reserve_too_much(const PlanTask& task);
// Whether no cuts keep a period, with larger engines counted as the least that they may take.
bool cuts_rule_out(const PlanTask& task, int64_t micro_batch, double period);

// The longest period up to `known` that no cuts keep whatever engines are built, and at least `bound`, which is one.
double longest_ruled_out_as_built(const PlanTask& task, int64_t micro_batch, double known, double bound);

struct Candidate {
  std::shared_ptr<const RingAttempt> attempt;
  Plan plan;
  PlanSummary summary;
  bool timed = false;                      // what a mini-batch takes is known
  std::vector<WaitingWords> waiting = {};  // then: of samples, in boards' own memories
  bool stands_still = false;
  bool surpassed = false;  // by one that is known: its time is that one's, which it cannot undercut
};

// And the gap that follows, of a candidate with its summary.
void set_bound(double bound, Candidate& candidate);
// Of the attempt's solution.
Candidate candidate_of(const PlanTask& task, const std::shared_ptr<const RingAttempt>& attempt, double lower_bound);
// The fastest between updates with the attempt's micro-batch. Where the plan, as it is built, is larger than a device, or on boards with
// UltraRAM slower than its search promised, cuts for slightly longer periods are looked at, and such for which no word is left out; where
// boards of two kinds of blocks have too few for it, those alone that count what is built, with a little less memory, too. Where it is not
// close to the bound, plans are looked for with engines as they are built, and so is the bound. Nothing where none
// fits. `longest`: seconds a sample, those that take so long are not looked for where it would take long to find one.
std::optional<Candidate> fastest_of(const PlanTask& task, const std::shared_ptr<const RingAttempt>& attempt,
                                    double longest = std::numeric_limits<double>::infinity());

// Where what a search reserves fits in no ring, but larger engines, or parts of layers, may take less of boards with two kinds of blocks:
// the fastest plan of those that are found counting what is built. Nothing where none is found; `shortage` is then what stands in its way
// whatever is built, if that is known, else not decided. `bound`: set to what is ruled out, where that is less than everything.
std::optional<Candidate> fastest_of_what_is_built(const PlanTask& task, int64_t micro_batch, Shortage& shortage, double& bound);

// A search that counts engines as they are built, and cuts for one period, looked for beside whoever goes on.
class BegunLook {
 public:
  // On a machine that does one thing at a time they are looked for when they are asked for.
  BegunLook(const PlanTask& searched, int64_t micro_batch, double period);

  const std::shared_ptr<const RingAttempt>& attempt() const { return attempt_; }
  double period() const { return period_; }
  RingSolution solution() { return solution_.get(); }  // once

 private:
  std::shared_ptr<const RingAttempt> attempt_;
  double period_;
  std::future<RingSolution> solution_;  // its end waits for it
};

// A plan faster than `known`, seconds a sample between updates, in a search that counts engines as they are built: near the bound if there
// is one, else by bisection. Nothing where none is found, which proves nothing: a larger shard may take less than a smaller one.
// `better_bound`: asked for a better one up to a period, where none is near; may be empty.
// `begun`: its first look, where somebody began it.
std::optional<Candidate> fastest_as_built(const PlanTask& task, const PlanTask& searched, int64_t micro_batch, double known, double& bound,
                                          const std::function<double(double known)>& better_bound, BegunLook* begun = nullptr);

}  // namespace millrace
