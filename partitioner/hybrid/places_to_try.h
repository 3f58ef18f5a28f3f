// What a plan is looked for in, one after the other: tasks that say where weights, and what waits for errors, may lie, with full
// accounting, and micro-batches.
//
//   for (const PlanTask& place : rooms_to_try(task, places_to_try(task), /*outside_first=*/false)) ...
//   for (const PlanTask& resort : last_resorts(task)) ...          // where none of those has a plan
//   for (const int64_t micro_batch : micro_batches_to_try(task)) ...
//
// A plan of every one of them is one of the task; they differ in what a search counts as on chip. Pure functions; what they return borrows
// what the task borrows.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// Of a dense layer that some device keeps off chip, unless the options say otherwise.
bool lies_off_chip(const PlanTask& task, const Node& node);

// As it is; then with weights on chip of as many of the layers that lie off it, the smallest first, as the ring's memories may hold: words
// off chip may cost more than memory does.
std::vector<PlanTask> places_to_try(const PlanTask& given);

// Whether what waits before layers for its errors may lie in boards' own memories.
bool may_wait_outside(const PlanTask& task);

// Each with what waits for errors on chip and outside, where it may.
std::vector<PlanTask> rooms_to_try(const PlanTask& task, const std::vector<PlanTask>& places, bool outside_first);

// What may fit where nothing else does; with all that waits outside as well, but on boards with blocks of two kinds.
std::vector<PlanTask> last_resorts(const PlanTask& task);

// The one that is stated, or powers of two that divide the mini-batch, as far as they fill a ring of so many devices; 0: of all.
std::vector<int64_t> micro_batches_to_try(const PlanTask& task, int64_t devices = 0);

// By how much a plan has to be faster than another to be taken for it.
inline constexpr double kWorthAnother = 1e-9;

// Of time, where they are not stated: so many at most. By how much they have to be faster than whole sequences, since what a kernel more
// costs is modelled roughly; and by how much more of them than fewer.
inline constexpr int64_t kMostChunks = 64;
inline constexpr double kWorthChunks = 0.01;
inline constexpr double kWorthMoreChunks = 1e-3;
inline bool chooses_chunks(const PlanTask& task) { return task.options.time_chunks == 0; }

}  // namespace millrace
