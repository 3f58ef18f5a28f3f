// What a stage costs that several devices compute data-parallel, each taking every m-th micro-batch: PipeDream's model
// (Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019, section 3.1).
//
//   const double seconds = replicated_seconds(compute, parameter_bytes, /*replicas=*/3, gbps * 1e9 / 8);
//
// Per micro-batch of the whole pipeline, the m devices need compute / m, and keeping their weights equal moves
// 2 (m - 1) / m x parameter bytes through each of them (a ring all-reduce); the two overlap, so the larger counts. One device
// alone synchronises nothing. Activations and their gradients cross a cut once per micro-batch, however many devices stand on
// either side: as in the paper, their time is not divided by the replicas. Internal to partitioner/profile.
#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace {

inline double synchronise_seconds(double parameter_bytes, int64_t replicas, double bytes_per_second) {
  if (replicas <= 1) return 0;
  const auto m = static_cast<double>(replicas);
  return 2 * (m - 1) / m * parameter_bytes / bytes_per_second;
}

inline double replicated_seconds(double compute_seconds, double parameter_bytes, int64_t replicas, double bytes_per_second) {
  return std::max(compute_seconds / static_cast<double>(replicas), synchronise_seconds(parameter_bytes, replicas, bytes_per_second));
}

// Micro-batches whose activations a stage holds under one-forward-one-backward, when it has `replicas` of the `remaining`
// devices from itself to the last: each device of the first stage feeds the pipeline as fast as the last one drains it.
inline int64_t micro_batches_in_flight(int64_t remaining, int64_t replicas) { return (remaining + replicas - 1) / replicas; }

}  // namespace millrace
