// A ring in which some devices get no work, planned as the ring of the others. Internal to partitioner/choice.
//
//   const PlanTask smaller = without_devices(task, {0, 1, 2});       // of five devices, say: 3 and 4 stay without work
//   Outcome outcome = make_plan(smaller);
//   Plan plan = on_whole_ring(*outcome.plan, task, {0, 1, 2});       // five devices again
//
// A device without work passes on what comes: between its neighbours there is one link, as narrow as the narrowest on the way and as long
// as all of them together. What the smaller ring keeps in flight, the whole ring does.
// The tasks share graph and cost models, which must outlive them.
#pragma once

#include <cstdint>
#include <span>

#include "partitioner/planning/planning.h"

namespace millrace {

// `kept` ascends. Times of mini-batches are asked for on the whole ring.
PlanTask without_devices(const PlanTask& task, std::span<const int64_t> kept);

Plan on_whole_ring(const Plan& plan, const PlanTask& whole, std::span<const int64_t> kept);

}  // namespace millrace
