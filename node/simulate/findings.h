// Where a simulation differs from what the plan predicts, and why: sentences for people.
//
//   for (const std::string& sentence : findings(plan, result, {.images_per_second = 196.6, .in_flight_samples = 3})) ...
//
// Reasons have names that scripts can look for: fill, back-pressure, update, parameters, input, buffer, in flight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "node/simulate/simulate.h"

namespace millrace {

// The plan's own figures, modelled; 0: not known.
struct SimulationForecast {
  double images_per_second = 0;
  double over_mini_batches = 0;  // the run's pace, where the plan's is one of whole mini-batches; 0: both are between updates
  int64_t in_flight_samples = 0;
  double all_reduce_share = 0;  // of the time, for which replicas agree on an update
  std::string one = "image", many = "images";
};

// The run's pace that stands beside the plan's.
inline double compared_pace(const SimulationResult& result, const SimulationForecast& prediction) {
  return prediction.over_mini_batches > 0 ? prediction.over_mini_batches : result.images_per_second;
}

// What of the run that pace is of, for people.
inline const char* part_of_pace(const Plan& plan, const SimulationForecast& prediction) {
  if (prediction.over_mini_batches <= 0) return "the second half";
  return plan.purpose == Purpose::kInference ? "the steady part" : "whole mini-batches";
}

struct SimulationFinding {
  std::string reason;
  std::string text;
};

std::vector<SimulationFinding> findings(const Plan& plan, const SimulationResult& result, const SimulationForecast& prediction);

// The stage that works for most of its time. Nothing when no stage ran.
const SimulatedStage* busiest_stage(const SimulationResult& result);

// What works for most of the time: a stage, a link, or the all-reduce of replicas.
struct PaceSetter {
  std::string who;                        // "FP of conv1 on device 0", "the link between devices 1 and 2"; "" when nothing ran
  double share = 0;                       // of the time
  const SimulatedStage* stage = nullptr;  // where it is one
};
PaceSetter pace_setter(const Plan& plan, const SimulationResult& result, const SimulationForecast& prediction);
std::string name_of(const SimulatedStage& stage, const Plan& plan);

}  // namespace millrace
