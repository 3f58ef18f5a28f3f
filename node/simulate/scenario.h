// What happens to a ring beyond its plan: slow devices, unsteady links, several rings that agree on every update.
//
//   SimulationOptions options;
//   options.scenario.stragglers = {{.device = 3, .factor = 1.5}};
//   options.scenario.jitter_picoseconds = 200'000;             // every message up to 0.2 us later, drawn
//   options.scenario.replicas = {.count = 8, .method = AllReduce::kRing, .outer = {10'000'000'000, 1'000'000}};
//   const SimulationResult result = simulate(plan, graph, options);
//
// Randomness is drawn from (seed, device) and (seed, flow, message), in whole thousandths and picoseconds: the same on any
// number of ranks, in any order.
//   stragglers  a device's engines take `factor` times as long. A drawn one: each device with probability `share`, by a factor drawn
//               evenly between 1 and `most`.
//   jitter      a message arrives between 0 and so much later than its link's latency; one flow's messages stay in order. Credits
//               are not delayed.
//   replicas    all rings alike. After each mini-batch the devices of a column, which hold the same parameters, add up their
//               gradients, shard by shard as they are ready, over links of their own; the next weights are there when that is done.
// Fails with kUsage on what makes no sense or has no effect.
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

struct Straggler {
  int64_t device = 0;
  double factor = 1;
};

enum class AllReduce { kRing, kTree };
std::string_view name_of(AllReduce method);
AllReduce all_reduce_from(std::string_view name);  // fails with kUsage

struct ReplicaLink {
  int64_t bits_per_second = 0;
  int64_t latency_picoseconds = 0;
};

struct Replicas {
  int64_t count = 1;
  AllReduce method = AllReduce::kRing;
  ReplicaLink outer;       // between replicas, or between groups of them
  int64_t group_size = 0;  // replicas with faster links among them; 0: no groups
  ReplicaLink inner;       // within a group
};

struct SimulationScenario {
  std::vector<Straggler> stragglers;
  double straggler_share = 0, straggler_most = 1;
  int64_t jitter_picoseconds = 0;
  uint64_t seed = 0;
  Replicas replicas;
};

// Of one collective of so many bits:
//   ring   2 (k - 1) messages of 1/k of the bits, one after the other
//   tree   2 ceil(log2 k) messages of all bits
//   in groups of g: reduce-scatter by a ring within each, an all-reduce of 1/g of the bits between the k/g groups by the method,
//   all-gather by a ring within each
int64_t all_reduce_picoseconds(const Replicas& replicas, int64_t bits);

// Per device, in thousandths: 1000 is a device as the plan has it.
std::vector<int64_t> slowness_of(const SimulationScenario& scenario, int64_t devices);
// The plan with its engines' times stretched by that.
Plan with_stragglers(Plan plan, const SimulationScenario& scenario);

// Later than the latency, for message `index` of a flow.
int64_t jitter_of(const SimulationScenario& scenario, int64_t flow, int64_t index);

// Bits of gradients that each device's column adds up after a mini-batch: of the parameters that it stores.
std::vector<int64_t> column_bits(const Plan& plan);

void check_scenario(const Plan& plan, const SimulationScenario& scenario, int64_t samples);

}  // namespace millrace
