// What an update holds up, told by the passage of a few samples, beside whole runs.
#include "node/simulate/update_hold.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "core/base/index.h"
#include "node/simulate/simulate.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace::testing_support {
namespace {

// A stack of recurrent layers, with a shortcut every few of them; the errors of a sequence begin with its last step.
Model recurrent_stack(int64_t layers, int64_t steps, int64_t cells, int64_t skip) {
  ModelBuilder net("stack", {cells, steps, 1});
  std::string shortcut;
  for (int64_t l = 1; l <= layers; ++l) {
    net.layer(fmt::format("rnn{}", l), Recurrent{.cell = CellKind::kVanillaTanh, .hidden = cells});
    if (skip == 0 || l % skip != 0) continue;
    shortcut = shortcut.empty() ? net.last() : net.add(fmt::format("add{}", l), {net.last(), shortcut});
  }
  net.layer("last", LastStep{});
  net.dense("fc", 2);
  return net.finish();
}

// By how much a mini-batch is longer than its samples' periods, over the run's last.
int64_t held_in_run(const Plan& plan, const Graph& graph, int64_t mini_batches) {
  const SimulationResult result = simulate(plan, graph, {.samples = mini_batches * plan.mini_batch});
  const auto seconds = static_cast<double>(plan.mini_batch) / mini_batch_rate(plan, result);
  return std::llround(1e12 * seconds) - plan.mini_batch * slowest_stage(plan, graph);
}

void expect_as_in_run(const Plan& plan, const Graph& graph, const std::string& what) {
  const auto period = static_cast<double>(slowest_stage(plan, graph));
  const double told = static_cast<double>(simulation::update_hold(plan, graph)) / period;
  const double seen = static_cast<double>(held_in_run(plan, graph, 6)) / period;
  EXPECT_NEAR(told, seen, 0.1) << what;
}

TEST(UpdateHold, IsThatOfWholeRuns) {
  std::mt19937_64 generator(11);
  const auto drawn = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(generator); };
  int held = 0, free = 0;
  for (int i = 0; i < 60; ++i) {
    const int64_t layers = drawn(2, 6);
    const bool recurs = i % 2 == 0;
    const Graph graph(recurs ? recurrent_stack(layers, drawn(12, 40), 4, drawn(0, 2)) : row_convolutions(layers, drawn(8, 24), 3));
    const auto alignment =
        std::array{Alignment::kFpdeep, Alignment::kFpdeep, Alignment::kStash, Alignment::kOneForwardOneBackward}[to_size(i) % 4];
    const int64_t devices = std::ssize(graph.groups());
    std::vector<int64_t> windows(to_size(devices), drawn(1, 4));
    Plan plan = one_layer_per_device(graph, {10, 10, 0, 0.1 * static_cast<double>(drawn(1, 20))}, drawn(8, 16), alignment, windows);
    for (Shard& shard : plan.shards)
      if (graph.node(graph.index_of(shard.layer)).computes) set_times(shard, graph, kMicrosecond * drawn(1, 3));
    const int64_t hold = simulation::update_hold(plan, graph);
    (hold > slowest_stage(plan, graph) / 2 ? held : free) += 1;
    expect_as_in_run(plan, graph, fmt::format("{}: {} layers, {}, windows of {}", i, layers, name_of(alignment), windows.front()));
  }
  EXPECT_GT(held, 10);
  EXPECT_GT(free, 10);
}

}  // namespace
}  // namespace millrace::testing_support
