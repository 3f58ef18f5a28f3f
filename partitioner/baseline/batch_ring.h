// What both baselines have in common: the ring they reduce over, what a device must hold, and the figures that follow.
//
//   const BatchRing ring(task);
//   double seconds = ring.all_reduce_seconds(bits);
//   ring.fill(summary, {.compute_seconds = compute, .link_bits = bits, .exchange_seconds = seconds, .samples_held = s});
//
// Internal to partitioner/baseline. Borrows the task.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/hybrid/chain.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// One mini-batch.
struct BatchStep {
  std::vector<double> compute_seconds;  // per device
  double slowest_compute = 0;           // what the step waits for: more than the largest of them where layers wait for each other
  double exchange_seconds = 0;
  double link_bits = 0;        // forward over each link
  int64_t samples_held = 1;    // activations that a device keeps
  double parameter_share = 1;  // of all parameters that a device keeps
  std::vector<double> macs;    // per device, all phases
};

class BatchRing {
 public:
  explicit BatchRing(const PlanTask& task);

  int64_t devices() const { return static_cast<int64_t>(task_->models.size()); }
  double wire_bits() const;
  // On each link and in all, for a vector of so many bits that ends as the sum everywhere.
  double all_reduce_bits(double bits) const;
  double all_gather_bits(double bits) const { return all_reduce_bits(bits) / 2; }
  // The time in which a link carries so many bits, in so many steps.
  double seconds(double link_bits, double steps) const;

  // What a device holds, in bits: parameters with gradients and state, and activations. And what it can hold.
  double held_bits(int64_t device, int64_t samples, double parameter_share) const;
  double capacity_bits(int64_t device) const;
  // Samples at once: what the options say, or `samples` halved until they fit; 0 when not even one does.
  int64_t samples_that_fit(int64_t samples, double parameter_share) const;
  // Why not even one sample fits.
  Reason memory_reason(double parameter_share) const;

  void fill(const BatchStep& step, PlanSummary& summary) const;

 private:
  const PlanTask* task_;
  double bits_per_second_ = 0;
  double latency_seconds_ = 0;
};

}  // namespace millrace
