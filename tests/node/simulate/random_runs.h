// A random plan with random times, ready to be simulated: engines of their own, devices that take turns, or both in one ring.
//
//   const RandomRun run(seed, Alignment::kStash);
//   SimulationResult result = simulate(run.plan, run.graph, run.options);
#pragma once

#include "node/simulate/simulate.h"
#include "tests/core/random_plans.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace::testing_support {

struct RandomRun {
  RandomRun(uint64_t seed, Alignment alignment) : random(seed), generator(seed * 7919 + 1), graph(random.model()) {
    const int64_t devices = random.between(1, 5);
    const int64_t micro_batches = random.between(std::max<int64_t>(1, devices - 1), 6);
    PlanRequest request = random.request(devices, alignment, micro_batches);
    request.micro_batch = random.between(1, 3);
    request.mini_batch = request.micro_batch * micro_batches;
    for (LinkEntry& link : request.cluster.links)
      link = {0.01 * static_cast<double>(random.between(1, 200)), 0.01 * static_cast<double>(random.between(1, 200)),
              random.chance(0.3) ? 1.0 : 0.0, 0.001 * static_cast<double>(random.between(1, 2000))};
    const std::vector<Shard> shards = random.shards(graph, devices);
    if (random.chance(0.6)) request.remote_homes = random_homes(assemble_plan(graph, request, shards), generator);
    plan = assemble_plan(graph, request, shards);
    const int64_t kind = random.between(0, 2);  // all stream, all take turns, mixed
    std::vector<bool> turns;
    for (int64_t d = 0; d < devices; ++d) turns.push_back(kind == 1 || (kind == 2 && random.chance(0.5)));
    for (Shard& shard : plan.shards) {
      if (!graph.node(graph.index_of(shard.layer)).computes) continue;
      set_times(shard, graph, 1, turns[static_cast<size_t>(shard.device)] ? 0 : random.between(1, 9));
      for (PhaseEngine& engine : shard.phases) engine.picoseconds_per_unit = random.between(1, 3) * random.between(1, 1'000'000);
    }
    options.samples = plan.mini_batch * random.between(5, 7);
    options.fc_barrier = random.chance(0.5);
    options.paced = random.chance(0.5);
    if (random.chance(0.3)) options.fifo_rows = random.between(2, 9);
  }

  RandomPlans random;
  std::mt19937_64 generator;
  Graph graph;
  Plan plan;
  SimulationOptions options;
};

}  // namespace millrace::testing_support
