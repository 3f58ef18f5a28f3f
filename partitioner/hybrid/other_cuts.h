// Cuts beside those that are fastest between updates, which may be faster with them. Devices that take turns wait for what crosses a cut in
// the middle of their work, also where the links carry it within the period: whole layers on every device, and cuts that slower links would
// ask for, have less of it.
//
//   for (Candidate& other : other_cuts(task, attempt, /*wanted=*/0)) candidates.push_back(std::move(other));
//
// Each halving of the links is one more search, so what was found for a ring is found again where its links are twice as fast. None is an
// answer by itself: what a mini-batch takes decides. Internal to partitioner/hybrid.
#pragma once

#include <memory>
#include <vector>

#include "partitioner/hybrid/ring_attempt.h"

namespace millrace {

// Of a feasible attempt with full accounting, where some device does not stream rows. None is as slow between updates as `wanted`, in
// samples a second; 0: any.
std::vector<Candidate> other_cuts(const PlanTask& task, const std::shared_ptr<const RingAttempt>& best, double wanted);

}  // namespace millrace
