// `millrace plan --profile`: stages from measured times, printed as a table for people or as JSON.
//
//   ProfilePlanFlags flags{.profile = "graph.txt", .devices = 8, .objective = "max", .link_gbps = 25};
//   return plan_from_profile(flags, /*json=*/false);
//
// What the numbers mean is in partitioner/profile/stage_partition.h. The JSON's keys are a contract: model (the file), strategy
// ("profile"), feasible, reason, max_stage_seconds, stages[{first, last, seconds}], bottleneck{kind, index}, idle_fraction,
// optimality_gap, solve_seconds, devices[{index, name, memory_fraction}], links[{from, to, gbps}]; and, beyond it, objective,
// exactly, replicate, link_gbps, micro_batches_per_second, lower_bound_seconds, cuts ("chain", "antichains", "linearised"),
// cuts_searched, of a stage nodes[], device, replicas and the parts of its seconds and bytes, of a link what crosses it per
// micro-batch, left_out{inputs[], unused[]}, shortage{device, resource, missing, smallest_count}, and origin{}: which figures
// are measured and which modelled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

inline constexpr double kProfileLinkGbps = 10;  // where --link-gbps is not given

struct ProfilePlanFlags {
  std::string profile = {};              // PipeDream's graph.txt or a CSV
  std::optional<int64_t> devices = {};   // --devices
  std::string objective = "compute";     // --objective compute|max|sum
  std::optional<double> link_gbps = {};  // --link-gbps, per direction
  bool at_most = false;                  // --at-most: fewer devices where that is faster
  std::optional<double> memory_gb = {};  // --memory-gb per device, 1e9 bytes; none: no limit
  std::string memory_rule = "1f1b";      // --memory-rule, what is held: 1f1b, stash, sum
  std::vector<double> speeds = {};       // --speeds, one per device, relative to the profile's; none: 1
  bool replicate = false;                // --replicate: PipeDream's data-parallel stages
};

// Returns the exit status: 0, or 3 when nothing fits, with the reason on standard error (and in the JSON).
// Fails with kUsage naming the flag, and as load_profile does.
int plan_from_profile(const ProfilePlanFlags& flags, bool json);

}  // namespace millrace
