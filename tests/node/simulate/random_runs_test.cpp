// Random networks, cuts, times and homes: whatever the plan says crosses a link crosses it, to the bit.
#include "tests/node/simulate/random_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/plan/flow_load.h"
#include "node/simulate/simulate.h"
#include "tests/core/random_plans.h"

namespace millrace {
namespace {

using namespace testing_support;

void expect_flows_of_plan(const Plan& plan, const SimulationResult& result) {
  ASSERT_EQ(result.flows.size(), plan.flows.size());
  const int64_t mini_batches = result.samples / plan.mini_batch;
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    ASSERT_EQ(result.flows[f].flow, static_cast<int64_t>(f));
    int64_t expected = flow.elements_per_sample * result.samples;
    if (flow.stream == Stream::kGradient) expected = flow.elements_per_pass * plan.micro_batches() * mini_batches;
    if (flow.stream == Stream::kParameter) {
      const int64_t user = plan.shards[static_cast<size_t>(flow.consumer_shard)].device;
      expected = flow.elements_per_pass * parameter_passes(actions_of(schedule_spec(plan, user, mini_batches)));
    }
    EXPECT_EQ(result.flows[f].elements, expected) << "flow " << f << " " << name_of(flow.stream) << " " << flow.tensor;
  }
  // A mini-batch of the full pipeline, as the plan counts it.
  for (size_t l = 0; l < plan.links.size(); ++l) {
    const auto index = static_cast<int64_t>(l);
    const auto batch = static_cast<double>(plan.mini_batch);
    EXPECT_DOUBLE_EQ(result.links[l].forward_bits_per_image * batch,
                     static_cast<double>(load_of(plan, index, Direction::kForward).bits_per_mini_batch));
    EXPECT_DOUBLE_EQ(result.links[l].backward_bits_per_image * batch,
                     static_cast<double>(load_of(plan, index, Direction::kBackward).bits_per_mini_batch));
  }
}

void expect_times_make_sense(const SimulationResult& result) {
  for (size_t s = 0; s < result.finished.size(); ++s) {
    EXPECT_GE(result.begun[s], 0);
    EXPECT_GT(result.finished[s], result.begun[s]);
  }
  for (const SimulatedStage& stage : result.stages) {
    int64_t all = stage.busy;
    for (const int64_t waited : stage.waited) {
      EXPECT_GE(waited, 0);
      all += waited;
    }
    // What a stage does not spend at work it waits for something.
    EXPECT_EQ(all, stage.window) << "device " << stage.device << " shard " << stage.shard << " " << name_of(stage.phase);
  }
}

class EveryAlignment : public ::testing::TestWithParam<Alignment> {};

TEST_P(EveryAlignment, MovesWhatThePlanSays) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomRun run(seed, GetParam());
    const SimulationResult result = simulate(run.plan, run.graph, run.options);
    expect_flows_of_plan(run.plan, result);
    expect_times_make_sense(result);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlignment,
                         ::testing::Values(Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                           Alignment::kZeroBubble),
                         [](const auto& instance) {
                           std::string name(name_of(instance.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(RandomRuns, TheSameTwice) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    const RandomRun run(seed, Alignment::kFpdeep);
    const SimulationResult once = simulate(run.plan, run.graph, run.options);
    const SimulationResult again = simulate(run.plan, run.graph, run.options);
    EXPECT_EQ(once.finished, again.finished);
    EXPECT_EQ(once.events, again.events);
  }
}

}  // namespace
}  // namespace millrace
