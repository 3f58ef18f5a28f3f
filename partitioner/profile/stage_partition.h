// Cuts a profile into the stages of a pipeline so that the slowest stage is as fast as it can be: exactly, by dynamic
// programming over every place where the profile may be cut.
//
//   const Profile profile = load_profile("graph.txt");
//   const StagePartition plan = partition_stages(profile, {.devices = 8, .objective = StageObjective::kMax, .link_gbps = {10}});
//   if (!plan.feasible) report(plan.reason.text);
//   for (const Stage& stage : plan.stages) fmt::print("{} to {}: {} s\n", stage.first, stage.last, stage.seconds);
//
// Stage s runs on device s. A tensor that a later stage takes crosses every cut up to there, its gradient comes back the same
// way: 2 x bytes over the cut's link. What a stage takes, by objective:
//   compute  its nodes' seconds over its device's speed
//   max      the larger of that and of its transfers, in and out: links and arithmetic work side by side
//   sum      both together: they take turns
// max and sum are not monotone (a longer stage may cut at a thinner tensor and be faster), so no greedy probe finds the
// optimum. Among the fastest, the answer is one with the least memory on the fullest device, and of these one with the least
// traffic ("equal" means to 1e-13 of the profile's time).
// Cuts of a profile that branches are those of antichain.h when there are at most `most_cuts`, else those of one order
// (linearise.h): StagePartition::cuts says which, and lower_bound_seconds then bounds what other orders could reach.
// Complexity, for D devices and C cuts: O(D C^2) time, in practice nearer C^2, as no stage longer than the best answer so far
// is looked at; D times that for `exactly = false` with unequal devices or links; O(D^2 C^2) with replication. O(D C) memory.
// So that no search takes longer than about half a minute, those two, and graphs over more than 60 devices, are linearised
// sooner, and the former refuse profiles that are too long even then.
// Pure: the same task gives the same answer. Limits: kMostStageDevices devices; speeds and links within the bounds below;
// replicas are of equal devices and links. A stage is never empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/planning/planning.h"
#include "partitioner/profile/antichain.h"
#include "partitioner/profile/cut_space.h"
#include "partitioner/profile/profile.h"

namespace millrace {

inline constexpr int64_t kMostStageDevices = 1024;
inline constexpr double kLeastLinkGbps = 1e-6, kMostLinkGbps = 1e9;
inline constexpr double kLeastSpeed = 1e-6, kMostSpeed = 1e6;

enum class StageObjective { kCompute, kMax, kSum };
std::string_view name_of(StageObjective objective);          // "compute", "max", "sum"
StageObjective stage_objective_from(std::string_view name);  // fails with kUsage

// What a stage's memory holds. In flight are as many micro-batches as stages from this one to the last, its own included:
// PipeDream's 1F1B schedule. The optimizer's state is in none of them.
enum class MemoryRule {
  kOneForwardOneBackward,  // parameters, their gradient, and the activations of every micro-batch in flight
  kStash,                  // the same with a version of the parameters per micro-batch in flight
  kSum,                    // parameters, their gradient, and the activations of one micro-batch
};
std::string_view name_of(MemoryRule rule);           // "1f1b", "stash", "sum"
MemoryRule memory_rule_from(std::string_view name);  // fails with kUsage

struct StageTask {
  int64_t devices = 1;
  // False: at most so many. Of devices of several speeds behind links that are alike the best are used, in their order; else the first.
  bool exactly = true;
  StageObjective objective = StageObjective::kCompute;
  std::vector<double> link_gbps = {10};  // one for all links, or one per link: between stage s and s + 1
  std::vector<double> speeds = {};       // per device, relative to the one the profile was measured on; empty: 1
  double memory_bytes = 0;               // per device; 0: no limit
  MemoryRule memory_rule = MemoryRule::kOneForwardOneBackward;
  bool replicate = false;  // stages may have several devices each (replication.h); `devices` is their sum
  int64_t most_cuts = kMostCuts;
};

struct Stage {
  std::string first, last;     // nodes, in the profile's order
  std::vector<int64_t> nodes;  // ascending
  int64_t device = 0;          // the first of its `replicas`
  int64_t replicas = 1;
  double seconds = 0;              // by the objective
  double compute_seconds = 0;      // per micro-batch: over the device's speed and the number of replicas
  double synchronise_seconds = 0;  // replicas only
  double in_seconds = 0;           // transfers, both ways
  double out_seconds = 0;
  double in_bytes = 0;  // one way
  double out_bytes = 0;
  double parameter_bytes = 0;
  double activation_bytes = 0;  // of one micro-batch
  int64_t in_flight = 1;        // micro-batches
  double memory_bytes = 0;      // by the memory rule
};

struct StagePartition {
  bool feasible = false;
  Reason reason;
  std::vector<Stage> stages;
  double max_stage_seconds = 0;
  // What decides the slowest stage: "device" for its arithmetic (or its replicas' synchronisation), "link" for the slower of
  // its transfers. Link i is between device i and i + 1.
  Bottleneck bottleneck;
  double lower_bound_seconds = 0;
  double optimality_gap = 0;  // of the slowest stage, over the lower bound; 0 unless linearised
  CutKind cuts = CutKind::kChain;
  int64_t cuts_searched = 0;
  double solve_seconds = 0;  // measured
};

// Fails with kUsage on a task that makes no sense, kMalformed on a profile that validate() refuses.
StagePartition partition_stages(const Profile& profile, const StageTask& task);

}  // namespace millrace
