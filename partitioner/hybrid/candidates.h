// The plans of one task of which the fastest training is chosen: one for each micro-batch that is worth a look, and what a mini-batch
// takes.
//
//   Findings findings;
//   for (Candidate& candidate : candidates_of(task, /*before=*/{}, findings))
//     if (add_mini_batch_time(task, candidate, findings.standstill)) candidate.summary.images_per_second;
//
// The task says where weights lie (places_to_try.h); who has several such tasks hands on what it knows already. What a mini-batch takes is
// asked of the task, once for each candidate and no sooner than it matters. Pure but for what the task begins meanwhile
// (PlanTask::begin_mini_batch_time). Internal to partitioner/hybrid.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "partitioner/hybrid/ring_attempt.h"
#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// By how much a plan has to be faster than another where it comes with a delay.
inline constexpr double kWorthSharing = 1e-3;

// What a search for plans found out beside them.
struct Findings {
  Shortage shortage;
  std::string standstill;
  std::map<int64_t, double> bounds;  // by micro-batch: seconds per sample, wherever weights lie
};

// Whether what waits for errors lies in boards' own memories.
bool waits_outside(const Candidate& candidate);

// As slow between updates, and not less to send when one comes: an update takes no less either, unless rows are sooner back from the chip.
bool no_better(const Candidate& candidate, const Candidate& known);

// False where the plan comes to a standstill, and why.
bool add_mini_batch_time(const PlanTask& task, Candidate& candidate, std::string& standstill);

// A plan for every micro-batch that allows one, each as fast as can be between updates; where parameters live with others also one where
// they do not: slower between updates, and at an update or with every pass perhaps faster. Where devices take turns also some with other
// cuts, for the same reason.
// `before`: what is known already; a plan that is no better than one of them is not asked what an update takes, and not among the answers.
std::vector<Candidate> candidates_of(const PlanTask& task, const std::vector<Candidate>& before, Findings& findings);

}  // namespace millrace
