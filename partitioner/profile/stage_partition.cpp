#include "partitioner/profile/stage_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/base/index.h"
#include "partitioner/profile/linearise.h"
#include "partitioner/profile/replication.h"
#include "partitioner/profile/stage_search.h"

namespace millrace {
namespace {

// Products of devices and cuts beyond which searches that grow faster in the devices take minutes.
constexpr int64_t kMostReplicationWork = 100'000;
constexpr int64_t kMostUnequalWork = 250'000;
// And for graphs over equal devices; a chain has few cuts.
constexpr int64_t kMostGraphWork = 1'250'000;

template <typename Enumeration, size_t N>
Enumeration from_name(std::string_view name, std::string_view what, const Enumeration (&known)[N]) {
  std::vector<std::string> names;
  for (const Enumeration value : known) {
    if (name_of(value) == name) return value;
    names.emplace_back(name_of(value));
  }
  fail(ErrorCode::kUsage, "{} \"{}\" is unknown{}", what, name, suggestion(name, names));
}

void check_values(const std::vector<double>& values, std::string_view what, double least, double most) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!(values[i] >= least) || values[i] > most)
      fail(ErrorCode::kUsage, "{} {} is {}, expected {:g} to {:g}", what, i, values[i], least, most);
}

bool differ(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end();
}

void check(const StageTask& task) {
  if (task.devices < 1 || task.devices > kMostStageDevices)
    fail(ErrorCode::kUsage, "{} devices, expected 1 to {}", task.devices, kMostStageDevices);
  const auto devices = to_size(task.devices);
  check_values(task.link_gbps, "the bandwidth in Gb/s of link", kLeastLinkGbps, kMostLinkGbps);
  if (task.link_gbps.empty() || (task.link_gbps.size() != 1 && task.link_gbps.size() + 1 != devices))
    fail(ErrorCode::kUsage, "{} link bandwidths for {} devices, expected 1 or {}", task.link_gbps.size(), devices, devices - 1);
  check_values(task.speeds, "the speed of device", kLeastSpeed, kMostSpeed);
  if (!task.speeds.empty() && task.speeds.size() != devices)
    fail(ErrorCode::kUsage, "{} speeds for {} devices, expected one each", task.speeds.size(), devices);
  if (!(task.memory_bytes >= 0) || !std::isfinite(task.memory_bytes))
    fail(ErrorCode::kUsage, "a memory of {} bytes, expected 0 (no limit) or more", task.memory_bytes);
  if (task.replicate && (differ(task.speeds) || differ(task.link_gbps)))
    fail(ErrorCode::kUsage, "replicas share a stage evenly, so they need equal devices and links; leave out speeds or replication");
}

// What the stage from one cut to the next is, in words and numbers.
Stage described(const Profile& profile, const StageTask& task, const CutSpace& cuts, const StageSearch& search, const StageCut& cut,
                int64_t remaining, int64_t used) {
  Stage stage;
  stage.nodes = cuts.nodes_between(cut.begin, cut.end);
  stage.first = item(profile.nodes, stage.nodes.front()).name;
  stage.last = item(profile.nodes, stage.nodes.back()).name;
  stage.device = cut.device >= 0 ? cut.device : used - remaining;
  stage.replicas = cut.replicas;
  long double seconds = 0;
  for (const int64_t n : stage.nodes) {
    const ProfileNode& node = item(profile.nodes, n);
    seconds += node.seconds();
    stage.parameter_bytes += node.parameter_bytes;
    stage.activation_bytes += node.activation_bytes;
  }
  const auto bytes_per_second = [&](int64_t link) {
    return (task.link_gbps.size() == 1 ? task.link_gbps[0] : item(task.link_gbps, link)) * 1e9 / 8;
  };
  const double speed = task.speeds.empty() ? 1 : item(task.speeds, stage.device);
  stage.compute_seconds = static_cast<double>(seconds) / speed / static_cast<double>(stage.replicas);
  if (cut.begin > 0) {
    stage.in_bytes = item(cuts.crossing_bytes, cut.begin);
    stage.in_seconds = 2 * stage.in_bytes / bytes_per_second(stage.device - 1);
  }
  if (cut.end < cuts.last()) {
    stage.out_bytes = item(cuts.crossing_bytes, cut.end);
    stage.out_seconds = 2 * stage.out_bytes / bytes_per_second(stage.device + stage.replicas - 1);
  }
  stage.synchronise_seconds = synchronise_seconds(stage.parameter_bytes, stage.replicas, bytes_per_second(0));  // links are equal then
  const double work = std::max(stage.compute_seconds, stage.synchronise_seconds);
  const double transfers = stage.in_seconds + stage.out_seconds;
  stage.seconds = work;
  if (task.objective == StageObjective::kMax) stage.seconds = std::max(work, transfers);
  if (task.objective == StageObjective::kSum) stage.seconds = work + transfers;
  stage.in_flight = micro_batches_in_flight(remaining, stage.replicas);
  stage.memory_bytes = search.stage_memory(cut, remaining);
  return stage;
}

