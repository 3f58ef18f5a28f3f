// All that one `millrace study` found: a curve for each combination of what is swept, and what goes with them.
//
//   StudySweep sweep{.curves = {{task, study}}};
//   curve_name(sweep, 1);                                // "layer, 32 bits": what sets it apart from the others
//
// Plain values; the tasks' graph and models must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/study/study.h"
#include "partitioner/study/topology.h"

namespace millrace {

struct StudyCurve {
  StudyTask task;
  Study study;
};

struct WiringPoint {
  int64_t devices = 0;
  TopologyComparison comparison;
};

// One-dimensional beside two-dimensional interconnect for consecutive layers: FPDeep's Fig 10.
struct WiringStudy {
  std::vector<std::string> layers;
  TopologyRules rules;
  std::vector<WiringPoint> points;
};

// Time lost to checkpoints, to work done again and to restarts, by how often checkpoints are written.
struct FailurePoint {
  double interval_seconds = 0;  // of work between two checkpoints
  double lost_modelled = 0;     // share of the time; 1 - interval / expected time of an interval
  double lost_simulated = 0;
};
struct FailureStudy {
  int64_t devices = 0;
  double images_per_second = 0;  // while nothing fails
  double device_mtbf_seconds = 0;
  double ring_mtbf_seconds = 0;
  double checkpoint_seconds = 0;
  double restart_seconds = 0;
  double young_seconds = 0;  // sqrt(2 C M)
  double daly_seconds = 0;   // its second order
  int64_t failures = 0;      // simulated for each interval, at least
  std::vector<FailurePoint> points;
};

struct StudySweep {
  std::vector<StudyCurve> curves;  // at least one
  std::optional<WiringStudy> wirings;
  std::optional<FailureStudy> failures;
};

// "75 Gb/s each way", "150 Gb/s both directions together"
std::string link_text(const LinkEntry& link);
// What sets the curve apart from the others; empty where it is alone.
std::string curve_name(const StudySweep& sweep, size_t curve);
bool simulates(const StudySweep& sweep);
// Of Fig 14: the largest feasible ring of the first curve that still reads as columns, or nothing.
const StudyPoint* ring_to_show(const StudySweep& sweep);

}  // namespace millrace
