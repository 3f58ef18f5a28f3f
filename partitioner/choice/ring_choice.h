// One ring: with all its devices, or with some of them left without work, whichever is faster.
//
//   const RingChoice choice = choose_devices(task, /*leave_empty=*/true, /*next_best=*/false);
//   fmt::print("{} samples/s, without work: {}\n", rate_of(choice.outcome), choice.idle);
//
// Devices are left out one at a time, a run of them, or all but some of a kind, as far as bounds do not rule out that it is faster; which
// ones the planner tries is a part of all there are. Borrows the task while it runs. Internal to partitioner/choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/planning/planning.h"

namespace millrace {

// By how much another choice has to be faster.
inline constexpr double kWorthChoosing = 1e-6;
inline constexpr size_t kLongestToShorten = 200;  // devices; of a longer ring none are left out

using Places = std::vector<int64_t>;  // of a ring's devices

struct RingChoice {
  Outcome outcome;
  std::string idle;                                         // devices without work, in words
  std::optional<std::pair<std::string, double>> next_best;  // of the others that were asked for: which, and samples a second
};

// `next_best`: rings that are no faster are planned to their end all the same, and the best of them is named.
RingChoice choose_devices(const PlanTask& task, bool leave_empty, bool next_best);

// Samples a second; 0: there is no plan.
double rate_of(const Outcome& outcome);
// Those that are not kept; "none".
std::string device_list(const PlanTask& task, const Places& kept);

}  // namespace millrace