Bottleneck bottleneck_of(const StagePartition& plan, StageObjective objective) {
  const auto slowest =
      std::max_element(plan.stages.begin(), plan.stages.end(), [](const Stage& a, const Stage& b) { return a.seconds < b.seconds; });
  const double work = std::max(slowest->compute_seconds, slowest->synchronise_seconds);
  const double transfers = slowest->in_seconds + slowest->out_seconds;
  if (objective == StageObjective::kCompute || work >= transfers) return {"device", slowest->device};
  const bool in = slowest->in_seconds >= slowest->out_seconds;
  return {"link", in ? slowest->device - 1 : slowest->device + slowest->replicas - 1};
}

// No pipeline over these devices is faster, however it is cut: all of them busy all the time, or the longest node alone on
// the fastest of them.
double bound_for_any_order(const Profile& profile, const StageTask& task) {
  const bool plain = task.speeds.empty();
  const double speeds = plain ? static_cast<double>(task.devices) : std::accumulate(task.speeds.begin(), task.speeds.end(), 0.0);
  const double fastest = plain ? 1 : *std::max_element(task.speeds.begin(), task.speeds.end());
  const double shared = profile.total_seconds() / speeds;
  if (task.replicate) return shared;
  double longest = 0;
  for (const ProfileNode& node : profile.nodes) longest = std::max(longest, node.seconds());
  return std::max(shared, longest / fastest);
}

std::string size_text(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) bytes /= 1000, ++unit;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string remedy(int64_t smallest, int64_t looked_at) {
  if (smallest > 0) return fmt::format("; {} device{} of this memory would do", smallest, smallest == 1 ? "" : "s");
  return fmt::format("; no number of devices up to {} would do", looked_at);
}

Reason why_not(const Profile& profile, const StageTask& task, const CutSpace& cuts) {
  const CutSpace by_memory = cuts.in_order_of(memory_order(cuts));
  StageSearch search(by_memory, task);
  int64_t most = 4 * task.devices + 64;
  if (!task.replicate) most = std::min(most, profile.size());
  Reason reason;
  const auto smallest = [&] { return task.memory_bytes > 0 ? search.smallest_count(most) : int64_t{1}; };
  if (!task.replicate && task.exactly && task.devices > profile.size()) {
    reason.resource = "nodes";
    reason.missing = static_cast<double>(task.devices - profile.size());
    reason.smallest_count = smallest();
    reason.text = fmt::format("{} devices need a node each at least, and {} has {}; {} devices are the most that can all work",
                              task.devices, profile.origin, profile.size(), profile.size());
    return reason;
  }
  const std::optional<StageAnswer> best = search.least_full();
  reason.resource = "memory_bytes";
  if (!best) {  // replicas can always share the whole; stages of one device can always be cut when there are nodes enough
    reason.text = fmt::format("{} cannot be cut for {} devices", profile.origin, task.devices);
    return reason;
  }
  int64_t remaining = best->devices;
  for (const StageCut& stage : best->stages) {
    const double memory = search.stage_memory(stage, remaining);
    if (memory == best->memory_bytes) {
      const std::vector<int64_t> nodes = by_memory.nodes_between(stage.begin, stage.end);
      const int64_t flight = micro_batches_in_flight(remaining, stage.replicas);
      reason.device = best->devices - remaining;
      reason.missing = memory - task.memory_bytes;
      reason.smallest_count = smallest();
      const std::string& first = item(profile.nodes, nodes.front()).name;
      const std::string& last = item(profile.nodes, nodes.back()).name;
      reason.text = fmt::format(
          "device {} would need {} for {} ({} micro-batch{} in flight), {} more than it has; no other cut{} for {}{} devices "
          "needs less on its fullest device{}",
          reason.device, size_text(memory), nodes.size() == 1 ? first : fmt::format("{} to {}", first, last), flight,
          flight == 1 ? "" : "es", size_text(reason.missing), cuts.kind == CutKind::kLinearised ? " of the one order searched" : "",
          task.exactly ? "" : "at most ", task.devices, remedy(reason.smallest_count, most));
      return reason;
    }
    remaining -= stage.replicas;
  }
  return reason;
}

