// Two simulations of the same run, one of them on several ranks: every time, count and peak is the same, to the bit.
//
//   expect_same(simulate(plan, graph, options), on_ranks(3, plan, graph, options));
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "node/simulate/simulate.h"
#include "node/simulate/simulate_parallel.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"

namespace millrace::testing_support {

inline void expect_same(const SimulationResult& one, const SimulationResult& many) {
  EXPECT_EQ(one.samples, many.samples);
  EXPECT_EQ(one.events, many.events);
  EXPECT_EQ(one.begun, many.begun);
  EXPECT_EQ(one.finished, many.finished);
  EXPECT_EQ(one.images_per_second, many.images_per_second);
  EXPECT_EQ(one.idle_fraction, many.idle_fraction);
  EXPECT_EQ(one.in_flight_samples, many.in_flight_samples);
  ASSERT_EQ(one.devices.size(), many.devices.size());
  for (size_t d = 0; d < one.devices.size(); ++d) {
    EXPECT_EQ(one.devices[d].index, many.devices[d].index);
    EXPECT_EQ(one.devices[d].idle_fraction, many.devices[d].idle_fraction);
    EXPECT_EQ(one.devices[d].act_ram_peak_bits, many.devices[d].act_ram_peak_bits);
    EXPECT_EQ(one.devices[d].fifo_peak_bits, many.devices[d].fifo_peak_bits);
  }
  ASSERT_EQ(one.stages.size(), many.stages.size());
  for (size_t s = 0; s < one.stages.size(); ++s) {
    EXPECT_EQ(one.stages[s].device, many.stages[s].device);
    EXPECT_EQ(one.stages[s].busy, many.stages[s].busy);
    EXPECT_EQ(one.stages[s].window, many.stages[s].window);
    EXPECT_EQ(one.stages[s].waited, many.stages[s].waited);
  }
  ASSERT_EQ(one.shards.size(), many.shards.size());
  for (size_t s = 0; s < one.shards.size(); ++s) EXPECT_EQ(one.shards[s].peak_bits, many.shards[s].peak_bits);
  ASSERT_EQ(one.flows.size(), many.flows.size());
  for (size_t f = 0; f < one.flows.size(); ++f) EXPECT_EQ(one.flows[f].elements, many.flows[f].elements);
  ASSERT_EQ(one.links.size(), many.links.size());
  for (size_t l = 0; l < one.links.size(); ++l) {
    EXPECT_EQ(one.links[l].forward_bits, many.links[l].forward_bits);
    EXPECT_EQ(one.links[l].backward_bits, many.links[l].backward_bits);
    EXPECT_EQ(one.links[l].utilisation, many.links[l].utilisation);
  }
  EXPECT_EQ(one.trace, many.trace);
}

// What rank 0 finds; none fails.
inline SimulationResult on_ranks(int64_t ranks, const Plan& plan, const Graph& graph, const SimulationOptions& options) {
  LocalHub hub(ranks);
  SimulationResult result;
  const std::vector<std::string> outcomes = outcomes_on_threads(ranks, [&](int64_t rank) {
    Transport transport(hub.wire(rank));
    SimulationResult mine = simulate(plan, graph, options, transport);
    if (rank == 0) result = std::move(mine);
  });
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
  return result;
}

}  // namespace millrace::testing_support