CutSpace cuts_for(const Profile& profile, const StageTask& task) {
  int64_t most = std::numeric_limits<int64_t>::max();
  if (task.replicate)
    most = kMostReplicationWork / task.devices;
  else if (!task.exactly && (differ(task.speeds) || differ(task.link_gbps)))
    most = kMostUnequalWork / task.devices;
  const int64_t most_of_graph = std::min({task.most_cuts, most, kMostGraphWork / task.devices});
  if (!profile.is_chain())
    if (std::optional<CutSpace> cuts = antichain_cuts(profile, most_of_graph)) return *std::move(cuts);
  if (profile.size() > most)
    fail(ErrorCode::kUsage, "{} over {} devices is searched for up to {} nodes, and {} has {}; merge nodes, or take fewer devices",
         task.replicate ? "replication" : "every number of unequal devices", task.devices, most, profile.origin, profile.size());
  return linear_cuts(profile);
}

// Without the cuts whose transfers alone take longer than an answer that is known, on whatever link.
CutSpace without_thick_cuts(const CutSpace& cuts, const StageTask& task, double known) {
  if (task.objective == StageObjective::kCompute) return cuts;
  const double bytes_per_second = *std::max_element(task.link_gbps.begin(), task.link_gbps.end()) * 1e9 / 8;
  std::vector<bool> kept(to_size(cuts.size()));
  for (size_t cut = 0; cut < kept.size(); ++cut) kept[cut] = 2 * cuts.crossing_bytes[cut] / bytes_per_second <= known * (1 + 1e-9);
  kept.front() = kept.back() = true;
  return cuts.only(kept);
}

}  // namespace

std::string_view name_of(StageObjective objective) {
  switch (objective) {
    case StageObjective::kCompute: return "compute";
    case StageObjective::kMax: return "max";
    case StageObjective::kSum: return "sum";
  }
  return "unknown";
}

StageObjective stage_objective_from(std::string_view name) {
  return from_name(name, "the objective", {StageObjective::kCompute, StageObjective::kMax, StageObjective::kSum});
}

std::string_view name_of(MemoryRule rule) {
  switch (rule) {
    case MemoryRule::kOneForwardOneBackward: return "1f1b";
    case MemoryRule::kStash: return "stash";
    case MemoryRule::kSum: return "sum";
  }
  return "unknown";
}

MemoryRule memory_rule_from(std::string_view name) {
  return from_name(name, "the memory rule", {MemoryRule::kOneForwardOneBackward, MemoryRule::kStash, MemoryRule::kSum});
}

StagePartition partition_stages(const Profile& profile, const StageTask& task) {
  const auto begin = std::chrono::steady_clock::now();
  check(task);
  validate(profile);
  StagePartition plan;
  const auto done = [&] {
    plan.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return plan;
  };
  const CutSpace cuts = cuts_for(profile, task);
  plan.cuts = cuts.kind;
  plan.cuts_searched = cuts.size();
  StageTask asked = task;
  const bool picks = !asked.exactly && differ(asked.speeds) && !differ(asked.link_gbps);
  if (!asked.exactly && !asked.replicate && !picks) {
    // More devices than nodes cannot all work.
    asked.devices = std::min(asked.devices, profile.size());
    if (!asked.speeds.empty()) asked.speeds.resize(to_size(asked.devices));
    if (asked.link_gbps.size() > 1) asked.link_gbps.resize(to_size(std::max<int64_t>(1, asked.devices - 1)));
  }
  double known = std::numeric_limits<double>::infinity();
  if (cuts.kind == CutKind::kAntichains) {
    const CutSpace order = linear_cuts(profile);  // a subset of the cuts, quick to search: what takes longer need not be looked at
    if (const auto answer = StageSearch(order, asked, picks).fastest()) known = answer->seconds;
  }
  const CutSpace worthwhile = cuts.kind == CutKind::kAntichains && std::isfinite(known) ? without_thick_cuts(cuts, asked, known) : cuts;
  StageSearch search(worthwhile, asked, picks);
  const std::optional<StageAnswer> answer = search.fastest(known);
  if (!answer) {
    plan.reason = why_not(profile, asked, cuts);
    return done();
  }
  plan.feasible = true;
  int64_t remaining = answer->devices;
  for (const StageCut& cut : answer->stages) {
    plan.stages.push_back(described(profile, asked, worthwhile, search, cut, remaining, answer->devices));
    plan.max_stage_seconds = std::max(plan.max_stage_seconds, plan.stages.back().seconds);
    remaining -= cut.replicas;
  }
  plan.bottleneck = bottleneck_of(plan, task.objective);
  plan.lower_bound_seconds = plan.max_stage_seconds;
  if (cuts.kind == CutKind::kLinearised) {
    plan.lower_bound_seconds = std::min(plan.max_stage_seconds, bound_for_any_order(profile, asked));
    if (plan.max_stage_seconds > 0) plan.optimality_gap = 1 - plan.lower_bound_seconds / plan.max_stage_seconds;
  }
  return done();
}

}  // namespace millrace
